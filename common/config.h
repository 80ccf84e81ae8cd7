// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The user's settings: environment variables SWRNIC_*, else /etc/swrnic.conf with the same names, else the defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace swrnic {

enum class CrcMode : std::uint8_t { kAuto, kOn, kOff };                     // SWRNIC_CRC=auto|on|off
enum class FpduMode : std::uint8_t { kAuto, kEmss, k64k };                  // SWRNIC_FPDU=auto|emss|64k
enum class CompletionMode : std::uint8_t { kAuto, kPlaced, kSent };         // SWRNIC_COMPLETION=auto|placed|sent
enum class Persona : std::uint8_t { kIwarp, kRoce };                        // SWRNIC_PERSONA=iwarp|roce
enum class LogLevel : std::uint8_t { kOff, kError, kWarn, kInfo, kDebug };  // SWRNIC_LOG=off|error|warn|info|debug

struct PortRange {
    std::uint16_t first, last;  // both of them in it
};

inline constexpr unsigned kMaxDevices = 16;

struct Config {
    Persona persona = Persona::kIwarp;
    unsigned devices = 1;  // SWRNIC_DEVICES=1..kMaxDevices: swr0 and on, in the userspace shim
    CrcMode crc = CrcMode::kAuto;
    FpduMode fpdu = FpduMode::kAuto;
    CompletionMode completion = CompletionMode::kAuto;
    std::uint8_t mpa_rev = 2;                      // SWRNIC_MPA_REV=1|2
    std::chrono::milliseconds timeout{10'000};     // SWRNIC_TIMEOUT, seconds (fractions allowed), 0.1 to 86400
    std::chrono::milliseconds rnr_timeout{1'000};  // SWRNIC_RNR_TIMEOUT, seconds (fractions allowed), 0 to 3600
    std::optional<PortRange> ports;  // SWRNIC_PORTS=FIRST-LAST, from 1024 on; none: those of the kernel's choice
    LogLevel log = LogLevel::kWarn;
    std::string trace;  // SWRNIC_TRACE, an absolute path; empty: none
    bool only = false;  // SWRNIC_ONLY=on|off: swr0, though the kernel has devices
};

// Fills config; on a wrong value returns false with one clear line (name, value, where it stands, what is allowed) in
// error. Reads the environment and the file, nothing else; thread-safe as far as getenv is.
bool load_config(Config& config, std::string& error);
// The same with the file named: for tests and `swrnic doctor`. A file that does not exist is empty.
bool load_config_from(const std::string& path, Config& config, std::string& error);

inline constexpr const char* kConfigFile = "/etc/swrnic.conf";

// Whether a name is one of ours, so that a misspelt SWRNIC_ variable can be pointed out.
bool is_setting(std::string_view name);

}  // namespace swrnic
