// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Verbs that this device does not offer: each says so, by the errno that programs look for.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "pair.h"

namespace swrnic::test {
namespace {

class Optional : public DataPairTest {
  protected:
    ibv_context* context() const { return client_.id->verbs; }
    // errno of what returns a pointer, and must return none.
    template <typename Make>
    static int refusal(Make&& make) {
        errno = 0;
        return make() == nullptr ? errno : 0;
    }
    int posted(ibv_send_wr wr) {
        ibv_send_wr* bad = nullptr;
        wr.wr_id = 1;
        const int error = ibv_post_send(client_.qp(), &wr, &bad);
        EXPECT_TRUE(error == 0 || bad == &wr);
        return error;
    }
    int typed(ibv_qp_type type) {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = client_.send_cq;
        attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        attr.qp_type = type;
        return refusal([&] { return ibv_create_qp(pd(), &attr); });
    }
};

TEST_F(Optional, objects_of_other_devices) {
    const struct {
        const char* what;
        int error;
    } rows[] = {
        {"flow", refusal([&] {
             struct {
                 ibv_flow_attr attr{};
                 ibv_flow_spec_eth spec{};
             } flow;
             flow.attr.size = sizeof(flow.attr);
             return ibv_create_flow(client_.qp(), &flow.attr);
         })},
        {"flow action", refusal([&] {
             ibv_flow_action_esp_attr attr{};
             return ibv_create_flow_action_esp(context(), &attr);
         })},
        {"device memory", refusal([&] {
             ibv_alloc_dm_attr attr{};
             attr.length = 64;
             return ibv_alloc_dm(context(), &attr);
         })},
        {"counters", refusal([&] {
             ibv_counters_init_attr attr{};
             return ibv_create_counters(context(), &attr);
         })},
        {"work queue", refusal([&] {
             ibv_wq_init_attr attr{};
             attr.wq_type = IBV_WQT_RQ;
             attr.max_wr = attr.max_sge = 1;
             attr.pd = pd();
             attr.cq = client_.recv_cq;
             return ibv_create_wq(context(), &attr);
         })},
        {"indirection table", refusal([&] {
             ibv_rwq_ind_table_init_attr attr{};
             return ibv_create_rwq_ind_table(context(), &attr);
         })},
        {"XRC domain", refusal([&] {
             ibv_xrcd_init_attr attr{};
             attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
             attr.fd = -1;
             attr.oflags = O_CREAT;
             return ibv_open_xrcd(context(), &attr);
         })},
        {"XRC queue", refusal([&] {
             ibv_srq_init_attr_ex attr{};
             attr.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
             attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ;
             attr.srq_type = IBV_SRQT_TM;
             attr.pd = pd();
             attr.cq = client_.recv_cq;
             return ibv_create_srq_ex(context(), &attr);
         })},
        {"opened QP", refusal([&] {
             ibv_qp_open_attr attr{};
             attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
             return ibv_open_qp(context(), &attr);
         })},
        {"null region", refusal([&] { return ibv_alloc_null_mr(pd()); })},
        {"region of a dma-buf",
         refusal([&] { return ibv_reg_dmabuf_mr(pd(), 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE); })},
        {"region on demand", refusal([&] { return ibv_reg_mr(pd(), source_.data(), 64, int{IBV_ACCESS_ON_DEMAND}); })},
        {"imported PD", refusal([&] { return ibv_import_pd(context(), 1); })},
        {"imported region", refusal([&] { return ibv_import_mr(pd(), 1); })},
        {"imported device memory", refusal([&] { return ibv_import_dm(context(), 1); })},
        {"raw packets", typed(IBV_QPT_RAW_PACKET)},
        {"XRC", typed(IBV_QPT_XRC_SEND)},
    };
    for (const auto& row : rows)
        EXPECT_EQ(row.error, EOPNOTSUPP) << row.what << ": " << std::strerror(row.error);
}

TEST_F(Optional, calls_of_other_devices) {
    ibv_ece ece{};
    EXPECT_EQ(ibv_query_ece(client_.qp(), &ece), EOPNOTSUPP);
    ece.vendor_id = 1;
    EXPECT_EQ(ibv_set_ece(client_.qp(), &ece), EOPNOTSUPP);
    ibv_sge advised{.addr = address(source_.data()), .length = 64, .lkey = source_mr_->lkey};
    EXPECT_EQ(ibv_advise_mr(pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &advised, 1), EOPNOTSUPP);
    ibv_modify_cq_attr moderation{};
    moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
    EXPECT_EQ(ibv_modify_cq(client_.send_cq, &moderation), EOPNOTSUPP);
    ibv_qp_rate_limit_attr rate{};
    EXPECT_EQ(ibv_modify_qp_rate_limit(client_.qp(), &rate), EOPNOTSUPP);
    ibv_gid gid{};
    EXPECT_EQ(ibv_attach_mcast(client_.qp(), &gid, 0), EINVAL);
    EXPECT_EQ(ibv_detach_mcast(client_.qp(), &gid, 0), EINVAL);
    EXPECT_EQ(ibv_query_qp_data_in_order(client_.qp(), IBV_WR_RDMA_WRITE, 0), 0);
    EXPECT_EQ(state(client_.qp()), IBV_QPS_RTS);
}

// VERBS-2. The stream lives on.
TEST_F(Optional, requests_without_an_equivalent) {
    alignas(8) std::array<std::uint64_t, 1> result{};
    ibv_sge into{.addr = address(result.data()), .length = 8, .lkey = source_mr_->lkey};
    for (const ibv_wr_opcode opcode : {IBV_WR_TSO, IBV_WR_DRIVER1}) {
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.sg_list = &into;
        wr.num_sge = 1;
        EXPECT_EQ(posted(wr), EINVAL) << opcode;
    }
    receive(7, 0);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    EXPECT_EQ(posted(wr), 0);
    EXPECT_EQ(next(server_.recv_cq).wr_id, 7u);
}

TEST_F(Optional, attributes_of_other_devices) {
    ibv_device_attr_ex attr{};
    ASSERT_EQ(ibv_query_device_ex(context(), nullptr, &attr), 0);
    EXPECT_EQ(attr.orig_attr.max_raw_ethy_qp, 0);
    EXPECT_EQ(attr.orig_attr.atomic_cap, IBV_ATOMIC_GLOB);
    EXPECT_EQ(attr.pci_atomic_caps.fetch_add, 0) << "of an adapter on a bus";
    EXPECT_EQ(attr.odp_caps.general_caps, 0u);
    EXPECT_EQ(attr.tso_caps.max_tso, 0u);
    EXPECT_EQ(attr.rss_caps.supported_qpts, 0u);
    EXPECT_EQ(attr.max_wq_type_rq, 0u);
    EXPECT_EQ(attr.max_dm_size, 0u);
    EXPECT_EQ(attr.tm_caps.max_num_tags, 0u);
    EXPECT_EQ(attr.cq_mod_caps.max_cq_count, 0u);
}

}  // namespace
}  // namespace swrnic::test
