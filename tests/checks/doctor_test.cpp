// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <string>

#include "install_tree.h"

namespace swrnic::test {
namespace {

bool says(const Outcome& outcome, const std::string& text) {
    return outcome.out.find(text) != std::string::npos;
}

TEST(DoctorTest, CoversEveryThingThatAProgramNeeds) {
    const InstallTree tree;
    const Outcome outcome = tree.swrnic({"doctor"});
    for (const char* text :
         {"\nRDMA in the kernel", "kernel modules", "\nLibraries", "libibverbs of rdma-core", "librdmacm", "rping",
          "ib_write_bw", "\nSettings", "\nNetwork", "127.0.0.1", "IPv6", "congestion control", "open files",
          "locked memory", "set-user-id", "CRC32c", "\nThe device"})
        EXPECT_TRUE(says(outcome, text)) << text << " is missing in:\n" << outcome.out;
}

TEST(DoctorTest, MissingLibrariesFailWithAdvice) {
    const InstallTree tree;
    const Outcome outcome = tree.swrnic({"doctor"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(says(outcome, "FAIL  no libswrnic-preload.so in " + tree.path("lib"))) << outcome.out;
    EXPECT_TRUE(says(outcome, "-> build the whole tree")) << outcome.out;
    EXPECT_TRUE(says(outcome, "Result: `swrnic run` will not work here")) << outcome.out;
}

TEST(DoctorTest, AProviderForAnotherLibibverbsFails) {
    const InstallTree tree;
    tree.add_library("libswrnic-preload.so");
    tree.add_library("libswrnic-rdmav1.so");
    const Outcome outcome = tree.swrnic({"doctor"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(says(outcome, ".so, which is not in " + tree.path("lib"))) << outcome.out;
}

// Libraries that are found but make no device: only opening it can tell.
TEST(DoctorTest, ADeviceThatDoesNotOpenFails) {
    const InstallTree tree;
    tree.add_library("libswrnic-preload.so");
    tree.add_providers();
    const Outcome outcome = tree.swrnic({"doctor"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(says(outcome, "FAIL  a program that looks for the device fails")) << outcome.out;
    EXPECT_TRUE(says(outcome, "libibverbs lists no device")) << outcome.out;
}

TEST(DoctorTest, AWrongSettingFailsWithItsLine) {
    const InstallTree tree;
    const Outcome outcome = tree.swrnic({"doctor"}, {{"SWRNIC_TIMEOUT", "soon"}});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(says(outcome, "FAIL  wrong value SWRNIC_TIMEOUT=soon in the environment")) << outcome.out;
}

TEST(DoctorTest, SettingsInForceAreShown) {
    const InstallTree tree;
    const Outcome outcome =
        tree.swrnic({"doctor"}, {{"SWRNIC_CRC", "off"}, {"SWRNIC_MPA_REV", "1"}, {"SWRNIC_X", "1"}});
    EXPECT_TRUE(says(outcome, "CRC off, FPDU auto, MPA revision 1, timeout 10 s, RNR timeout 1 s")) << outcome.out;
    EXPECT_TRUE(says(outcome, "note  SWRNIC_X is set but is not a setting")) << outcome.out;
}

TEST(DoctorTest, MissingProgramsAreNotesThatNameThePackage) {
    const InstallTree tree;
    const Outcome outcome = tree.swrnic({"doctor"}, {{"PATH", tree.path("bin")}});
    EXPECT_TRUE(says(outcome, "note  ib_write_bw is not installed")) << outcome.out;
    EXPECT_TRUE(says(outcome, "-> apt-get install perftest")) << outcome.out;
    EXPECT_TRUE(says(outcome, "-> apt-get install rdmacm-utils")) << outcome.out;
}

}  // namespace
}  // namespace swrnic::test
