// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The one process-wide state of the userspace shim, and the one lock over it.
//
// The lock is never held across anything that can wait for a peer or for the application. It is held in fork(), so that
// the child finds everything whole. The state is never destroyed: threads and other libraries' destructors may come
// here after exit().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "config.h"
#include "file.h"
#include "qp_numbers.h"

namespace swrnic::shim {

class CmId;
struct CmGroup;
class Startup;
struct Qp;

// Whether the userspace shim answers at all. Inert in setuid programs and where the kernel has RDMA character devices
// of its own.
enum class Mode : int { kActive = 1, kSecure, kKernelHasRdma };
Mode mode();  // decided once per process; lock-free afterwards
inline bool active() {
    return mode() == Mode::kActive;
}

// From the kernel, many at once. Process-wide: forget() in the child of a fork.
class RandomNumbers {
  public:
    std::uint32_t next();
    void forget() { left_ = 0; }

  private:
    std::array<std::uint32_t, 64> numbers_{};
    std::size_t left_ = 0;  // at the front
};

struct State {
    Config config;  // as it was when the process came here first
    FdTable fds;
    QpNumbers qp_numbers;
    std::unordered_map<std::uint32_t, Qp*> qps;  // by number, across all verbs contexts
    std::unordered_map<std::uint32_t, std::shared_ptr<CmId>> cm_ids;
    std::unordered_map<std::uint32_t, std::shared_ptr<CmGroup>> cm_groups;  // joined through ids
    std::uint32_t next_cm_id = 0;                                           // of ids and of groups
    Startup* startup = nullptr;                                             // made on first use
    RandomNumbers random;
    std::string working_directory;  // when it is a virtual one
};

// Proof of the lock. Functions that need it take one by reference.
//
// Who has waited for the lock gets it before those who come later. With a mutex alone a thread that issues one command
// behind the other has it again each time before another has woken, such as one that has been told of an event and asks
// for it; until the first destroys the id, the event with it, and the other waits for good (rping of rdma-core 60 and
// later).
class Locked {
  public:
    Locked();
    ~Locked();
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

    State& operator*() const;
    State* operator->() const;
};

// True in a vfork()ed child: it shares this memory, but not our descriptors.
bool in_vforked_child();

}  // namespace swrnic::shim
