// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory windows: one side binds, the other writes and reads through what was bound, and nothing around it changes.
#include <algorithm>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

constexpr std::size_t kWindowed = 65536, kFrom = 4093, kLength = 40001;
constexpr int kRounds = 8;

struct Window {
    std::uint64_t address;
    std::uint32_t rkey;
};

struct MwDeleter {
    void operator()(ibv_mw* mw) const { ibv_dealloc_mw(mw); }
};
using Mw = std::unique_ptr<ibv_mw, MwDeleter>;

void post(Endpoint& ep, ibv_send_wr wr, ibv_wc_opcode opcode, std::string_view what) {
    ibv_send_wr* bad = nullptr;
    wr.wr_id = 7;
    wr.send_flags = IBV_SEND_SIGNALED;
    expect(ibv_post_send(ep.qp(), &wr, &bad) == 0, "{}: {}", what, Errno{});
    ep.wait_send(7, opcode, what);
}

void owner(Session& s, Endpoint& ep) {
    Buffer memory(kWindowed);
    ibv_mr* mr = ibv_reg_mr(ep.pd(), memory.data(), kWindowed, kLocal | IBV_ACCESS_MW_BIND);
    expect(mr != nullptr, "ibv_reg_mr with MW_BIND: {}", Errno{});
    {
        const Mw mw(ibv_alloc_mw(ep.pd(), IBV_MW_TYPE_2));
        expect(mw != nullptr, "ibv_alloc_mw: {}", Errno{});
        std::uint32_t rkey = mw->rkey;
        for (int round = 0; round < kRounds; ++round) {
            rkey = ibv_inc_rkey(rkey);
            const auto address = reinterpret_cast<std::uintptr_t>(memory.data()) + kFrom;
            ibv_send_wr bind{};
            bind.opcode = IBV_WR_BIND_MW;
            bind.bind_mw.mw = mw.get();
            bind.bind_mw.rkey = rkey;
            bind.bind_mw.bind_info = {.mr = mr,
                                      .addr = address,
                                      .length = kLength,
                                      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
            post(ep, bind, IBV_WC_BIND_MW, "BIND_MW");
            expect(ibv_dereg_mr(mr) != 0, "a region was deregistered under a window");
            ep.recv(9, {});
            s.control.send(Window{address, rkey});
            // The peer invalidates every other time.
            const ibv_wc told = ep.wait(ep.recv_cq(), "the peer's word that it is done");
            expect(told.status == IBV_WC_SUCCESS, "the peer's word: {}", status_text(told));
            const bool by_peer = (told.wc_flags & IBV_WC_WITH_INV) != 0;
            expect(by_peer == (round % 2 == 1), "round {}: the window was{} invalidated by the peer", round,
                   by_peer ? "" : " not");
            if (by_peer) expect(told.invalidated_rkey == rkey, "another key was invalidated");
            ibv_send_wr invalidate{};
            invalidate.opcode = IBV_WR_LOCAL_INV;
            invalidate.invalidate_rkey = rkey;
            if (!by_peer) post(ep, invalidate, IBV_WC_LOCAL_INV, "LOCAL_INV");
            s.count(kLength);
        }
    }
    Buffer copy(kFrom);
    std::copy_n(memory.data(), kFrom, copy.data());
    copy.expect_poison(0, "memory in front of the window");
    memory.expect_poison(kFrom + kLength, "memory behind the window");
    memory.expect_canaries("the windows' region");
    expect(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr without windows: {}", Errno{});
}

void user(Session& s, Endpoint& ep) {
    Rng rng = s.own_rng("windows");
    Sg source(ep.pd(), kLength, kLocal, rng), sink(ep.pd(), kLength, kSink, rng);
    for (int round = 0; round < kRounds; ++round) {
        const auto window = s.control.recv<Window>();
        const auto seed = static_cast<std::uint64_t>(100 + round);
        source.fill(seed);
        sink.poison();
        ep.write(1, source.list(), window.address, window.rkey, 0);
        ep.read(2, sink.list(), window.address, window.rkey);
        ep.wait_send(2, IBV_WC_RDMA_READ, "a Read through a window");
        sink.expect_message(seed, kLength, "what was written through the window and read back");
        if (round % 2 == 1)
            ep.send_inv(3, {}, window.rkey);
        else
            ep.send(3, {});
        ep.wait_send(3, IBV_WC_SEND, "the word that it is done");
        s.count(kLength);
    }
}

}  // namespace

void run_windows(Session& s) {
    for (const bool active_owns : {true, false}) {
        const auto ep = s.connect();
        if (s.active == active_owns)
            owner(s, *ep);
        else
            user(s, *ep);
        s.control.barrier("windows");
    }
}

}  // namespace checker
