// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a case of the checker fails: by one exception that says what was expected and what was seen.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace checker {

class Failure : public std::runtime_error {
  public:
    explicit Failure(const std::string& text) : std::runtime_error(text) {}
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
    throw Failure(fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
void expect(bool ok, fmt::format_string<Args...> text, Args&&... args) {
    if (!ok) throw Failure(fmt::format(text, std::forward<Args>(args)...));
}

// Formats as the text of errno, read when it is formatted: arguments are evaluated in any order, the call that sets
// errno among them.
struct Errno {};

}  // namespace checker

template <>
struct fmt::formatter<checker::Errno> : fmt::formatter<const char*> {
    template <typename Context>
    auto format(checker::Errno, Context& context) const {
        return fmt::formatter<const char*>().format(std::strerror(errno), context);
    }
};
