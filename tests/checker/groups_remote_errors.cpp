// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Faults that one side commits and the other side's protection finds (docs/spec/verbs.md section 5).
#include <functional>

#include "buffer.h"
#include "failure.h"
#include "faults.h"
#include "session.h"

namespace checker {

namespace {

struct Target {
    std::uint64_t address;
    std::uint32_t good;        // all remote rights
    std::uint32_t read_only;   // no REMOTE_WRITE
    std::uint32_t write_only;  // no REMOTE_READ
    std::uint32_t other_pd;    // all remote rights, but of a PD that the QP does not use
    std::uint32_t dead;        // was deregistered
    std::uint32_t local;       // no remote rights
};

constexpr std::size_t kTarget = 4096;
constexpr std::uint64_t kFault = 10;  // wr_id of the request at fault

enum class Kind { kWrite, kRead, kSend, kSendInv };

struct RemoteError {
    const char* name;
    Kind kind;
    std::uint32_t Target::*key;
    std::uint32_t key_delta;  // added to the key
    std::int64_t offset;      // of the access in the target
    std::uint32_t length;
};

constexpr RemoteError kRemoteErrors[] = {
    {"Write with a wrong key", Kind::kWrite, &Target::good, 1, 0, 64},
    {"Write with an unknown index", Kind::kWrite, &Target::good, 0x5a5a00, 0, 64},
    {"Write to STag 0", Kind::kWrite, nullptr, 0, 0, 64},
    {"Write one octet past the end", Kind::kWrite, &Target::good, 0, kTarget - 63, 64},
    {"Write one octet before the start", Kind::kWrite, &Target::good, 0, -1, 64},
    {"Write that wraps round the address space", Kind::kWrite, &Target::good, 0, INT64_MIN, 64},
    {"long Write that runs out of the region", Kind::kWrite, &Target::good, 0, 0, kTarget + 60000},
    {"Write without REMOTE_WRITE", Kind::kWrite, &Target::read_only, 0, 0, 64},
    {"Write to a local region", Kind::kWrite, &Target::local, 0, 0, 64},
    {"Write to a region of another PD", Kind::kWrite, &Target::other_pd, 0, 0, 64},
    {"Write to a deregistered region", Kind::kWrite, &Target::dead, 0, 0, 64},
    {"Read with a wrong key", Kind::kRead, &Target::good, 1, 0, 64},
    {"Read of STag 0", Kind::kRead, nullptr, 0, 0, 64},
    {"Read one octet past the end", Kind::kRead, &Target::good, 0, kTarget - 63, 64},
    {"Read one octet before the start", Kind::kRead, &Target::good, 0, -1, 64},
    {"long Read that runs out of the region", Kind::kRead, &Target::good, 0, 0, kTarget + 60000},
    {"Read without REMOTE_READ", Kind::kRead, &Target::write_only, 0, 0, 64},
    {"Read of a local region", Kind::kRead, &Target::local, 0, 0, 64},
    {"Read of a region of another PD", Kind::kRead, &Target::other_pd, 0, 0, 64},
    {"Read of a deregistered region", Kind::kRead, &Target::dead, 0, 0, 64},
    {"Send longer than its receive", Kind::kSend, &Target::good, 0, 0, 65},
    {"long Send longer than its receive", Kind::kSend, &Target::good, 0, 0, 64000},
    {"Send with invalidate of a wrong key", Kind::kSendInv, &Target::good, 1, 0, 64},
    {"Send with invalidate of a region of another PD", Kind::kSendInv, &Target::other_pd, 0, 0, 64},
};

// The guilty side: a good Send, the fault, a Read and a Send behind it that must not come through.
void commit_fault(Session& s, Endpoint& ep, const RemoteError& c) {
    Rng rng = s.own_rng(c.name);
    Sg memory(ep.pd(), c.length, kSink, rng);
    Sg after(ep.pd(), std::size_t{8}, kSink, rng);
    for (std::uint64_t id = 1; id <= 3; ++id)
        ep.recv(id, {});
    const auto target = s.control.recv<Target>();
    const std::uint32_t key = c.key == nullptr ? 0 : target.*c.key + c.key_delta;
    const std::uint64_t at =
        c.offset == INT64_MIN ? std::uint64_t{0} - 32 : target.address + static_cast<std::uint64_t>(c.offset);
    ep.send(kFault - 1, {});
    if (c.kind == Kind::kWrite) ep.write(kFault, memory.list(), at, key);
    if (c.kind == Kind::kRead) ep.read(kFault, memory.list(), at, key);
    if (c.kind == Kind::kSend) ep.send(kFault, memory.list());
    if (c.kind == Kind::kSendInv) ep.send_inv(kFault, memory.list(), key);
    ep.read(kFault + 1, after.list(), target.address, target.good);
    ep.wait_send(kFault - 1, IBV_WC_SEND, c.name);
    const ibv_wc wc = ep.wait(ep.send_cq(), c.name);
    switch (c.kind) {
        case Kind::kWrite:
            expect_status(wc, kFault, {IBV_WC_SUCCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR}, c.name);
            break;
        case Kind::kRead:
            expect_status(wc, kFault, {IBV_WC_REM_ACCESS_ERR}, c.name);
            memory.expect_message(0, 0, std::string(c.name) + ", the sink");
            break;
        default:
            expect_status(wc, kFault, {IBV_WC_SUCCESS, IBV_WC_REM_INV_REQ_ERR, IBV_WC_WR_FLUSH_ERR}, c.name);
    }
    expect_flushed(ep, ep.send_cq(), kFault + 1, 1, std::string(c.name) + ", the Read behind it");
    after.expect_message(0, 0, "the Read behind the fault");
    expect_flushed(ep, ep.recv_cq(), 1, 3, std::string(c.name) + ", receives of the guilty side");
    expect(ep.wait_async({IBV_EVENT_QP_FATAL}), "{}: no QP_FATAL at the guilty side", c.name);
    expect_dead(ep, c.name);
}

// The side whose protection is tested: its memory must be as it was.
void suffer_fault(Session& s, Endpoint& ep, const RemoteError& c) {
    Rng rng = s.own_rng(c.name);
    Buffer memory(kTarget, 3);
    const Owned<ibv_pd> other(ibv_alloc_pd(ep.context()));
    expect(other != nullptr, "ibv_alloc_pd: {}", Errno{});
    const Mr good(ep.pd(), memory.bytes(), kRemote);
    const Mr read_only(ep.pd(), memory.bytes(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    const Mr write_only(ep.pd(), memory.bytes(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    const Mr local(ep.pd(), memory.bytes(), kLocal);
    const Mr other_pd(other.get(), memory.bytes(), kRemote);
    Mr dead(ep.pd(), memory.bytes(), kRemote);
    const Target target{.address = reinterpret_cast<std::uintptr_t>(memory.data()),
                        .good = good.rkey(),
                        .read_only = read_only.rkey(),
                        .write_only = write_only.rkey(),
                        .other_pd = other_pd.rkey(),
                        .dead = dead.rkey(),
                        .local = local.rkey()};
    dead.deregister();
    Sg sink(ep.pd(), std::size_t{64}, kLocal, rng);
    ep.recv(1, {});
    ep.recv(2, sink.list());
    ep.recv(3, {});
    s.control.send(target);
    ep.wait_recv(1, 0, c.name);
    const ibv_wc wc = ep.wait(ep.recv_cq(), c.name);
    if (c.kind == Kind::kSend) {
        expect_status(wc, 2, {IBV_WC_LOC_LEN_ERR}, c.name);
    } else if (c.kind == Kind::kSendInv) {
        expect_status(wc, 2, {IBV_WC_REM_INV_REQ_ERR}, c.name);
    } else {
        expect_status(wc, 2, {IBV_WC_WR_FLUSH_ERR}, c.name);
        sink.expect_message(0, 0, c.name);
    }
    sink.buffer().expect_canaries(c.name);
    expect_flushed(ep, ep.recv_cq(), 3, 1, std::string(c.name) + ", receive behind it");
    if (c.kind == Kind::kSend) {
        expect(ep.wait_async({IBV_EVENT_QP_FATAL}), "{}: no QP_FATAL at the other side", c.name);
    } else {
        expect(ep.wait_async({IBV_EVENT_QP_ACCESS_ERR}), "{}: no QP_ACCESS_ERR at the other side", c.name);
    }
    expect_dead(ep, c.name);
    // A Write that starts inside may have placed its first segments: those that were in range.
    if (c.kind == Kind::kWrite && c.length > kTarget) {
        memory.expect_canaries(c.name);
    } else {
        memory.expect_poison(0, c.name);
        memory.expect_canaries(c.name);
    }
}

// A region that the peer has invalidated is dead for remote use.
void invalidated_use(Session& s, bool write) {
    const std::string what = fmt::format("{} of an invalidated region", write ? "Write" : "Read");
    const auto ep = s.connect();
    Rng rng = s.own_rng(what);
    Sg memory(ep->pd(), std::size_t{64}, kRemote, rng);
    struct {
        std::uint64_t address;
        std::uint32_t key;
    } remote{memory.address(), memory.rkey()};
    if (!s.active) {
        ep->recv(1, {});
        ep->recv(2, {});
        s.control.send(remote);
        const ibv_wc wc = ep->wait_recv(1, 0, what);
        expect((wc.wc_flags & IBV_WC_WITH_INV) != 0 && wc.invalidated_rkey == remote.key, "{}: not invalidated", what);
        expect_flushed(*ep, ep->recv_cq(), 2, 1, what);
        expect(ep->wait_async({IBV_EVENT_QP_ACCESS_ERR}), "{}: no QP_ACCESS_ERR", what);
        memory.expect_message(0, 0, what);
    } else {
        remote = s.control.recv<decltype(remote)>();
        ep->send_inv(1, {}, remote.key);
        if (write) {
            ep->write(2, memory.list(), remote.address, remote.key);
        } else {
            ep->read(2, memory.list(), remote.address, remote.key);
        }
        ep->wait_send(1, IBV_WC_SEND, what);
        const ibv_wc wc = ep->wait(ep->send_cq(), what);
        if (write) {
            expect_status(wc, 2, {IBV_WC_SUCCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR}, what);
        } else {
            expect_status(wc, 2, {IBV_WC_REM_ACCESS_ERR}, what);
        }
    }
    expect_dead(*ep, what);
    s.count(0);
}

// Nobody ever posts the receive: the connection ends (after the time that SWRNIC_RNR_TIMEOUT allows).
void no_receive(Session& s) {
    const std::string what = "Send without a receive";
    const auto ep = s.connect();
    if (s.active) {
        ep->send(1, {});
        const ibv_wc wc = ep->wait(ep->send_cq(), what);
        expect_status(wc, 1, {IBV_WC_SUCCESS, IBV_WC_REM_OP_ERR, IBV_WC_WR_FLUSH_ERR}, what);
    }
    expect(ep->wait_async({IBV_EVENT_QP_FATAL}), "{}: no QP_FATAL", what);
    ep->wait_disconnected();
    s.count(0);
}

}  // namespace

void run_remote_errors(Session& s) {
    for (const bool active_errs : {true, false}) {
        for (const RemoteError& c : kRemoteErrors) {
            if (c.kind == Kind::kSendInv && s.facts.invalidate == 0) continue;
            const auto ep = s.connect();
            s.active == active_errs ? commit_fault(s, *ep, c) : suffer_fault(s, *ep, c);
            s.control.barrier(c.name);
            s.count(0);
        }
    }
    if (s.facts.invalidate != 0) {
        invalidated_use(s, true);
        invalidated_use(s, false);
    }
    no_receive(s);
}

}  // namespace checker
