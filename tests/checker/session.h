// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a group of cases gets, and the list of all groups.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "control.h"
#include "endpoint.h"
#include "options.h"
#include "pattern.h"

namespace checker {

// The part of query_device that both sides must agree on: each takes the smaller value.
struct Facts {
    std::uint32_t max_sge = 1;
    std::uint32_t max_sge_rd = 1;
    std::uint32_t invalidate = 0;  // SEND_WITH_INV may be used
    std::uint32_t srq = 0;
    std::uint32_t windows = 0;  // of type 2B
    std::uint32_t rfc7306 = 0;  // immediate data and atomics: swrnic offers neither or both
};

struct Session {
    const Options& options;
    Control& control;
    bool active;  // connects; the other side accepts
    Facts facts{};
    // For the summary line.
    std::uint64_t cases = 0;
    std::uint64_t octets = 0;

    void count(std::uint64_t length) {
        ++cases;
        octets += length;
    }
    // Both sides call it at the same step: one connection between them.
    std::unique_ptr<Endpoint> connect(const Shape& shape = {});
    // A number both sides draw alike, and one that only this side draws.
    Rng shared_rng(std::string_view name) const { return Rng(seed_of(options.seed, name)); }
    Rng own_rng(std::string_view name) const { return Rng(seed_of(options.seed + (active ? 1000 : 2000), name)); }
};

struct Group {
    const char* name;
    const char* what;
    bool on_request;  // runs only when it is named
    void (*run)(Session&);
    // Why the group cannot be run between these two devices; nullptr: it can.
    const char* (*unfit)(const Session&);
};

const std::vector<Group>& all_groups();

// The sizes of the issue: 0 to 8 MiB with all the edges between; fewer when options.small.
std::vector<std::size_t> message_sizes(const Options& options);

void run_device(Session&);
void run_cm(Session&);
void run_burst(Session&);
void run_send(Session&);
void run_send_inv(Session&);
void run_send_imm(Session&);
void run_write(Session&);
void run_write_imm(Session&);
void run_read(Session&);
void run_atomics(Session&);
void run_sge(Session&);
void run_inline(Session&);
void run_signal(Session&);
void run_order(Session&);
void run_fence(Session&);
void run_events(Session&);
void run_silent(Session&);
void run_either_first(Session&);
void run_rnr(Session&);
void run_bidir(Session&);
void run_many(Session&);
void run_threads(Session&);
void run_srq(Session&);
void run_windows(Session&);
void run_post_errors(Session&);
void run_close(Session&);
void run_local_errors(Session&);
void run_remote_errors(Session&);
void run_scribble(Session&);
void run_load(Session&);

}  // namespace checker
