// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The byte stream below MPA, as the core sees it: TCP in the engine, memory in simulation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swrnic::engine {

struct IoSlice {  // laid out as struct iovec
    std::byte* base;
    std::size_t length;
};

enum class IoStatus : std::uint8_t {
    kOk,      // count octets moved, at least one
    kAgain,   // nothing now
    kEmpty,   // receive only: nothing now, known without a system call
    kEof,     // receive only: the peer has sent its FIN
    kFault,   // a slice named memory that is not there (EFAULT); nothing can be said about what was moved
    kBroken,  // reset, timed out, closed
};

struct IoResult {
    IoStatus status;
    std::size_t count;
};

// Calls never block. receive() is called under the RX lock, send() and finish_sending() under the TX lock.
class Transport {
  public:
    virtual ~Transport() = default;
    virtual IoResult receive(const IoSlice* slices, std::size_t count) = 0;
    virtual IoResult send(const IoSlice* slices, std::size_t count) = 0;
    virtual void finish_sending() = 0;       // FIN after what was sent
    virtual std::uint32_t emss() const = 0;  // largest TCP payload of one segment at present

    // Whether octets may go between the stream and foreign memory without coming by here. Then, under the RX lock: is
    // it empty (as kEmpty); and what was received so, of how many that were asked for.
    virtual bool may_be_bypassed() const { return false; }
    virtual bool take_drained() { return false; }
    virtual void bypassed(std::size_t count, std::size_t wanted) {
        static_cast<void>(count);
        static_cast<void>(wanted);
    }
};

}  // namespace swrnic::engine
