// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "log.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

namespace swrnic::detail {

namespace {

constexpr std::size_t kLineMax = 1024;
constexpr std::size_t kTextMax = 1000;

const char* level_name(LogLevel level) {
    switch (level) {
        case LogLevel::kError:
            return "error";
        case LogLevel::kWarn:
            return "warn";
        case LogLevel::kInfo:
            return "info";
        case LogLevel::kDebug:
            return "debug";
        case LogLevel::kOff:
            break;
    }
    return "?";
}

// Peers and programs choose parts of the text: a control character must not begin a second line or drive the terminal.
void mask_controls(char* begin, const char* end) {
    std::for_each(begin, const_cast<char*>(end), [](char& c) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    });
}

}  // namespace

void write_log(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept {
    const int saved_errno = errno;
    std::array<char, kLineMax> line;
    char* out = fmt::format_to_n(line.data(), kLineMax - kTextMax - 1, "swrnic: {}: ", level_name(level)).out;
    char* const text = out;
    try {
        out = fmt::vformat_to_n(out, kTextMax, format, args).out;
    } catch (...) {  // formatters may allocate; the message is lost, the program is not
        out = text;
        constexpr fmt::string_view kLost = "(a message that could not be formatted)";
        out = std::copy(kLost.begin(), kLost.end(), out);
    }
    mask_controls(text, out);
    *out++ = '\n';
    // A closed or full stderr is nobody's concern here.
    static_cast<void>(::syscall(SYS_write, STDERR_FILENO, line.data(), static_cast<std::size_t>(out - line.data())));
    errno = saved_errno;
}

}  // namespace swrnic::detail
