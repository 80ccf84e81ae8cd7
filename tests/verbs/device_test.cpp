// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace swrnic::test {
namespace {

using Device = DeviceTest;

TEST_F(Device, is_an_rnic) {  // VERBS-37
    EXPECT_EQ(context_->device->node_type, IBV_NODE_RNIC);
    EXPECT_EQ(context_->device->transport_type, IBV_TRANSPORT_IWARP);
    EXPECT_GE(context_->num_comp_vectors, 1);
}

TEST_F(Device, limits_are_usable) {
    EXPECT_NE(limits_.node_guid, 0u);
    EXPECT_EQ(limits_.node_guid, ibv_get_device_guid(context_->device));
    EXPECT_EQ(limits_.phys_port_cnt, 1);
    EXPECT_GE(limits_.max_qp_wr, 1024);
    EXPECT_GE(limits_.max_sge, 4);
    EXPECT_GE(limits_.max_cqe, 4096);
    EXPECT_GT(limits_.max_qp_rd_atom, 0);  // VERBS-43
    EXPECT_LE(limits_.max_qp_rd_atom, 254);
    EXPECT_GT(limits_.max_qp_init_rd_atom, 0);
    EXPECT_LE(limits_.max_qp_init_rd_atom, 254);
    EXPECT_EQ(limits_.atomic_cap, IBV_ATOMIC_NONE);  // VERBS-44
    EXPECT_STRNE(limits_.fw_ver, "");
    EXPECT_EQ(limits_.vendor_id, 0x737772u);  // "swr", which is nobody's OUI
    EXPECT_NE(limits_.vendor_part_id, 0u);
}

TEST_F(Device, extended_query_agrees) {
    ibv_device_attr_ex extended{};
    ASSERT_EQ(ibv_query_device_ex(context_.get(), nullptr, &extended), 0);
    EXPECT_EQ(std::memcmp(&extended.orig_attr, &limits_, sizeof(limits_)), 0);
    EXPECT_EQ(extended.odp_caps.general_caps, 0u);
}

TEST_F(Device, port) {  // VERBS-40 to 42
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.phys_state, 5);
    EXPECT_EQ(port.lid, 0);
    EXPECT_EQ(port.max_msg_sz, 0xffffffffu);
    EXPECT_GE(port.active_mtu, IBV_MTU_256);
    EXPECT_LE(port.active_mtu, IBV_MTU_4096);
    EXPECT_GE(port.gid_tbl_len, 1);
    EXPECT_NE(ibv_query_port(context_.get(), 2, &port), 0);
}

TEST_F(Device, gids_and_pkey) {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(context_.get(), 1, 0, &gid), 0);
    const ibv_gid none{};
    EXPECT_NE(std::memcmp(&gid, &none, sizeof(gid)), 0);
    EXPECT_NE(gid.global.interface_id, 0u);
    EXPECT_NE(ibv_query_gid(context_.get(), 1, port.gid_tbl_len, &gid), 0);
    if (port.pkey_tbl_len > 0) {
        __be16 pkey = 0;
        EXPECT_EQ(ibv_query_pkey(context_.get(), 1, 0, &pkey), 0);
        EXPECT_EQ(pkey, 0xffff);
    }
}

TEST_F(Device, opens_more_than_once) {
    const ContextPtr second = open_device();
    ASSERT_TRUE(second);
    EXPECT_NE(second->cmd_fd, context_->cmd_fd);
}

TEST_F(Device, wrong_setting_is_refused) {
    ASSERT_EQ(::setenv("SWRNIC_CRC", "perhaps", 1), 0);
    testing::internal::CaptureStderr();
    errno = 0;
    const ContextPtr refused = open_device();
    const int error = errno;
    const std::string line = testing::internal::GetCapturedStderr();
    ::unsetenv("SWRNIC_CRC");
    EXPECT_FALSE(refused);
    EXPECT_EQ(error, EINVAL);
    EXPECT_NE(line.find("SWRNIC_CRC"), std::string::npos) << line;
    EXPECT_NE(line.find("perhaps"), std::string::npos) << line;
}

TEST_F(Device, a_shared_receive_queue_holds_what_it_grants) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = 0, .max_sge = 1, .srq_limit = 0};
    EXPECT_EQ(ibv_create_srq(pd_.get(), &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    attr.attr = {.max_wr = 3, .max_sge = 2, .srq_limit = 0};
    ibv_srq* srq = ibv_create_srq(pd_.get(), &attr);
    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(attr.attr.max_wr, 3u);
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
    std::array<ibv_sge, 3> sges{};
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = sges.data();
    wr.num_sge = 3;
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
    EXPECT_EQ(bad, &wr);
    wr.num_sge = 2;
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
    ibv_srq_attr change{.max_wr = 2, .max_sge = 0, .srq_limit = 0};
    EXPECT_EQ(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EINVAL);  // it holds three
    change.max_wr = 4;
    EXPECT_EQ(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), 0);
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
    change.srq_limit = 5;
    EXPECT_EQ(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), EINVAL);
    change.srq_limit = 1;
    EXPECT_EQ(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), 0);
    ibv_srq_attr now{};
    EXPECT_EQ(ibv_query_srq(srq, &now), 0);
    EXPECT_EQ(now.max_wr, 4u);
    EXPECT_EQ(now.max_sge, 2u);
    EXPECT_EQ(now.srq_limit, 1u);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

}  // namespace
}  // namespace swrnic::test
