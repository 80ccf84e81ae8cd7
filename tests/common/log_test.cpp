// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace swrnic {
namespace {

// What body() writes to descriptor 2.
template <class Body>
std::string stderr_of(Body body) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const int saved = ::dup(STDERR_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    body();
    ::dup2(saved, STDERR_FILENO);
    ::close(saved);
    ::close(ends[1]);
    std::string text(8192, '\0');
    const ssize_t got = ::read(ends[0], text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    ::close(ends[0]);
    return text;
}

class LogTest : public ::testing::Test {
  protected:
    void TearDown() override { set_log_level(LogLevel::kWarn); }
};

TEST_F(LogTest, PrintsOneLineWithLevelAndText) {
    EXPECT_EQ(stderr_of([] { log(LogLevel::kError, "qp {:#x}: {}", 0x1234, "peer vanished"); }),
              "swrnic: error: qp 0x1234: peer vanished\n");
}

TEST_F(LogTest, TheThresholdDecides) {
    EXPECT_EQ(stderr_of([] { log(LogLevel::kInfo, "not by default"); }), "");
    EXPECT_EQ(stderr_of([] { log(LogLevel::kWarn, "by default"); }), "swrnic: warn: by default\n");
    set_log_level(LogLevel::kDebug);
    EXPECT_EQ(stderr_of([] { log(LogLevel::kDebug, "now"); }), "swrnic: debug: now\n");
    set_log_level(LogLevel::kOff);
    EXPECT_EQ(stderr_of([] { log(LogLevel::kError, "never"); }), "");
    EXPECT_FALSE(log_enabled(LogLevel::kOff));
}

TEST_F(LogTest, LongTextIsCutAndControlCharactersAreMasked) {
    const std::string line = stderr_of([] { log(LogLevel::kError, "a\nb\033[31m{}", std::string(5000, 'x')); });
    EXPECT_EQ(line.substr(0, 23), "swrnic: error: a b [31m");
    EXPECT_EQ(line.size(), 15U + 1000U + 1U);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST_F(LogTest, KeepsErrnoEvenWhenStderrIsClosed) {
    const int saved = ::dup(STDERR_FILENO);
    ::close(STDERR_FILENO);
    errno = ENOTTY;
    log(LogLevel::kError, "nobody reads this");
    const int after = errno;
    ::dup2(saved, STDERR_FILENO);
    ::close(saved);
    EXPECT_EQ(after, ENOTTY);
}

}  // namespace
}  // namespace swrnic
