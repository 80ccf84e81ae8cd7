// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "config.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace swrnic {
namespace {

using std::chrono::milliseconds;

constexpr const char* kNames[] = {"SWRNIC_CRC",         "SWRNIC_FPDU",       "SWRNIC_MPA_REV", "SWRNIC_TIMEOUT",
                                  "SWRNIC_RNR_TIMEOUT", "SWRNIC_LOG",        "SWRNIC_TRACE",   "SWRNIC_PORTS",
                                  "SWRNIC_DEVICES",     "SWRNIC_COMPLETION", "SWRNIC_ONLY",    "SWRNIC_PERSONA"};

class ConfigTest : public ::testing::Test {
  protected:
    void SetUp() override {
        for (const char* name : kNames)
            ::unsetenv(name);
        char pattern[] = "/tmp/swrnic-config-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern), nullptr);
        dir_ = pattern;
        path_ = dir_ + "/swrnic.conf";
    }

    void TearDown() override {
        for (const char* name : kNames)
            ::unsetenv(name);
        ::unlink(path_.c_str());
        ::rmdir(dir_.c_str());
    }

    void write_file(const std::string& text) { std::ofstream{path_} << text; }

    bool load() { return load_config_from(path_, config_, error_); }

    std::string refusal() {
        EXPECT_FALSE(load());
        EXPECT_EQ(error_.find('\n'), std::string::npos) << "one line: " << error_;
        return error_;
    }

    std::string dir_;
    std::string path_;
    Config config_;
    std::string error_;
};

TEST_F(ConfigTest, NoFileAndNoEnvironmentGiveTheDefaults) {
    config_.mpa_rev = 7;
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.crc, CrcMode::kAuto);
    EXPECT_EQ(config_.fpdu, FpduMode::kAuto);
    EXPECT_EQ(config_.mpa_rev, 2);
    EXPECT_EQ(config_.timeout, milliseconds{10'000});
    EXPECT_EQ(config_.rnr_timeout, milliseconds{1'000});
    EXPECT_EQ(config_.log, LogLevel::kWarn);
}

TEST_F(ConfigTest, EveryWordOfEveryVariable) {
    const std::pair<const char*, CrcMode> crc[] = {
        {"auto", CrcMode::kAuto}, {"on", CrcMode::kOn}, {"off", CrcMode::kOff}};
    for (const auto& [text, value] : crc) {
        ::setenv("SWRNIC_CRC", text, 1);
        ASSERT_TRUE(load()) << error_;
        EXPECT_EQ(config_.crc, value) << text;
    }
    const std::pair<const char*, FpduMode> fpdu[] = {
        {"auto", FpduMode::kAuto}, {"emss", FpduMode::kEmss}, {"64k", FpduMode::k64k}};
    for (const auto& [text, value] : fpdu) {
        ::setenv("SWRNIC_FPDU", text, 1);
        ASSERT_TRUE(load()) << error_;
        EXPECT_EQ(config_.fpdu, value) << text;
    }
    const std::pair<const char*, int> rev[] = {{"1", 1}, {"2", 2}};
    for (const auto& [text, value] : rev) {
        ::setenv("SWRNIC_MPA_REV", text, 1);
        ASSERT_TRUE(load()) << error_;
        EXPECT_EQ(config_.mpa_rev, value) << text;
    }
    const std::pair<const char*, LogLevel> log[] = {{"off", LogLevel::kOff},
                                                    {"error", LogLevel::kError},
                                                    {"warn", LogLevel::kWarn},
                                                    {"info", LogLevel::kInfo},
                                                    {"debug", LogLevel::kDebug}};
    for (const auto& [text, value] : log) {
        ::setenv("SWRNIC_LOG", text, 1);
        ASSERT_TRUE(load()) << error_;
        EXPECT_EQ(config_.log, value) << text;
    }
}

TEST_F(ConfigTest, SecondsTakeFractionsAndBothEndsOfTheRange) {
    const std::pair<const char*, int> timeout[] = {{"0.1", 100}, {"2.5", 2500}, {"30", 30'000}, {"86400", 86'400'000}};
    for (const auto& [text, value] : timeout) {
        ::setenv("SWRNIC_TIMEOUT", text, 1);
        ASSERT_TRUE(load()) << error_;
        EXPECT_EQ(config_.timeout, milliseconds{value}) << text;
    }
    const std::pair<const char*, int> rnr[] = {{"0", 0}, {"0.025", 25}, {"3600", 3'600'000}};
    for (const auto& [text, value] : rnr) {
        ::setenv("SWRNIC_RNR_TIMEOUT", text, 1);
        ASSERT_TRUE(load()) << error_;
        EXPECT_EQ(config_.rnr_timeout, milliseconds{value}) << text;
    }
}

TEST_F(ConfigTest, ThePersonaIsIwarpUnlessRoceIsWished) {
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.persona, Persona::kIwarp);
    ::setenv("SWRNIC_PERSONA", "roce", 1);
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.persona, Persona::kRoce);
}

TEST_F(ConfigTest, CompletionsOfWiredQpsMayMeanSent) {
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.completion, CompletionMode::kAuto);
    ::setenv("SWRNIC_COMPLETION", "placed", 1);
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.completion, CompletionMode::kPlaced);
    ::setenv("SWRNIC_COMPLETION", "sent", 1);
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.completion, CompletionMode::kSent);
}

TEST_F(ConfigTest, PortsAreTwoNumbersBothOfThemWithin) {
    ASSERT_TRUE(load()) << error_;
    EXPECT_FALSE(config_.ports);
    ::setenv("SWRNIC_PORTS", "1024-65535", 1);
    ASSERT_TRUE(load()) << error_;
    ASSERT_TRUE(config_.ports);
    EXPECT_EQ(config_.ports->first, 1024);
    EXPECT_EQ(config_.ports->last, 65535);
}

TEST_F(ConfigTest, OneDeviceUnlessMoreAreWished) {
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.devices, 1u);
    ::setenv("SWRNIC_DEVICES", "16", 1);
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.devices, 16u);
}

TEST_F(ConfigTest, WrongValuesAreRefusedAndTheLineSaysWhatIsAllowed) {
    const std::vector<std::pair<std::string, std::string>> wrong = {
        {"SWRNIC_PERSONA", "RoCE"},
        {"SWRNIC_CRC", "yes"},
        {"SWRNIC_CRC", "ON"},
        {"SWRNIC_CRC", ""},
        {"SWRNIC_FPDU", "65536"},
        {"SWRNIC_MPA_REV", "0"},
        {"SWRNIC_MPA_REV", "3"},
        {"SWRNIC_MPA_REV", "2 "},
        {"SWRNIC_TIMEOUT", "0.09"},
        {"SWRNIC_TIMEOUT", "86401"},
        {"SWRNIC_TIMEOUT", "10s"},
        {"SWRNIC_TIMEOUT", "nan"},
        {"SWRNIC_TIMEOUT", "inf"},
        {"SWRNIC_TIMEOUT", "-1"},
        {"SWRNIC_TIMEOUT", "0,5"},
        {"SWRNIC_RNR_TIMEOUT", "-0.1"},
        {"SWRNIC_RNR_TIMEOUT", ""},
        {"SWRNIC_RNR_TIMEOUT", "1e1"},
        {"SWRNIC_RNR_TIMEOUT", "3601"},
        {"SWRNIC_COMPLETION", "placed?"},
        {"SWRNIC_DEVICES", "0"},
        {"SWRNIC_DEVICES", "17"},
        {"SWRNIC_DEVICES", "two"},
        {"SWRNIC_PORTS", "1023-2000"},
        {"SWRNIC_PORTS", "2001-2000"},
        {"SWRNIC_PORTS", "2000"},
        {"SWRNIC_PORTS", "2000-"},
        {"SWRNIC_PORTS", "2000-65536"},
        {"SWRNIC_PORTS", "2000-2001 "},
        {"SWRNIC_LOG", "verbose"},
        {"SWRNIC_TRACE", "relative.pcapng"},
        {"SWRNIC_ONLY", "yes"},
    };
    for (const auto& [name, value] : wrong) {
        ::setenv(name.c_str(), value.c_str(), 1);
        const std::string line = refusal();
        EXPECT_NE(line.find(name + "=" + value), std::string::npos) << line;
        EXPECT_NE(line.find("the environment"), std::string::npos) << line;
        EXPECT_NE(line.find("allowed: "), std::string::npos) << line;
        ::unsetenv(name.c_str());
    }
}

TEST_F(ConfigTest, ARefusalLeavesTheConfigAlone) {
    config_.mpa_rev = 1;
    write_file("SWRNIC_CRC=on\nSWRNIC_LOG=loud\n");
    refusal();
    EXPECT_EQ(config_.mpa_rev, 1);
    EXPECT_EQ(config_.crc, CrcMode::kAuto);
}

TEST_F(ConfigTest, TheFileMayHoldCommentsBlanksAndNoLastNewline) {
    write_file("# site settings\n\n  SWRNIC_CRC = off  # trusted wire\r\nSWRNIC_TIMEOUT=0.5\nSWRNIC_MPA_REV=1");
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.crc, CrcMode::kOff);
    EXPECT_EQ(config_.timeout, milliseconds{500});
    EXPECT_EQ(config_.mpa_rev, 1);
}

TEST_F(ConfigTest, TheEnvironmentWinsOverTheFile) {
    write_file("SWRNIC_CRC=off\nSWRNIC_FPDU=emss\n");
    ::setenv("SWRNIC_CRC", "on", 1);
    ASSERT_TRUE(load()) << error_;
    EXPECT_EQ(config_.crc, CrcMode::kOn);
    EXPECT_EQ(config_.fpdu, FpduMode::kEmss);
}

TEST_F(ConfigTest, AWrongFileIsRefusedEvenWhereTheEnvironmentWouldWin) {
    write_file("SWRNIC_CRC=maybe\n");
    ::setenv("SWRNIC_CRC", "on", 1);
    EXPECT_EQ(refusal(), "wrong value SWRNIC_CRC=maybe in " + path_ + ", line 1; allowed: auto, on or off");
}

TEST_F(ConfigTest, UnknownNamesAndMalformedLinesAreRefusedWithTheirLine) {
    for (const char* line : {"SWRNIC_CRCS=on", "OTHER=1", "export SWRNIC_CRC=on", "=on"}) {
        write_file(std::string{"SWRNIC_LOG=info\n"} + line + "\n");
        EXPECT_NE(refusal().find("unknown name"), std::string::npos) << error_;
        EXPECT_NE(error_.find("line 2"), std::string::npos) << error_;
        EXPECT_NE(error_.find("SWRNIC_RNR_TIMEOUT"), std::string::npos) << error_;
    }
    write_file("SWRNIC_CRC on\n");
    EXPECT_NE(refusal().find("not NAME=value"), std::string::npos) << error_;
}

TEST_F(ConfigTest, ControlCharactersAndLongValuesDoNotReachTheMessage) {
    ::setenv("SWRNIC_LOG", ("a\nb\033" + std::string(500, 'x')).c_str(), 1);
    const std::string line = refusal();
    EXPECT_NE(line.find("SWRNIC_LOG=a?b?"), std::string::npos) << line;
    EXPECT_LT(line.size(), 200U);
}

TEST_F(ConfigTest, AFileThatCannotBeReadIsAnErrorNotAnEmptyFile) {
    error_.clear();
    EXPECT_FALSE(load_config_from(dir_, config_, error_));
    EXPECT_NE(error_.find("cannot read " + dir_), std::string::npos) << error_;
}

TEST_F(ConfigTest, AHugeFileIsRefused) {
    write_file("#" + std::string(70'000, 'x'));
    EXPECT_NE(refusal().find("larger than 65536 bytes"), std::string::npos) << error_;
}

}  // namespace
}  // namespace swrnic
