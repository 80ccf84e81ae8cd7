// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "session.h"

#include "failure.h"

namespace checker {

namespace {
const char* always(const Session&) {
    return nullptr;
}

const char* needs_invalidate(const Session& s) {
    return s.facts.invalidate != 0 ? nullptr : "a device has no MEM_MGT_EXTENSIONS";
}

const char* needs_rfc7306(const Session& s) {
    return s.facts.rfc7306 != 0 ? nullptr : "a device has no atomics";
}

const char* needs_either_first(const Session& s) {
    return s.options.either_first ? nullptr : "--either-first not given";
}

const char* needs_rnr_wait(const Session& s) {
    return s.options.rnr_wait ? nullptr : "--rnr-wait not given";
}

const char* needs_windows(const Session& s) {
    return s.facts.windows != 0 ? nullptr : "a device has no memory windows of type 2B";
}

const char* needs_srq(const Session& s) {
    return s.facts.srq != 0 ? nullptr : "a device has no SRQ";
}
}  // namespace

const std::vector<Group>& all_groups() {
    static const std::vector<Group> groups = {
        {"device", "what the device says about itself", false, run_device, always},
        {"cm", "private data, rejection, refusal", false, run_cm, always},
        {"burst", "connections asked for at the same moment", false, run_burst, always},
        {"send", "Sends of all sizes, both ways", false, run_send, always},
        {"send_inv", "Sends with invalidate of all sizes, both ways", false, run_send_inv, needs_invalidate},
        {"send_imm", "Sends with immediate data of all sizes, both ways", false, run_send_imm, needs_rfc7306},
        {"write", "RDMA Writes of all sizes, both ways", false, run_write, always},
        {"write_imm", "RDMA Writes with immediate data of all sizes, both ways", false, run_write_imm, needs_rfc7306},
        {"read", "RDMA Reads of all sizes, both ways", false, run_read, always},
        {"atomics", "FETCH_AND_ADD and CMP_AND_SWP, both ways", false, run_atomics, needs_rfc7306},
        {"sge", "1 to the maximum of elements, empty ones among them", false, run_sge, always},
        {"inline", "inline data of all sizes", false, run_inline, always},
        {"signal", "signalled and unsignalled requests through small queues", false, run_signal, always},
        {"order", "completions in posting order", false, run_order, always},
        {"fence", "what was read is sent on behind a fence", false, run_fence, always},
        {"events", "completion channels, armed for all or for solicited completions", false, run_events, always},
        {"silent", "two posts and then no verbs call at all", false, run_silent, always},
        {"either_first", "the passive side sends first", false, run_either_first, needs_either_first},
        {"rnr", "a Send waits for its receive", false, run_rnr, needs_rnr_wait},
        {"bidir", "a random mix in both directions at once", false, run_bidir, always},
        {"many", "many connections of one process", false, run_many, always},
        {"threads", "connections driven by threads of their own", false, run_threads, always},
        {"srq", "a shared receive queue", false, run_srq, needs_srq},
        {"windows", "memory windows of type 2, bound by either side", false, run_windows, needs_windows},
        {"post_errors", "requests that must be refused when posted or registered", false, run_post_errors, always},
        {"close", "flush on disconnect, destruction under load", false, run_close, always},
        {"local_errors", "bad local keys, ranges, rights", false, run_local_errors, always},
        {"remote_errors", "bad remote keys, ranges, rights; too long Sends", false, run_remote_errors, always},
        {"scribble", "memory changes while it is read and written remotely", true, run_scribble, always},
        {"load", "steady traffic until the other side dies", true, run_load, always},
    };
    return groups;
}

std::unique_ptr<Endpoint> Session::connect(const Shape& shape) {
    if (active) {
        const auto port = control.recv<std::uint16_t>();
        return Endpoint::connect(options, port, shape);
    }
    const Listener listener(options);
    control.send(listener.port());
    return Endpoint::accept(options, listener, shape);
}

std::vector<std::size_t> message_sizes(const Options& options) {
    constexpr std::size_t kMi = 1024 * 1024;
    if (options.small) {
        return {0, 1, 2, 3, 4, 5, 63, 64, 65, 512, 1408, 1448, 1460, 1500, 4095, 4096, 4097, 65535, 65536, 65537, kMi};
    }
    std::vector<std::size_t> sizes = {0, 1, 2, 3, 4, 5, 63, 64, 65, 511, 512, 513};
    for (std::size_t size = 1407; size <= 1500; ++size)
        sizes.push_back(size);
    for (const std::size_t middle : {std::size_t{4096}, std::size_t{65536}, kMi}) {
        for (const std::size_t size : {middle - 1, middle, middle + 1})
            sizes.push_back(size);
    }
    sizes.push_back(8 * kMi);
    return sizes;
}

}  // namespace checker
