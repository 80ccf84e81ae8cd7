// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/fault_recovery.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <mutex>

#include "engine/core/copy.h"

namespace swrnic::engine {

namespace {

// The processor's part: at which instruction the fault was, and, in a copy, whether a write met it.
#if defined(__x86_64__)

std::uintptr_t instruction_of(const mcontext_t& registers) {
    return static_cast<std::uintptr_t>(registers.gregs[REG_RIP]);
}
void go_on_at(mcontext_t& registers, std::uintptr_t instruction) {
    registers.gregs[REG_RIP] = static_cast<greg_t>(instruction);
}
bool is_of_write(const mcontext_t& registers) {
    constexpr greg_t kWrite = 2;  // of the page fault's error code
    return (registers.gregs[REG_ERR] & kWrite) != 0;
}

#elif defined(__aarch64__)

std::uintptr_t instruction_of(const mcontext_t& registers) {
    return registers.pc;
}
void go_on_at(mcontext_t& registers, std::uintptr_t instruction) {
    registers.pc = instruction;
}
// Not every kernel hands out the syndrome register, which would say it of any instruction.
bool is_of_write(const mcontext_t& registers) {
    constexpr std::uint32_t kLoads = 1U << 22;  // L, or the lower bit of opc: of every load and store in a copy
    return (*reinterpret_cast<const std::uint32_t*>(registers.pc) & kLoads) == 0;
}

#endif

#if SWRNIC_RECOVERS_FROM_FAULTS

class Registers {
  public:
    explicit Registers(void* context) : registers_(static_cast<ucontext_t*>(context)->uc_mcontext) {}
    bool are_in_copy() const {
        const std::uintptr_t at = instruction_of(registers_);
        return at >= reinterpret_cast<std::uintptr_t>(&swrnic_copy) &&
               at < reinterpret_cast<std::uintptr_t>(swrnic_copy_end);
    }
    bool wrote() const { return is_of_write(registers_); }
    void fail_copy() { go_on_at(registers_, reinterpret_cast<std::uintptr_t>(swrnic_copy_failed)); }

  private:
    mcontext_t& registers_;
};

#else

// Here a fault in a copy ends the process.
class Registers {
  public:
    explicit Registers(void*) {}
    bool are_in_copy() const { return false; }
    bool wrote() const { return false; }
    void fail_copy() {}
};

#endif

constexpr std::array kSignals{SIGSEGV, SIGBUS};

// What was set before ours; and what was before that is kept, since somebody may be reading it.
struct Earlier {
    struct sigaction action;
    bool may_lift_protection;
    const Earlier* replaced;
};
// A signal handler has no other place to find it in.
std::array<std::atomic<const Earlier*>, kSignals.size()> earlier_actions{};
// What a handler of the program's is being called for, by which frame of handle(). Nobody takes it away: a handler may
// leave by siglongjmp().
struct PassedOn {
    const void* context;
    const void* frame;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local PassedOn passed_on{nullptr, nullptr};

void handle(int number, siginfo_t* info, void* context);

bool is_ours(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &handle;
}

// Also for a stack that overflowed, if its thread has another one for signals.
struct sigaction our_action() {
    struct sigaction action {};
    action.sa_sigaction = &handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    return action;
}

std::atomic<const Earlier*>& earlier_of(int number) {
    return earlier_actions[number == SIGSEGV ? 0 : 1];
}

// The start of the file from which the code at `at` was loaded, or null.
const void* file_of(const void* at) {
    Dl_info found{};
    return at != nullptr && dladdr(at, &found) != 0 ? found.dli_fbase : nullptr;
}

// A sanitizer's handler reports the fault and ends the process. It is known by its shared run time; one that is linked
// into the program cannot be told from the program's own handlers.
bool is_a_sanitizers(const struct sigaction& action) {
    const void* const run_time = file_of(dlsym(RTLD_DEFAULT, "__sanitizer_set_death_callback"));
    return run_time != nullptr && run_time != file_of(reinterpret_cast<const void*>(getauxval(AT_ENTRY))) &&
           run_time == file_of(reinterpret_cast<const void*>(action.sa_sigaction));
}

// A handler that was set behind ours may call ours for what it does not want, and would get it back. Each signal has a
// context of its own, if maybe at the same place as an earlier one; but only a call from within has a deeper frame.
bool comes_back(const void* context, const void* frame) {
    return passed_on.context == context && std::less<>()(frame, passed_on.frame);
}

// Null: none, or it has had the signal already.
const Earlier* handler_of_program(int number, bool had) {
    const Earlier* found = earlier_of(number).load(std::memory_order_acquire);
    if (found == nullptr || had) return nullptr;
    return found->action.sa_handler == SIG_DFL || found->action.sa_handler == SIG_IGN ? nullptr : found;
}

// As the kernel would.
void call(const struct sigaction& action, int number, siginfo_t* info, void* context) {
    static constexpr Earlier kDefault{};  // SIG_DFL is 0
    if ((action.sa_flags & SA_RESETHAND) != 0) earlier_of(number).store(&kDefault, std::memory_order_release);
    sigset_t blocked = action.sa_mask, before;
    if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, number);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(number, info, context);
    } else {
        action.sa_handler(number);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// As if ours were not there: the fault comes again when we return, and so must a signal that was sent.
void take_default(int number, const siginfo_t& info) {
    const bool was_sent = info.si_code <= 0;
    const Earlier* found = earlier_of(number).load(std::memory_order_acquire);
    if (was_sent && found != nullptr && found->action.sa_handler == SIG_IGN) return;
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
    if (was_sent) raise(number);
}

// Brings a page in as the access would. False: that access is not allowed; or the kernel is older than 5.14.
bool populate(const void* at, bool writes) {
    constexpr int kPopulateRead = 22, kPopulateWrite = 23;  // MADV_POPULATE_*
    const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(at) & ~(size - 1);
    return syscall(SYS_madvise, page, size, writes ? kPopulateWrite : kPopulateRead) == 0;
}

// Whether the handler has lifted the protection. It is believed where the kernel cannot be asked.
bool is_lifted(const void* at, bool writes) {
    const char on_the_stack = 0;
    return populate(at, writes) || !populate(&on_the_stack, writes);
}

// Async-signal-safe.
void handle(int number, siginfo_t* info, void* context) {
    const int error = errno;
    Registers registers(context);
    const void* const frame = __builtin_frame_address(0);
    const Earlier* const programs = handler_of_program(number, comes_back(context, frame));
    if (programs != nullptr) passed_on = {context, frame};
    if (!registers.are_in_copy()) {
        if (programs == nullptr) {
            take_default(number, *info);
        } else {
            call(programs->action, number, info, context);
        }
    } else if (number != SIGSEGV || info->si_code != SEGV_ACCERR || programs == nullptr ||
               !programs->may_lift_protection) {
        registers.fail_copy();
    } else {
        call(programs->action, number, info, context);
        if (!is_lifted(info->si_addr, registers.wrote())) {
            // Some give up by setting the default, which the next fault would meet.
            const struct sigaction ours = our_action();
            sigaction(number, &ours, nullptr);
            registers.fail_copy();
        }
    }
    errno = error;
}

}  // namespace

void recover_from_faults() {
    static std::mutex one_at_a_time;
    const std::lock_guard hold(one_at_a_time);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
        struct sigaction now {};
        if (sigaction(kSignals[i], nullptr, &now) != 0 || is_ours(now)) continue;
        earlier_actions[i].store(new Earlier{now, !is_a_sanitizers(now), earlier_actions[i].load()},
                                 std::memory_order_release);
        const struct sigaction ours = our_action();
        sigaction(kSignals[i], &ours, nullptr);
    }
}

}  // namespace swrnic::engine
