// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The library fmt, compiled here: its functions come with this header, and so do the templates that they use. What only
// its callers use is declared as instantiated by the library, and is instantiated for char below.
#include <fmt/format-inl.h>

template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl<char>(fmt::detail::locale_ref);
template char fmt::detail::decimal_point_impl<char>(fmt::detail::locale_ref);
