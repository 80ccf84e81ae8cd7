// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Names of the shared libraries that programs built with a sanitizer are linked with.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace swrnic {

// "libasan.so.8" of gcc, "libclang_rt.asan-x86_64.so" of clang, and the like: a bare name, such as LD_PRELOAD can list.
inline bool is_sanitizer_runtime(std::string_view name) {
    constexpr std::string_view kGnu = "lib", kClang = "libclang_rt.";
    constexpr std::string_view kSanitizers[] = {"asan", "hwasan", "lsan", "tsan", "ubsan"};
    constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
    const bool clang = name.substr(0, kClang.size()) == kClang;
    if (!clang && name.substr(0, kGnu.size()) != kGnu) return false;
    if (name.find_first_not_of(kPlain) != std::string_view::npos || name.find(".so") == std::string_view::npos)
        return false;
    name.remove_prefix(clang ? kClang.size() : kGnu.size());
    return std::any_of(std::begin(kSanitizers), std::end(kSanitizers), [&](std::string_view sanitizer) {
        // clang's go on by a variant or the processor: ubsan_standalone-x86_64.so
        return name.substr(0, sanitizer.size()) == sanitizer && name.size() > sanitizer.size() &&
               (name[sanitizer.size()] == '.' ||
                (clang && (name[sanitizer.size()] == '-' || name[sanitizer.size()] == '_')));
    });
}

}  // namespace swrnic
