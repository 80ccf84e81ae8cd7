// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <string>

#include "config.h"
#include "doctor/report.h"
#include "environment.h"

namespace swrnic::tools {

namespace {

const char* word(CrcMode mode) {
    return mode == CrcMode::kAuto ? "auto" : mode == CrcMode::kOn ? "on" : "off";
}

const char* word(FpduMode mode) {
    return mode == FpduMode::kAuto ? "auto" : mode == FpduMode::kEmss ? "emss" : "64k";
}

}  // namespace

Findings check_settings() {
    Findings findings;
    Config config;
    std::string error;
    if (!load_config(config, error)) {
        findings.push_back(fail(error, "correct or remove it: every program under `swrnic run` refuses to start"));
        return findings;
    }
    findings.push_back(ok(exists(kConfigFile) ? fmt::format("{} is in order", kConfigFile)
                                              : fmt::format("{} is not there: the defaults hold", kConfigFile)));
    findings.push_back(
        ok(fmt::format("CRC {}, FPDU {}, MPA revision {}, timeout {} s, RNR timeout {} s", word(config.crc),
                       word(config.fpdu), config.mpa_rev, static_cast<double>(config.timeout.count()) / 1000,
                       static_cast<double>(config.rnr_timeout.count()) / 1000)));
    for (const std::string& name : unknown_variables())
        findings.push_back(note(fmt::format("{} is set but is not a setting", name),
                                "check the spelling; `swrnic run --help` lists the settings"));
    return findings;
}

}  // namespace swrnic::tools
