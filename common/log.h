// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One line to stderr per message: "swrnic: level: text". Safe before main() and after exit() has begun.
//
// The threshold is the only state. It is one constant-initialised atomic per shared object (the provider and the
// preload library are built with hidden visibility, each has its own), because a logger that is handed through every
// call would be part of every signature, and one that is built at run time would not work before main().
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <concepts>
#include <string>

#include "config.h"

namespace swrnic {

namespace detail {

inline constinit std::atomic<LogLevel> log_threshold{LogLevel::kWarn};

// Formats into a buffer on the stack and hands it to the kernel in one write(2) on descriptor 2, so that lines of
// several threads and processes do not mix. A direct system call: the preload library interposes write(). errno is
// kept. Text beyond 1000 bytes is cut.
void write_log(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept;

}  // namespace detail

// Any thread, any time; called once after load_config().
inline void set_log_level(LogLevel level) noexcept {
    detail::log_threshold.store(level, std::memory_order_relaxed);
}

// What has a text() is printed by it: an argument that is costly to put into words costs nothing in a line that nobody
// wants.
template <typename T>
concept HasText = requires(const T& value) {
    { value.text() } -> std::same_as<std::string>;
};

// For callers whose arguments are costly to prepare.
[[nodiscard]] inline bool log_enabled(LogLevel level) noexcept {
    return level != LogLevel::kOff && level <= detail::log_threshold.load(std::memory_order_relaxed);
}

// log(LogLevel::kWarn, "qp {:#x}: {}", qpn, reason). Not async-signal-safe when the line is printed; one relaxed load
// when it is not. A message needs no newline and no prefix.
template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
    if (log_enabled(level)) detail::write_log(level, format, fmt::make_format_args(args...));
}

}  // namespace swrnic

template <swrnic::HasText T>
struct fmt::formatter<T> {
    static constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
    static auto format(const T& value, fmt::format_context& context) {
        return fmt::format_to(context.out(), "{}", value.text());
    }
};
