// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What QPs send and receive, as a pcapng file that Wireshark decodes; taken inside the process, so no right is needed.
//
// The octets are those of the sockets; TCP/IP headers are made up around them, and so are the MPA startup frames, which
// the shim has exchanged: they say what was agreed on, without private data. An application that changes memory while
// it is being sent may see other octets in the trace than its peer got. Several devices and processes may append to one
// file: each adds sections of its own, and each packet is one write.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/transport.h"
#include "engine/sys.h"

namespace swrnic::engine {

struct Connection;

// The file. Any thread.
class Trace {
  public:
    // Appends; null and errno when the file cannot be written.
    static std::unique_ptr<Trace> open(const char* path);
    ~Trace() {
        if (lost_) fd_.lose();
    }
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;
    // Adds a packet of the IP layer. After a failure to write (a full disk) nothing more is added.
    void add(const std::vector<std::byte>& packet);
    int fd() const { return fd_.get(); }
    // The file was closed by others.
    void lose() { lost_ = failed_ = true; }
    bool failed() const { return failed_; }

  private:
    explicit Trace(int fd) : fd_(fd) {}
    bool write(const std::vector<std::byte>& block);
    sys::Fd fd_;
    std::atomic<bool> failed_{false}, lost_{false};
};

// One stream in it. sent() under the TX lock, received() under the RX lock.
class StreamTrace {
  public:
    StreamTrace(Trace& trace, const Connection& connection);
    void sent(const IoSlice* slices, std::size_t octets) { add(slices, octets, ours_, theirs_); }
    void received(const IoSlice* slices, std::size_t octets) { add(slices, octets, theirs_, ours_); }
    void sent_fin();
    void received_fin();

  private:
    struct End {
        sys::Endpoint at;
        std::atomic<std::uint32_t> next{0};  // sequence number of the next packet
        // All before it stands in the file: what may be acknowledged. Data behind its acknowledgement would look like
        // sent again, and would not be decoded.
        std::atomic<std::uint32_t> written{0};
    };
    void add(const IoSlice* slices, std::size_t octets, End& from, const End& to);
    std::vector<std::byte> packet(const End& from, const End& to, std::uint8_t flags, std::uint32_t sequence,
                                  std::uint32_t acknowledged, std::size_t payload) const;
    void control(End& from, const End& to, std::uint8_t flags);
    void startup(const Connection& connection);

    Trace& trace_;
    End ours_{}, theirs_{};
};

}  // namespace swrnic::engine
