// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A process that talks nonsense to the userspace shim: what the fuzz targets of its commands share. The files are
// called directly, below the interposed functions; every address in a command is good (tests/shim/bad_pointer_test.cpp
// has the bad ones) and names this host. Whatever is said, an answer keeps to the room that was given, and nothing is
// left when all is closed.
#pragma once

#include <span>
#include <vector>

#include "file.h"
#include "fuzz/input.h"

namespace swrnic::fuzz {

class Process {
  public:
    explicit Process(Input& input);
    ~Process();  // closes all there is
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    using Bytes = std::vector<std::uint8_t>;

    int open_context();            // with GET_CONTEXT, a PD, a CQ with a channel, an SRQ and a QP in INIT
    int open_manager();            // an rdma_cm file that never blocks
    void raw_write(int fd);        // octets of the input
    void verbs_command(int fd);    // a header that fits, a body of the input, room for an answer
    void manager_command(int fd);  // the same for rdma_cm; ports and QPs that exist where small numbers stand
    void report();                 // records for an event file
    void take_events();            // from the event files: the sockets in them are closed, now or later
    void descriptor_work();        // dup, close, ioctl, read
    void wait();                   // for the thread of the userspace shim
    int pick();                    // any descriptor that the userspace shim answers for, or -1
    int pick_manager() { return pick(managers_); }
    int pick_context() { return pick(contexts_); }

  private:
    int pick(const std::vector<int>& from);
    long write(int fd, const Bytes& bytes);
    long read(int fd, std::span<std::uint8_t> into);
    void close(int fd);
    void copy(int fd);
    void write_late(const std::shared_ptr<shim::File>& file);
    template <typename Core>
    std::uint32_t make(int fd, std::uint32_t number, Core core, std::size_t out, const Bytes& driver = {});
    std::uint16_t listening_port() const;
    void check_room() const;

    Input& input_;
    std::vector<int> contexts_, managers_, event_files_;
    std::vector<std::uint32_t> qpns_;
    std::vector<int> streams_;
    std::vector<std::uint8_t> room_;  // of answers, and a margin that nobody may touch
    std::size_t room_used_ = 0;
    int lowest_free_ = -1;
};

}  // namespace swrnic::fuzz
