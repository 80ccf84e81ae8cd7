// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "faults.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "failure.h"

namespace checker {

void expect_status(const ibv_wc& wc, std::uint64_t wr_id, std::initializer_list<ibv_wc_status> allowed,
                   std::string_view what) {
    expect(wc.wr_id == wr_id, "{}: completion of wr_id {} ({}), expected {}", what, wc.wr_id, status_text(wc), wr_id);
    if (std::find(allowed.begin(), allowed.end(), wc.status) != allowed.end()) return;
    std::string names;
    for (const ibv_wc_status status : allowed)
        names += fmt::format("{}{}", names.empty() ? "" : " or ", ibv_wc_status_str(status));
    fail("{}: wr_id {} has status {}, expected {}", what, wr_id, status_text(wc), names);
}

void expect_flushed(Endpoint& ep, ibv_cq* cq, std::uint64_t first, std::uint64_t count, std::string_view what) {
    for (std::uint64_t i = 0; i < count; ++i) {
        expect_status(ep.wait(cq, what), first + i, {IBV_WC_WR_FLUSH_ERR}, what);
    }
}

void expect_done_then_flushed(Endpoint& ep, ibv_cq* cq, std::uint64_t first, std::uint64_t count, std::string_view what,
                              ibv_wc_status blamed) {
    bool flushed = false;
    for (std::uint64_t i = 0; i < count; ++i) {
        const ibv_wc wc = ep.wait(cq, what);
        if (flushed) {
            expect_status(wc, first + i, {IBV_WC_WR_FLUSH_ERR}, what);
        } else {
            expect_status(wc, first + i, {IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, blamed}, what);
        }
        flushed = wc.status != IBV_WC_SUCCESS;
    }
}

// In ERROR posted work is flushed (VERBS-23). A QP that closed in order may also refuse it.
static void expect_post_flushed(Endpoint& ep, std::string_view what) {
    ibv_send_wr send{};
    ibv_send_wr* bad_send = nullptr;
    send.wr_id = 901;
    send.opcode = IBV_WR_SEND;
    if (ibv_post_send(ep.qp(), &send, &bad_send) == 0) expect_flushed(ep, ep.send_cq(), 901, 1, what);
    ibv_recv_wr recv{};
    ibv_recv_wr* bad_recv = nullptr;
    recv.wr_id = 902;
    if (ibv_post_recv(ep.qp(), &recv, &bad_recv) == 0) expect_flushed(ep, ep.recv_cq(), 902, 1, what);
}

void expect_dead(Endpoint& ep, std::string_view what) {
    try {
        ep.wait_disconnected();
    } catch (const Failure& failure) {
        fail("{}: {}", what, failure.what());
    }
    const Deadline deadline(std::chrono::seconds(5));
    while (ep.state() != IBV_QPS_ERR) {
        expect(!deadline.over(), "{}: QP state {} after DISCONNECTED, expected ERR", what,
               static_cast<int>(ep.state()));
    }
    expect_post_flushed(ep, std::string(what) + ", posted after the end");
    ep.expect_nothing(ep.send_cq(), std::chrono::milliseconds(2), what);
    ep.expect_nothing(ep.recv_cq(), std::chrono::milliseconds(2), what);
}

}  // namespace checker
