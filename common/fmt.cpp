// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The library fmt, compiled here: its functions come with this header, and so do the templates that they use. What only
// its callers use is declared as instantiated by the library, and is instantiated for char below.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
#if FMT_VERSION < 110000
template void vformat_to<char>(buffer<char>&, string_view, format_args, locale_ref);
#endif
}  // namespace detail
FMT_END_NAMESPACE
