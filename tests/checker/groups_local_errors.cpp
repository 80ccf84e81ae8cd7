// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Faults in a side's own requests: refused when posted, or completed with an error.
#include <cerrno>
#include <cstring>

#include "buffer.h"
#include "failure.h"
#include "faults.h"
#include "session.h"

namespace checker {

namespace {

enum class Where { kSend, kWrite, kReadSink, kReceive };

struct LocalError {
    const char* name;
    Where where;
    int access;  // of the region that is named
    std::uint32_t key_delta;
    std::int64_t offset;
    bool deregister;
    bool other_pd;
};

constexpr LocalError kLocalErrors[] = {
    {"Send with a wrong lkey", Where::kSend, kLocal, 1, 0, false, false},
    {"Send that runs out of the region", Where::kSend, kLocal, 0, 1, false, false},
    {"Send that starts before the region", Where::kSend, kLocal, 0, -1, false, false},
    {"Send from a deregistered region", Where::kSend, kLocal, 0, 0, true, false},
    {"Send from a region of another PD", Where::kSend, kLocal, 0, 0, false, true},
    {"Write with a wrong lkey", Where::kWrite, kLocal, 1, 0, false, false},
    {"Write that runs out of the local region", Where::kWrite, kLocal, 0, 1, false, false},
    {"Read into a wrong lkey", Where::kReadSink, kSink, 1, 0, false, false},
    {"Read beyond the local region", Where::kReadSink, kSink, 0, 1, false, false},
    {"Read into a region without LOCAL_WRITE", Where::kReadSink, 0, 0, 0, false, false},
    {"Read into a deregistered region", Where::kReadSink, kSink, 0, 0, true, false},
    {"receive with a wrong lkey", Where::kReceive, kLocal, 1, 0, false, false},
    {"receive into a region without LOCAL_WRITE", Where::kReceive, 0, 0, 0, false, false},
    {"receive beyond the region", Where::kReceive, kLocal, 0, 1, false, false},
    {"receive into a region of another PD", Where::kReceive, kLocal, 0, 0, false, true},
};

constexpr std::size_t kGuiltySize = 256;

// A post may refuse the request at once; then there is nothing to wait for.
bool post_guilty(Endpoint& ep, const LocalError& c, ibv_sge element, const Remote& remote) {
    const std::span<ibv_sge> list(&element, 1);
    try {
        if (c.where == Where::kSend) ep.send(2, list);
        if (c.where == Where::kWrite) ep.write(2, list, remote.address, remote.rkey);
        if (c.where == Where::kReadSink) ep.read(2, list, remote.address, remote.rkey);
        if (c.where == Where::kReceive) ep.recv(2, list);
        return true;
    } catch (const Failure&) {
        return false;
    }
}

// Returns false when the fault was refused when posted.
bool guilty(Session& s, Endpoint& ep, const LocalError& c) {
    const Owned<ibv_pd> other(ibv_alloc_pd(ep.context()));
    expect(other != nullptr, "ibv_alloc_pd: {}", Errno{});
    Buffer memory(kGuiltySize, 5);
    Mr mr(c.other_pd ? other.get() : ep.pd(), memory.bytes(), c.access);
    const ibv_sge element{reinterpret_cast<std::uintptr_t>(memory.data()) + static_cast<std::uint64_t>(c.offset),
                          kGuiltySize, mr.lkey() + c.key_delta};
    if (c.deregister) mr.deregister();
    const auto remote = s.control.recv<Remote>();
    const bool accepted = post_guilty(ep, c, element, remote);
    s.control.send<std::uint8_t>(accepted ? 1 : 0);
    if (!accepted) return false;
    ibv_cq* cq = c.where == Where::kReceive ? ep.recv_cq() : ep.send_cq();
    expect_status(ep.wait(cq, c.name), 2, {IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_LEN_ERR}, c.name);
    expect(ep.wait_async({IBV_EVENT_QP_FATAL}), "{}: no QP_FATAL at the guilty side", c.name);
    memory.expect_poison(0, c.name);
    memory.expect_canaries(c.name);
    expect_dead(ep, c.name);
    return true;
}

void innocent(Session& s, Endpoint& ep, const LocalError& c) {
    Rng rng = s.own_rng(c.name);
    Sg memory(ep.pd(), kGuiltySize, kRemote, rng);
    if (c.where != Where::kReceive) ep.recv(1, memory.list());
    s.control.send(Remote{memory.address(), memory.rkey()});
    if (s.control.recv<std::uint8_t>() == 0) return;
    if (c.where == Where::kReceive) {
        ep.send(1, memory.list());
        expect_done_then_flushed(ep, ep.send_cq(), 1, 1, c.name);
    } else {
        expect_flushed(ep, ep.recv_cq(), 1, 1, std::string(c.name) + ", receive of the innocent side");
        memory.expect_message(0, 0, c.name);
    }
    expect_dead(ep, c.name);
}

int post_one(Endpoint& ep, ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    const int rc = ibv_post_send(ep.qp(), &wr, &bad);
    expect(rc == 0 || bad == &wr, "a refused request is not named in bad_wr");
    return rc;
}

// A bad request in the middle of a list: what stands before it is accepted, bad_wr names it, what follows is not taken.
void bad_in_a_list(Session& s, Endpoint& ep) {
    ibv_send_wr list[3] = {};
    for (std::uint64_t i = 0; i < 3; ++i) {
        list[i].wr_id = i + 1;
        list[i].opcode = IBV_WR_SEND;
        list[i].send_flags = IBV_SEND_SIGNALED;
        list[i].next = i < 2 ? &list[i + 1] : nullptr;
    }
    list[1].opcode = IBV_WR_TSO;
    ibv_send_wr* bad = nullptr;
    const int rc = ibv_post_send(ep.qp(), list, &bad);
    expect(rc != 0, "a request of an opcode that iWARP does not have was accepted");
    expect(bad == &list[1], "bad_wr does not name the second of three requests");
    ep.wait_send(1, IBV_WC_SEND, "the request before the bad one");
    ep.expect_nothing(ep.send_cq(), std::chrono::milliseconds(20), "the requests from the bad one on");
    s.count(0);
}

void refused_posts(Session& s, Endpoint& ep) {
    Rng rng = s.own_rng("post_errors");
    Sg memory(ep.pd(), std::size_t{4096}, kSink, rng);
    ibv_send_wr wr{};
    wr.sg_list = memory.list().data();
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    std::vector<ibv_sge> many(ep.cap().max_send_sge + 1, memory.list()[0]);
    for (ibv_sge& element : many)
        element.length = 1;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = many.data();
    wr.num_sge = static_cast<int>(many.size());
    expect(post_one(ep, wr) != 0, "a Send of more elements than max_send_sge was accepted");
    wr.num_sge = 1;
    wr.sg_list = memory.list().data();
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    if (ep.cap().max_inline_data < 4096) expect(post_one(ep, wr) != 0, "inline data beyond the limit was accepted");
    many.assign(ep.cap().max_recv_sge + 1, memory.list()[0]);
    ibv_recv_wr recv{};
    ibv_recv_wr* bad = nullptr;
    recv.sg_list = many.data();
    recv.num_sge = static_cast<int>(many.size());
    expect(ibv_post_recv(ep.qp(), &recv, &bad) != 0 && bad == &recv, "a receive of too many elements was accepted");
    s.count(0);
}

// The receive queue takes what was granted and then says so.
void full_receive_queue(Session& s, Endpoint& ep) {
    std::uint32_t posted = 0;
    ibv_recv_wr recv{};
    ibv_recv_wr* bad = nullptr;
    recv.wr_id = 50;
    while (posted <= ep.cap().max_recv_wr && ibv_post_recv(ep.qp(), &recv, &bad) == 0)
        ++posted;
    expect(posted <= ep.cap().max_recv_wr, "the receive queue of {} took {}", ep.cap().max_recv_wr, posted);
    expect(posted + 1 >= 8, "the receive queue took only {}", posted);
    s.count(0);
}

void refused_registrations(Session& s, Endpoint& ep) {
    Buffer memory(4096);
    const auto refuse = [&](std::size_t length, int access, const char* what) {
        ibv_mr* mr = ibv_reg_mr(ep.pd(), memory.data(), length, access);
        if (mr != nullptr) ibv_dereg_mr(mr);
        expect(mr == nullptr, "{} was accepted", what);
    };
    refuse(4096, IBV_ACCESS_REMOTE_WRITE, "a registration with REMOTE_WRITE and no LOCAL_WRITE");
    refuse(0, kLocal, "a registration of no octets");
    const Mr first(ep.pd(), memory.bytes(), kRemote);
    const Mr second(ep.pd(), memory.bytes(), kRemote);
    expect(first.rkey() != second.rkey(), "two registrations have one key");
    expect(first.rkey() != 0 && second.rkey() != 0, "a key is 0");
    s.count(0);
}

}  // namespace

void run_local_errors(Session& s) {
    for (const bool active_errs : {true, false}) {
        for (const LocalError& c : kLocalErrors) {
            const auto ep = s.connect();
            if (s.active == active_errs) {
                guilty(s, *ep, c);
            } else {
                innocent(s, *ep, c);
            }
            s.control.barrier(c.name);
            s.count(0);
        }
    }
}

void run_post_errors(Session& s) {
    const auto ep = s.connect({.recv_wr = 8});
    refused_registrations(s, *ep);
    refused_posts(s, *ep);
    ep->recv(1, {});
    s.control.barrier("receives posted");
    bad_in_a_list(s, *ep);
    ep->wait_recv(1, 0, "the request before the bad one");
    s.control.barrier("received");
    full_receive_queue(s, *ep);
    s.control.barrier("done");
}

}  // namespace checker
