// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "install_tree.h"

namespace swrnic::test {
namespace {

class RunTest : public ::testing::Test {
  protected:
    void SetUp() override {
        tree_.add_library("libswrnic-preload.so");
        tree_.add_providers();
    }

    // What LD_PRELOAD begins with, by the kind of build.
    [[nodiscard]] std::string preload() const {
        constexpr std::string_view kRuntime = SWRNIC_SANITIZER_RUNTIME;
        const std::string library = tree_.path("lib/libswrnic-preload.so");
        return kRuntime.empty() ? library : std::string{kRuntime} + ":" + library;
    }

    InstallTree tree_;
};

constexpr const char* kShowArguments = R"(printf '[%s]' "$@")";

TEST_F(RunTest, ArgumentsReachTheCommandUnchanged) {
    const Outcome with_mark =
        tree_.swrnic({"run", "--", "sh", "-c", kShowArguments, "sh", "a", "", "b c", "--help", "-x", "--", "*"});
    EXPECT_EQ(with_mark.out, "[a][][b c][--help][-x][--][*]");
    EXPECT_EQ(with_mark.code, 0);
    const Outcome without = tree_.swrnic({"run", "sh", "-c", kShowArguments, "sh", "--version", "--", "run"});
    EXPECT_EQ(without.out, "[--version][--][run]");
    EXPECT_EQ(without.err, "");
}

TEST_F(RunTest, ExitCodeAndSignalAreTheCommands) {
    EXPECT_EQ(tree_.swrnic({"run", "true"}).code, 0);
    EXPECT_EQ(tree_.swrnic({"run", "--", "sh", "-c", "exit 7"}).code, 7);
    EXPECT_EQ(tree_.swrnic({"run", "--", "sh", "-c", "kill -TERM $$"}).code, -15);
}

TEST_F(RunTest, TheProcessBecomesTheCommand) {
    const Outcome outcome = tree_.swrnic({"run", "sh", "-c", "echo $$"});
    EXPECT_EQ(outcome.out, std::to_string(outcome.pid) + "\n");
}

TEST_F(RunTest, StandardInputIsTheCommands) {
    EXPECT_EQ(tree_.swrnic({"run", "cat"}, {}, "a\nb").out, "a\nb");
}

TEST_F(RunTest, TheEnvironmentGainsTheDeviceAndKeepsTheRest) {
    const Outcome outcome = tree_.swrnic({"run", "sh", "-c", R"(echo "$LD_PRELOAD|$IBV_DRIVERS|$OTHER|$SWRNIC_CRC")"},
                                         {{"OTHER", "a b"}, {"SWRNIC_CRC", "on"}});
    EXPECT_EQ(outcome.out, preload() + "|" + tree_.path("lib/libswrnic") + "|a b|on\n");
}

TEST_F(RunTest, WhatIsAlreadyPreloadedComesBehind) {
    tree_.add_library("libother.so");
    const std::string other = tree_.path("lib/libother.so");
    constexpr std::string_view kRuntime = SWRNIC_SANITIZER_RUNTIME;
    // A sanitized command can itself only start behind its runtime.
    const std::string before = kRuntime.empty() ? other : std::string{kRuntime} + ":" + other;
    const Outcome outcome = tree_.swrnic({"run", "sh", "-c", R"(echo "$LD_PRELOAD|$IBV_DRIVERS")"},
                                         {{"LD_PRELOAD", before}, {"IBV_DRIVERS", "mlx5"}});
    EXPECT_EQ(outcome.out, preload() + ":" + before + "|" + tree_.path("lib/libswrnic") + ":mlx5\n");
}

TEST_F(RunTest, AMissingCommandIs127AndAnUnusableOne126) {
    const Outcome missing = tree_.swrnic({"run", "--", "no-such-program-anywhere"}, {{"SWRNIC_LOG", "off"}});
    EXPECT_EQ(missing.code, 127);
    EXPECT_NE(missing.err.find("cannot run 'no-such-program-anywhere'"), std::string::npos) << missing.err;
    EXPECT_EQ(tree_.swrnic({"run", "--", tree_.path("lib")}).code, 126);
}

TEST_F(RunTest, AWrongSettingIsRefusedBeforeTheCommandStarts) {
    for (const auto& [name, value] : Environment{{"SWRNIC_CRC", "maybe"},
                                                 {"SWRNIC_FPDU", "9000"},
                                                 {"SWRNIC_MPA_REV", "3"},
                                                 {"SWRNIC_TIMEOUT", "0"},
                                                 {"SWRNIC_RNR_TIMEOUT", "x"},
                                                 {"SWRNIC_PORTS", "0"},
                                                 {"SWRNIC_LOG", "all"}}) {
        const Outcome outcome = tree_.swrnic({"run", "echo", "started"}, {{name, value}});
        EXPECT_EQ(outcome.code, 2);
        EXPECT_EQ(outcome.out, "");
        EXPECT_NE(outcome.err.find(name + "=" + value), std::string::npos) << outcome.err;
        EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
}

TEST_F(RunTest, AMisspeltSettingIsPointedOutAndTheCommandRuns) {
    const Outcome outcome = tree_.swrnic({"run", "echo", "started"}, {{"SWRNIC_CRCS", "on"}});
    EXPECT_EQ(outcome.out, "started\n");
    EXPECT_NE(outcome.err.find("SWRNIC_CRCS is set but is not a setting"), std::string::npos) << outcome.err;
}

TEST_F(RunTest, UsageErrorsAre2) {
    EXPECT_EQ(tree_.swrnic({}).code, 2);
    EXPECT_EQ(tree_.swrnic({"run"}).code, 2);
    EXPECT_EQ(tree_.swrnic({"run", "--"}).code, 2);
    EXPECT_EQ(tree_.swrnic({"rum", "true"}).code, 2);
    const Outcome option = tree_.swrnic({"run", "--nonsense", "true"});
    EXPECT_EQ(option.code, 2);
    EXPECT_NE(option.err.find("--nonsense"), std::string::npos) << option.err;
}

TEST_F(RunTest, HelpAndVersionAreTold) {
    const Outcome help = tree_.swrnic({"run", "--help"});
    EXPECT_EQ(help.code, 0);
    for (const char* name : {"SWRNIC_CRC", "SWRNIC_FPDU", "SWRNIC_MPA_REV", "SWRNIC_TIMEOUT", "SWRNIC_RNR_TIMEOUT",
                             "SWRNIC_PORTS", "SWRNIC_LOG", "SWRNIC_DEVICES"})
        EXPECT_NE(help.out.find(name), std::string::npos) << name;
    EXPECT_EQ(tree_.swrnic({"--version"}).out.rfind("swrnic ", 0), 0U);
}

TEST(RunWithoutLibraries, IsRefusedAndSaysWhereItLooked) {
    const InstallTree tree;
    const Outcome no_preload = tree.swrnic({"run", "echo", "started"});
    EXPECT_EQ(no_preload.code, 2);
    EXPECT_EQ(no_preload.out, "");
    EXPECT_NE(no_preload.err.find("libswrnic-preload.so not found (searched " + tree.path("lib")), std::string::npos)
        << no_preload.err;
    tree.add_library("libswrnic-preload.so");
    const Outcome no_provider = tree.swrnic({"run", "echo", "started"});
    EXPECT_EQ(no_provider.code, 2);
    EXPECT_NE(no_provider.err.find("libswrnic-rdmav*.so not found"), std::string::npos) << no_provider.err;
}

TEST(RunFromAPathThatCannotBeListed, IsRefused) {
    const InstallTree tree{" with blank"};
    tree.add_library("libswrnic-preload.so");
    tree.add_providers();
    const Outcome outcome = tree.swrnic({"run", "echo", "started"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("move the build"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace swrnic::test
