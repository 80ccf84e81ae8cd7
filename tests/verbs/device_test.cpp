// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device.h"

#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

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
    EXPECT_EQ(limits_.atomic_cap, IBV_ATOMIC_GLOB);  // VERBS-44
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

TEST_F(Device, every_way_to_ask_for_gids_agrees) {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
    std::vector<ibv_gid_entry> table(static_cast<std::size_t>(port.gid_tbl_len) + 1);
    ASSERT_EQ(ibv_query_gid_table(context_.get(), table.data(), table.size(), 0), port.gid_tbl_len);
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        SCOPED_TRACE(i);
        ibv_gid gid{};
        ibv_gid_entry entry{};
        ASSERT_EQ(ibv_query_gid(context_.get(), 1, i, &gid), 0);
        ASSERT_EQ(ibv_query_gid_ex(context_.get(), 1, static_cast<std::uint32_t>(i), &entry, 0), 0);
        for (const ibv_gid_entry& each : {entry, table[static_cast<std::size_t>(i)]}) {
            EXPECT_EQ(std::memcmp(&each.gid, &gid, sizeof(gid)), 0);
            EXPECT_EQ(each.gid_index, static_cast<std::uint32_t>(i));
            EXPECT_EQ(each.port_num, 1u);
            EXPECT_EQ(each.gid_type, std::uint32_t{IBV_GID_TYPE_ROCE_V2});
            EXPECT_NE(each.ndev_ifindex, 0u);
        }
    }
}

TEST_F(Device, address_handles_are_for_what_can_be_reached) {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
    const auto make = [&](const ibv_gid& gid, int source) {
        ibv_ah_attr attr{};
        attr.is_global = attr.port_num = 1;
        attr.grh.dgid = gid;
        attr.grh.sgid_index = static_cast<std::uint8_t>(source);
        return ibv_create_ah(pd_.get(), &attr);
    };
    const auto named = [](const char* text) {
        ibv_gid gid{};
        inet_pton(AF_INET6, text, gid.raw);
        return gid;
    };
    bool only_loopback = true;
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        ibv_gid gid{};
        ASSERT_EQ(ibv_query_gid(context_.get(), 1, i, &gid), 0);
        const ibv_gid loopback[]{named("::1"), named("::ffff:127.0.0.1")};
        only_loopback &= i == 0 || std::memcmp(&gid, &loopback[0], 16) == 0 || std::memcmp(&gid, &loopback[1], 16) == 0;
        ibv_ah* ah = make(gid, i);
        ASSERT_NE(ah, nullptr) << i;
        EXPECT_EQ(ah->context, context_.get());
        EXPECT_EQ(ah->pd, pd_.get());
        EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
        EXPECT_EQ(ibv_destroy_ah(ah), 0);
    }
    std::vector<const char*> unreachable{"::", "::ffff:255.255.255.255"};
    if (only_loopback) unreachable.insert(unreachable.end(), {"::ffff:198.51.100.1", "2001:db8::1"});
    for (const char* each : unreachable) {
        errno = 0;
        EXPECT_EQ(make(named(each), 0), nullptr) << each;
        EXPECT_EQ(errno, EINVAL) << each;
    }
    EXPECT_EQ(make(named("::ffff:127.0.0.1"), port.gid_tbl_len), nullptr) << "no such source";
    ibv_ah_attr local{};
    local.port_num = 1;
    EXPECT_EQ(ibv_create_ah(pd_.get(), &local), nullptr) << "a LID names nothing";
    EXPECT_EQ(errno, EINVAL);
    EXPECT_GT(limits_.max_ah, 0);
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
