// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "state.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "log.h"
#include "sanitizer_runtime.h"
#include "startup.h"
#include "ucma.h"

namespace swrnic::shim {
namespace {

constinit std::atomic<int> g_mode{0};
constinit std::atomic<State*> g_state{nullptr};
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
constinit std::atomic<int> g_waiting{0};  // threads, for the lock
constinit std::atomic<int> g_served{0};   // grows with each of them that gets it
constinit thread_local bool this_waits = false;
constinit std::atomic<int> g_pid{0};

void before_fork() {
    pthread_mutex_lock(&g_lock);
}
void in_parent() {
    pthread_mutex_unlock(&g_lock);
}

// Whoever waits already goes first, but for a thread that a signal's handler has interrupted: neither would go on.
void lock() {
    const int served = g_served.load();
    if (g_waiting.load() > 0 && !this_waits) g_served.wait(served);
    if (pthread_mutex_trylock(&g_lock) == 0) return;
    const bool interrupted = std::exchange(this_waits, true);
    g_waiting.fetch_add(1);
    pthread_mutex_lock(&g_lock);
    g_waiting.fetch_sub(1);
    this_waits = interrupted;
    g_served.fetch_add(1);  // after it has ceased to wait, or who sees it wait would miss this
    g_served.notify_all();
}

// What was opened before the fork belongs to the parent. The child closes its copies of the userspace shim's own
// sockets, never shuts them down, and starts afresh when it opens the device again.
void abandon(State& state) {
    state.fds.forked();
    if (state.startup != nullptr) state.startup->forked();
    state.startup = nullptr;  // leaked: its thread does not exist here
    state.qp_numbers.forked();
    state.qps.clear();
    for (const auto& [handle, id] : state.cm_ids)
        id->close_socket();
    state.cm_ids.clear();
    state.cm_groups.clear();
    state.random.forget();
}

void in_child() {
    g_pid.store(sys::getpid(), std::memory_order_relaxed);
    if (g_state.load(std::memory_order_relaxed) != nullptr) abandon(*g_state.load(std::memory_order_relaxed));
    g_waiting.store(0);  // their threads do not exist here
    pthread_mutex_unlock(&g_lock);
}

// Also counts the process in: a vfork()ed child is told by its number.
[[gnu::constructor]] void at_load() {
    g_pid.store(sys::getpid(), std::memory_order_relaxed);
    pthread_atfork(before_fork, in_parent, in_child);
}

// `swrnic run` has listed the runtime of this program's sanitizer before us. What this program executes is spared it,
// since interpreters would be asked for what they leak at their end, and fail. A path is left alone: we ourselves need
// that one.
[[gnu::constructor]] void keep_sanitizer_from_children() {
    const char* const whole = getenv("LD_PRELOAD");
    if (whole == nullptr) return;
    std::string_view list = whole;
    for (std::size_t end = list.find(':'); end != std::string_view::npos; end = list.find(':')) {
        if (!is_sanitizer_runtime(list.substr(0, end))) break;
        list.remove_prefix(end + 1);
    }
    if (list != whole) setenv("LD_PRELOAD", std::string(list).c_str(), 1);
}

// A wrong setting is not ours to complain about: the provider refuses it, with a clear line.
State* make_state() {
    auto* state = new State;
    std::string error;
    if (load_config(state->config, error)) set_log_level(state->config.log);
    return state;
}

bool kernel_has_rdma() {
    if (sys::faccess("/dev/infiniband") != 0) return false;
    if (sys::faccess("/dev/infiniband/rdma_cm") == 0) return true;
    for (int i = 0; i < 32; ++i) {
        if (sys::faccess(fmt::format("/dev/infiniband/uverbs{}", i).c_str()) == 0) return true;
    }
    return false;
}

// Where the kernel's devices are there, but not wanted.
bool insists_on_ours() {
    Config config;
    std::string error;
    return load_config(config, error) && config.only;
}

}  // namespace

Mode mode() {
    int known = g_mode.load(std::memory_order_acquire);
    if (known == 0) {
        if (getauxval(AT_SECURE) != 0) {
            known = static_cast<int>(Mode::kSecure);
        } else {
            known = static_cast<int>(kernel_has_rdma() && !insists_on_ours() ? Mode::kKernelHasRdma : Mode::kActive);
        }
        int expected = 0;
        if (g_mode.compare_exchange_strong(expected, known) && known == static_cast<int>(Mode::kKernelHasRdma)) {
            log(LogLevel::kWarn,
                "/dev/infiniband has devices of the kernel's; the userspace shim stays out of the way");
        }
    }
    return static_cast<Mode>(known);
}

Locked::Locked() {
    lock();
    if (g_state.load(std::memory_order_relaxed) == nullptr) g_state.store(make_state(), std::memory_order_release);
}

Locked::~Locked() {
    pthread_mutex_unlock(&g_lock);
}
State& Locked::operator*() const {
    return *g_state.load(std::memory_order_relaxed);
}
State* Locked::operator->() const {
    return g_state.load(std::memory_order_relaxed);
}

bool in_vforked_child() {
    return g_pid.load(std::memory_order_relaxed) != sys::getpid();
}

std::uint32_t RandomNumbers::next() {
    if (left_ == 0) {
        while (sys::getrandom(numbers_.data(), sizeof(numbers_)) != sizeof(numbers_)) {
        }
        left_ = numbers_.size();
    }
    return numbers_[--left_];
}

}  // namespace swrnic::shim
