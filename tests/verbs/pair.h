// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two QPs of this process, connected through rdma_cm over 127.0.0.1.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>

#include "device.h"

namespace swrnic::test {

struct Side {
    rdma_cm_id* id = nullptr;
    ibv_cq* send_cq = nullptr;
    ibv_cq* recv_cq = nullptr;
    ibv_comp_channel* channel = nullptr;  // of recv_cq
    ibv_srq* srq = nullptr;
    ibv_qp* qp() const { return id->qp; }
};

class PairTest : public testing::Test {
  protected:
    void SetUp() override;
    void TearDown() override;

    rdma_cm_event_type wait_event(rdma_cm_id** id = nullptr);  // TIMEWAIT_EXIT, and a failure: none within 5 s
    void disconnect();                                         // both sides, and waits for both events
    ibv_qp_state state(ibv_qp* qp);
    int modify(ibv_qp* qp, ibv_qp_state to);
    ibv_mr* reg(void* addr, std::size_t length, int access);

    // Extended CQs with timestamps, and QPs with the ibv_wr_*(3) functions.
    virtual bool extended() const { return false; }
    virtual void parameters(const Side&, rdma_conn_param& wish) const {
        wish.initiator_depth = wish.responder_resources = 4;
    }
    // The server is about to call rdma_accept(), and it has returned.
    virtual void accepting() {}
    virtual void accepted() {}
    // Both are told that they are connected before the test begins.
    virtual bool is_established() const { return true; }
    // Its receives come from a shared queue.
    virtual bool shares(const Side&) const { return false; }
    ibv_pd* pd() const { return client_.id->pd; }
    Side client_, server_;

  private:
    void give_qp(Side& side);
    ibv_cq* make_cq(const Side& side, ibv_comp_channel* channel) const;

    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* listener_ = nullptr;
    std::vector<MrPtr> regions_;
};

// A pair with data to send, and room for it on the other side.
class DataPairTest : public PairTest {
  protected:
    void SetUp() override;
    static std::uint64_t address(const void* of) { return reinterpret_cast<std::uintptr_t>(of); }
    // The server's: into the start of the target.
    void receive(std::uint64_t id, std::uint32_t length);

    std::array<char, 8192> source_{}, target_{};
    ibv_mr* source_mr_ = nullptr;
    ibv_mr* target_mr_ = nullptr;
};

}  // namespace swrnic::test
