// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace swrnic {

namespace {

constexpr std::size_t kFileMax = 64 * 1024;  // bytes; a settings file of ten names is never larger
constexpr std::size_t kShownMax = 60;        // of a wrong value, in a message

template <class T>
struct Word {
    std::string_view text;
    T value;
};

template <class T, std::size_t N>
bool set_word(const std::array<Word<T>, N>& words, std::string_view text, T& out) {
    const auto* found = std::find_if(words.begin(), words.end(), [&](const Word<T>& w) { return w.text == text; });
    if (found == words.end()) return false;
    out = found->value;
    return true;
}

// std::from_chars: no locale, so that "0.5" means the same in every program that the library is loaded into.
bool set_seconds(std::string_view text, double low, double high, std::chrono::milliseconds& out) {
    double seconds = 0;
    const auto [end, status] =
        std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
    if (status != std::errc{} || end != text.data() + text.size()) return false;
    if (!(seconds >= low && seconds <= high)) return false;  // also refuses nan
    out = std::chrono::milliseconds{std::llround(seconds * 1000)};
    return true;
}

struct Setting {
    const char* name;
    const char* allowed;
    bool (*set)(std::string_view text, Config& config);
};

bool set_persona(std::string_view text, Config& config) {
    static constexpr std::array<Word<Persona>, 2> kWords{{{"iwarp", Persona::kIwarp}, {"roce", Persona::kRoce}}};
    return set_word(kWords, text, config.persona);
}

bool set_devices(std::string_view text, Config& config) {
    unsigned devices = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), devices);
    if (status != std::errc{} || end != text.data() + text.size() || devices < 1 || devices > kMaxDevices) return false;
    config.devices = devices;
    return true;
}

bool set_crc(std::string_view text, Config& config) {
    static constexpr std::array<Word<CrcMode>, 3> kWords{
        {{"auto", CrcMode::kAuto}, {"on", CrcMode::kOn}, {"off", CrcMode::kOff}}};
    return set_word(kWords, text, config.crc);
}

bool set_fpdu(std::string_view text, Config& config) {
    static constexpr std::array<Word<FpduMode>, 3> kWords{
        {{"auto", FpduMode::kAuto}, {"emss", FpduMode::kEmss}, {"64k", FpduMode::k64k}}};
    return set_word(kWords, text, config.fpdu);
}

bool set_completion(std::string_view text, Config& config) {
    static constexpr std::array<Word<CompletionMode>, 3> kWords{
        {{"auto", CompletionMode::kAuto}, {"placed", CompletionMode::kPlaced}, {"sent", CompletionMode::kSent}}};
    return set_word(kWords, text, config.completion);
}

bool set_mpa_rev(std::string_view text, Config& config) {
    static constexpr std::array<Word<std::uint8_t>, 2> kWords{{{"1", 1}, {"2", 2}}};
    return set_word(kWords, text, config.mpa_rev);
}

bool set_timeout(std::string_view text, Config& config) {
    return set_seconds(text, 0.1, 86400, config.timeout);
}

bool set_rnr_timeout(std::string_view text, Config& config) {
    return set_seconds(text, 0, 3600, config.rnr_timeout);
}

bool set_ports(std::string_view text, Config& config) {
    constexpr std::uint16_t kLowest = 1024;
    PortRange range{};
    const auto [dash, first_status] = std::from_chars(text.data(), text.data() + text.size(), range.first);
    if (first_status != std::errc{} || dash == text.data() + text.size() || *dash != '-') return false;
    const auto [end, last_status] = std::from_chars(dash + 1, text.data() + text.size(), range.last);
    if (last_status != std::errc{} || end != text.data() + text.size()) return false;
    if (range.first < kLowest || range.last < range.first) return false;
    config.ports = range;
    return true;
}

bool set_log(std::string_view text, Config& config) {
    static constexpr std::array<Word<LogLevel>, 5> kWords{{{"off", LogLevel::kOff},
                                                           {"error", LogLevel::kError},
                                                           {"warn", LogLevel::kWarn},
                                                           {"info", LogLevel::kInfo},
                                                           {"debug", LogLevel::kDebug}}};
    return set_word(kWords, text, config.log);
}

bool set_trace(std::string_view text, Config& config) {
    if (!text.empty() && text.front() != '/') return false;
    config.trace = text;
    return true;
}

bool set_only(std::string_view text, Config& config) {
    static constexpr std::array<Word<bool>, 2> kWords{{{"on", true}, {"off", false}}};
    return set_word(kWords, text, config.only);
}

constexpr std::array<Setting, 12> kSettings{{
    {"SWRNIC_PERSONA", "iwarp or roce", set_persona},
    {"SWRNIC_DEVICES", "a number from 1 to 16", set_devices},
    {"SWRNIC_CRC", "auto, on or off", set_crc},
    {"SWRNIC_FPDU", "auto, emss or 64k", set_fpdu},
    {"SWRNIC_COMPLETION", "auto, placed or sent", set_completion},
    {"SWRNIC_MPA_REV", "1 or 2", set_mpa_rev},
    {"SWRNIC_TIMEOUT", "seconds from 0.1 to 86400", set_timeout},
    {"SWRNIC_RNR_TIMEOUT", "seconds from 0 to 3600", set_rnr_timeout},
    {"SWRNIC_PORTS", "two ports from 1024 to 65535, as in 20000-20100", set_ports},
    {"SWRNIC_LOG", "off, error, warn, info or debug", set_log},
    {"SWRNIC_TRACE", "the absolute path of a file", set_trace},
    {"SWRNIC_ONLY", "on or off", set_only},
}};

// What a user or a file wrote, fit for one line of a message.
std::string shown(std::string_view text) {
    std::string result{text.substr(0, kShownMax)};
    std::replace_if(
        result.begin(), result.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
    if (text.size() > kShownMax) result += "...";
    return result;
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r";
    const std::size_t begin = text.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool apply(const Setting& setting, std::string_view value, std::string_view where, Config& config, std::string& error) {
    if (setting.set(value, config)) return true;
    error = fmt::format("wrong value {}={} in {}; allowed: {}", setting.name, shown(value), where, setting.allowed);
    return false;
}

// Direct system calls: the preload library, which links this, interposes open, read and close.
bool read_file(const std::string& path, std::string& text, std::string& error) {
    const auto fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY, 0));
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR) return true;
        error = fmt::format("cannot open {}: {}", path, ::strerror(errno));
        return false;
    }
    text.resize(kFileMax + 1);
    std::size_t filled = 0;
    long got = 0;
    while (filled < text.size()) {
        got = ::syscall(SYS_read, fd, text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        filled += static_cast<std::size_t>(got);
    }
    const int read_errno = errno;
    ::syscall(SYS_close, fd);
    if (got < 0) {
        error = fmt::format("cannot read {}: {}", path, ::strerror(read_errno));
        return false;
    }
    if (filled > kFileMax) {
        error = fmt::format("{} is larger than {} bytes", path, kFileMax);
        return false;
    }
    text.resize(filled);
    return true;
}

bool apply_line(std::string_view line, const std::string& where, Config& config, std::string& error) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) return true;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
        error = fmt::format("'{}' in {} is not NAME=value", shown(line), where);
        return false;
    }
    const std::string_view name = trimmed(line.substr(0, equals));
    const auto* setting =
        std::find_if(kSettings.begin(), kSettings.end(), [&](const Setting& s) { return s.name == name; });
    if (setting == kSettings.end()) {
        error = fmt::format("unknown name '{}' in {}; known:", shown(name), where);
        for (const Setting& s : kSettings)
            error.append(" ").append(s.name);
        return false;
    }
    return apply(*setting, trimmed(line.substr(equals + 1)), where, config, error);
}

bool apply_file(const std::string& path, Config& config, std::string& error) {
    std::string text;
    if (!read_file(path, text, error)) return false;
    std::string_view rest = text;
    for (unsigned number = 1; !rest.empty(); ++number) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        if (!apply_line(rest.substr(0, end), fmt::format("{}, line {}", path, number), config, error)) return false;
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return true;
}

bool apply_environment(Config& config, std::string& error) {
    return std::all_of(kSettings.begin(), kSettings.end(), [&](const Setting& setting) {
        // secure_getenv: a set-user-id program does not take its settings from the caller.
        const char* value = ::secure_getenv(setting.name);
        return value == nullptr || apply(setting, value, "the environment", config, error);
    });
}

}  // namespace

bool load_config_from(const std::string& path, Config& config, std::string& error) {
    Config loaded;
    if (!apply_file(path, loaded, error) || !apply_environment(loaded, error)) return false;
    config = loaded;
    return true;
}

bool load_config(Config& config, std::string& error) {
    return load_config_from(kConfigFile, config, error);
}

bool is_setting(std::string_view name) {
    return std::any_of(kSettings.begin(), kSettings.end(),
                       [&](const Setting& setting) { return setting.name == name; });
}

}  // namespace swrnic
