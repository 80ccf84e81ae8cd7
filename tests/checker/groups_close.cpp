// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How connections end: in order, with work outstanding, by destruction in the middle of traffic.
#include <thread>

#include "buffer.h"
#include "failure.h"
#include "faults.h"
#include "session.h"

namespace checker {

namespace {

using std::chrono::milliseconds;

// Receives are posted, nothing is under way, one side disconnects.
void orderly(Session& s, bool active_closes) {
    const std::string what = fmt::format("the {} side disconnects", active_closes ? "active" : "passive");
    constexpr std::uint64_t kReceives = 20;
    const auto ep = s.connect();
    for (std::uint64_t id = 0; id < kReceives; ++id)
        ep->recv(id, {});
    s.control.barrier("receives posted");
    if (s.active == active_closes) ep->disconnect();
    expect_flushed(*ep, ep->recv_cq(), 0, kReceives, what);
    expect_dead(*ep, what);
    expect(!ep->async_seen({IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_REQ_ERR}),
           "{}: an orderly end raised an error event", what);
    s.control.barrier("ended");
    s.count(0);
}

// The last Sends before a disconnect are not lost: whatever completed with success here arrives there.
void last_words(Session& s, bool active_closes) {
    const std::string what = "last Sends before a disconnect";
    constexpr std::uint64_t kSends = 32;
    constexpr std::size_t kSize = 30000;
    const auto ep = s.connect();
    Rng rng = s.own_rng(what);
    if (s.active == active_closes) {
        Sg memory(ep->pd(), kSize, 0, rng);
        memory.fill(99);
        s.control.barrier("receives posted");
        for (std::uint64_t id = 0; id < kSends; ++id)
            ep->send(id, memory.list());
        for (std::uint64_t id = 0; id < kSends; ++id)
            ep->wait_send(id, IBV_WC_SEND, what);
        ep->disconnect();
        expect_dead(*ep, what);
    } else {
        std::vector<Sg> memory;
        for (std::uint64_t id = 0; id < kSends; ++id)
            ep->recv(id, memory.emplace_back(ep->pd(), kSize, kLocal, rng).list());
        s.control.barrier("receives posted");
        for (std::uint64_t id = 0; id < kSends; ++id) {
            ep->wait_recv(id, kSize, what);
            memory[id].expect_message(99, kSize, what);
        }
        expect_dead(*ep, what);
    }
    s.control.barrier("ended");
    s.count(kSends * kSize);
}

// A disconnect in the middle of Reads: each of them completes once, with success or flushed, in order.
void busy(Session& s, bool reader_closes) {
    const std::string what =
        fmt::format("disconnect by the {} of Reads under way", reader_closes ? "issuer" : "target");
    constexpr std::uint64_t kReads = 24;
    constexpr std::size_t kSize = 1U << 20;
    const auto ep = s.connect();
    Rng rng = s.own_rng(what);
    Sg memory(ep->pd(), kSize, kRemote, rng);
    const Remote remote = s.control.exchange(Remote{memory.address(), memory.rkey()});
    if (s.active) {
        for (std::uint64_t id = 0; id < kReads; ++id)
            ep->read(id, memory.list(), remote.address, remote.rkey);
        s.control.barrier("Reads posted");
        if (reader_closes) ep->disconnect();
        expect_done_then_flushed(*ep, ep->send_cq(), 0, kReads, what);
    } else {
        s.control.barrier("Reads posted");
        if (!reader_closes) ep->disconnect();
    }
    expect_dead(*ep, what);
    s.control.barrier("ended");
    s.count(0);
}

// One side destroys its QP while Writes and Reads run in both directions; the other sees the end of all its requests.
void destroyed(Session& s, bool active_destroys, std::uint32_t round) {
    const std::string what = fmt::format("QP destroyed in the middle of traffic, round {}", round);
    constexpr std::uint64_t kRequests = 30;
    constexpr std::size_t kSize = 200000;
    auto ep = s.connect();
    Rng rng = s.own_rng(what);
    Sg source(ep->pd(), kSize, kRemote, rng);
    Sg target(ep->pd(), kSize, kRemote, rng);
    Sg sink(ep->pd(), kSize, kSink, rng);
    const Remote read_from = s.control.exchange(Remote{source.address(), source.rkey()});
    const Remote write_to = s.control.exchange(Remote{target.address(), target.rkey()});
    for (std::uint64_t id = 0; id < kRequests; ++id) {
        if (id % 2 == 0) ep->read(id, sink.list(), read_from.address, read_from.rkey);
        if (id % 2 == 1) ep->write(id, source.list(), write_to.address, write_to.rkey);
    }
    for (std::uint64_t id = 0; id < 4; ++id)
        ep->recv(id, {});
    if (s.active == active_destroys) {
        std::this_thread::sleep_for(std::chrono::microseconds(rng.below(3000)));
        rdma_destroy_qp(ep->id());
    } else {
        expect_done_then_flushed(*ep, ep->send_cq(), 0, kRequests, what);
        expect_flushed(*ep, ep->recv_cq(), 0, 4, what);
        expect_dead(*ep, what);
    }
    source.expect_message(0, 0, what);
    s.control.barrier("ended");
    s.count(0);
}

// Memory is deregistered while the peer still writes to it: no octet changes afterwards.
void deregistered_under_load(Session& s) {
    const std::string what = "region deregistered under Writes";
    constexpr std::uint64_t kWrites = 60;
    constexpr std::size_t kSize = 1U << 20;
    const auto ep = s.connect();
    Rng rng = s.own_rng(what);
    if (s.active) {
        Sg source(ep->pd(), kSize, 0, rng);
        source.fill(4);
        const auto remote = s.control.recv<Remote>();
        for (std::uint64_t id = 0; id < kWrites; ++id)
            ep->write(id, source.list(), remote.address, remote.rkey);
        expect_done_then_flushed(*ep, ep->send_cq(), 0, kWrites, what, IBV_WC_REM_ACCESS_ERR);
    } else {
        Buffer memory(kSize, 1);
        Mr mr(ep->pd(), memory.bytes(), kRemote);
        s.control.send(Remote{reinterpret_cast<std::uintptr_t>(memory.data()), mr.rkey()});
        std::this_thread::sleep_for(milliseconds(3));
        mr.deregister();
        memory.poison();
        const Deadline quiet(milliseconds(100));
        while (!quiet.over()) {
            memory.expect_poison(0, what);
            std::this_thread::sleep_for(milliseconds(5));
        }
    }
    s.control.barrier("ended");
    s.count(0);
}

}  // namespace

void run_close(Session& s) {
    for (const bool first : {true, false}) {
        orderly(s, first);
        last_words(s, first);
        busy(s, first);
        for (std::uint32_t round = 0; round < (s.options.small ? 3U : 15U); ++round)
            destroyed(s, first, round);
    }
    deregistered_under_load(s);
}

}  // namespace checker
