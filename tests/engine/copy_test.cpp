// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies that meet a fault: the copy fails, the process lives, and the program's own handlers are asked where it is
// theirs.
#include "engine/core/copy.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "engine/fault_recovery.h"
#include "page_that_goes.h"

namespace swrnic::engine::test {

namespace {

const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

std::byte* page_of_handler;
volatile sig_atomic_t handled;  // a handler changes it
void lift(int, siginfo_t*, void*) {
    handled = handled + 1;
    mprotect(page_of_handler, kPage, PROT_READ | PROT_WRITE);
}
void give_up(int number) {
    handled = handled + 1;
    signal(number, SIG_DFL);
}

sigjmp_buf way_out;
struct sigaction one_before;

void set_handler(int number, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(number, &action, nullptr);
}

std::vector<std::byte> octets(std::size_t length) {
    std::vector<std::byte> made(length);
    for (std::size_t i = 0; i < made.size(); ++i)
        made[i] = static_cast<std::byte>(i * 167 + i / 251 + 1);
    return made;
}

}  // namespace

TEST(CopyTest, CopiesEveryOctetAndNoOther) {
    constexpr std::size_t kGuard = 3;
    const std::vector<std::byte> from = octets(1100);
    for (std::size_t length = 0; length <= from.size(); ++length) {
        const std::vector<std::byte> empty(from.size() + 2 * kGuard, std::byte(0xee));
        std::vector<std::byte> to = empty, expected = empty;
        ASSERT_TRUE(copy_octets(to.data() + kGuard, from.data(), length));
        std::copy_n(from.data(), length, expected.data() + kGuard);
        ASSERT_EQ(to, expected) << length << " octets";
    }
}

// Each instruction of the copy that touches memory may be the one at fault, in reading and in writing.
TEST(CopyTest, FailsWhereMemoryIsGone) {
    recover_from_faults();
    std::vector<std::byte> good = octets(150);
    const swrnic::test::PageThatGoes page;
    page.unmap();
    for (std::size_t length = 1; length <= good.size(); ++length) {
        for (std::size_t inside = 0; inside < length; ++inside) {
            std::byte* const bad = page.data() - inside;
            ASSERT_FALSE(copy_octets(bad, good.data(), length)) << length << " octets, " << inside << " before the end";
            ASSERT_FALSE(copy_octets(good.data(), bad, length)) << length << " octets, " << inside << " before the end";
        }
    }
}

TEST(CopyTest, FailsWhereTheFileHasEnded) {
    recover_from_faults();
    std::array<char, 32> name{"/tmp/swrnic-copy-XXXXXX"};
    const int file = mkstemp(name.data());
    ASSERT_GE(file, 0);
    unlink(name.data());
    ASSERT_EQ(ftruncate(file, static_cast<off_t>(kPage)), 0);
    auto* const at = static_cast<std::byte*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    std::vector<std::byte> good = octets(100);
    EXPECT_TRUE(copy_octets(at, good.data(), good.size()));
    ASSERT_EQ(ftruncate(file, 0), 0);
    EXPECT_FALSE(copy_octets(at, good.data(), good.size()));
    EXPECT_FALSE(copy_octets(good.data(), at, good.size()));
    munmap(at, kPage);
    close(file);
}

TEST(CopyTest, FailsWhereProtectionIsNobodys) {
    signal(SIGSEGV, SIG_DFL);
    recover_from_faults();
    const std::vector<std::byte> good = octets(100);
    const swrnic::test::PageThatGoes page;
    page.protect(PROT_READ);
    EXPECT_FALSE(copy_octets(page.data(), good.data(), good.size()));
}

#ifdef __SANITIZE_ADDRESS__
// It would end the process with a report.
TEST(CopyTest, FailsWhereASanitizersHandlerIsBeforeUs) {
    const std::vector<std::byte> good = octets(100);
    const swrnic::test::PageThatGoes page;
    EXPECT_EXIT(
        {
            recover_from_faults();
            page.protect(PROT_NONE);
            _exit(copy_octets(page.data(), good.data(), good.size()) ? 1 : 0);
        },
        testing::ExitedWithCode(0), "");
}
#endif

// A write barrier, set before us or since.
TEST(CopyTest, GoesOnWhenTheProgramLiftsTheProtection) {
    const std::vector<std::byte> good = octets(100);
    const swrnic::test::PageThatGoes page;
    page_of_handler = page.data();
    for (const bool again : {false, true}) {
        if (again) recover_from_faults();
        set_handler(SIGSEGV, &lift);
        if (!again) recover_from_faults();
        page.protect(PROT_READ);
        handled = 0;
        ASSERT_TRUE(copy_octets(page.data(), good.data(), good.size()));
        EXPECT_EQ(handled, 1);
        EXPECT_TRUE(std::equal(good.begin(), good.end(), page.data()));
    }
    signal(SIGSEGV, SIG_DFL);
}

// As the run time of Rust does for a fault that it does not know.
TEST(CopyTest, FailsWhenTheProgramsHandlerGivesUp) {
    const std::vector<std::byte> good = octets(100);
    const swrnic::test::PageThatGoes page;
    for (int round = 0; round < 2; ++round) {
        signal(SIGSEGV, &give_up);
        recover_from_faults();
        page.protect(PROT_READ);
        handled = 0;
        EXPECT_FALSE(copy_octets(page.data(), good.data(), good.size()));
        EXPECT_FALSE(copy_octets(page.data(), good.data(), good.size()));
        EXPECT_GE(handled, 1);
    }
    signal(SIGSEGV, SIG_DFL);
}

// As programs do that look whether memory is there. Nothing of the first time may be left for the second.
TEST(CopyTest, TheProgramsHandlerMayJumpOut) {
    const swrnic::test::PageThatGoes page;
    page.protect(PROT_NONE);
    set_handler(SIGSEGV, [](int, siginfo_t*, void*) { siglongjmp(way_out, 1); });
    recover_from_faults();
    static int round;  // not in a register: a jump may bring an old value back
    for (round = 0; round < 3; ++round) {
        if (sigsetjmp(way_out, 1) == 0) {
            *static_cast<volatile std::byte*>(page.data()) = std::byte(1);
            FAIL() << "there is no fault";
        }
    }
    signal(SIGSEGV, SIG_DFL);
}

// It was ours before, and is called for what is not wanted; then ours was set in front of it once more.
TEST(CopyTest, AHandlerMayCallTheOneBeforeIt) {
    const std::vector<std::byte> good = octets(100);
    const swrnic::test::PageThatGoes page;
    EXPECT_EXIT(
        {
            signal(SIGSEGV, SIG_DFL);
            recover_from_faults();
            sigaction(SIGSEGV, nullptr, &one_before);
            set_handler(SIGSEGV, [](int number, siginfo_t* info, void* context) {
                one_before.sa_sigaction(number, info, context);
            });
            recover_from_faults();
            page.protect(PROT_READ);
            if (copy_octets(page.data(), good.data(), good.size())) _exit(1);
            *static_cast<volatile std::byte*>(page.data()) = std::byte(1);
        },
        testing::KilledBySignal(SIGSEGV), "");
}

// A handler that says what it knows once, and lets the process end by the fault's coming again.
TEST(CopyTest, AHandlerForOnceIsCalledOnce) {
    const swrnic::test::PageThatGoes page;
    EXPECT_EXIT(
        {
            struct sigaction once {};
            once.sa_handler = [](int) {
                if (write(STDERR_FILENO, "once\n", 5) != 5) _exit(1);
            };
            once.sa_flags = static_cast<int>(SA_RESETHAND);
            sigaction(SIGSEGV, &once, nullptr);
            recover_from_faults();
            page.protect(PROT_NONE);
            *static_cast<volatile std::byte*>(page.data()) = std::byte(1);
        },
        testing::KilledBySignal(SIGSEGV), "^once\n$");
}

// A fault that is the program's own is its handler's, or ends it as if we were not there.
TEST(CopyTest, OtherFaultsAreTheProgramsOwn) {
    const swrnic::test::PageThatGoes page;
    page_of_handler = page.data();
    set_handler(SIGSEGV, &lift);
    recover_from_faults();
    page.protect(PROT_NONE);
    handled = 0;
    *static_cast<volatile std::byte*>(page.data()) = std::byte(1);
    EXPECT_EQ(handled, 1);
    EXPECT_EXIT(
        {
            signal(SIGSEGV, SIG_DFL);
            recover_from_faults();
            page.protect(PROT_NONE);
            *static_cast<volatile std::byte*>(page.data()) = std::byte(1);
        },
        testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT(
        {
            signal(SIGBUS, SIG_DFL);
            recover_from_faults();
            raise(SIGBUS);
        },
        testing::KilledBySignal(SIGBUS), "");
    EXPECT_EXIT(
        {
            signal(SIGBUS, SIG_IGN);
            recover_from_faults();
            raise(SIGBUS);
            _exit(7);
        },
        testing::ExitedWithCode(7), "");
}

}  // namespace swrnic::engine::test
