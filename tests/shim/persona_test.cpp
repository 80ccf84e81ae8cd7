// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// rdma_cm's commands in the persona roce, by hand: how much private data InfiniBand's messages hold, the path of the
// older dialect, and an active end that refuses the answer.
#include <cerrno>
#include <cstdlib>
#include <string>

#include "raw.h"

namespace swrnic::test {
namespace {

constexpr std::uint32_t kConnectResponse = 5;

// The persona is a process's, from its first look at the device on; each test has a process of its own.
struct Roce {
    Roce() { EXPECT_EQ(::setenv("SWRNIC_PERSONA", "roce", 1), 0); }
};

class RdmaCmInRoce : public testing::Test {
  protected:
    void SetUp() override {
        listener_ = server_.create_id(1);
        port_ = server_.listen_on_loopback(listener_);
        client_id_ = client_.create_id(2);
        ASSERT_TRUE(client_.resolve_to_loopback(client_id_, port_));
    }
    // Connects without a QP of the device's, as programs do that wire theirs themselves. The id at the server's end.
    std::uint32_t request(const std::string& said) {
        EXPECT_EQ(client_.connect(client_id_, 0, said), 0);
        const auto event = server_.event();
        EXPECT_TRUE(event && event->event == kConnectRequest);
        return event ? event->id : 0;
    }

    const Roce first_;
    Cm server_, client_;
    std::uint32_t listener_ = 0, client_id_ = 0;
    std::uint16_t port_ = 0;
};

TEST_F(RdmaCmInRoce, PrivateDataIsAsLongAsTheMessagesHold) {
    EXPECT_EQ(client_.connect(client_id_, 0, std::string(57, 'q')), EINVAL);
    const std::uint32_t child = request(std::string(56, 'q'));
    EXPECT_EQ(server_.reject(child, std::string(149, 'j')), EINVAL);
    EXPECT_EQ(server_.accept(child, 3, 0, std::string(197, 'p')), EINVAL);
    EXPECT_EQ(server_.accept(child, 3, 0, std::string(196, 'p')), 0);
    const auto response = client_.event();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->event, kConnectResponse);
    EXPECT_EQ(private_text(*response), std::string(196, 'p'));
}

TEST_F(RdmaCmInRoce, ARefusalHoldsLess) {
    EXPECT_EQ(server_.reject(request("hello"), std::string(148, 'j')), 0);
    const auto event = client_.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kRejected);
    EXPECT_EQ(private_text(*event), std::string(148, 'j'));
}

TEST_F(RdmaCmInRoce, TheOlderDialectShowsThePath) {
    rdma_ucm_query query{};
    rdma_ucm_query_route_resp route{};
    query.response = address_of(route);
    query.id = client_id_;
    ASSERT_EQ(client_.command(RDMA_USER_CM_CMD_QUERY_ROUTE, query, sizeof route), 0);
    ASSERT_EQ(route.num_paths, 1u);
    const ib_user_path_rec& path = route.ib_route[0];
    const std::uint8_t loopback_gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    EXPECT_EQ(std::memcmp(path.dgid, loopback_gid, sizeof loopback_gid), 0);
    EXPECT_EQ(std::memcmp(path.sgid, loopback_gid, sizeof loopback_gid), 0);
    EXPECT_EQ(path.pkey, 0xffff);
    EXPECT_EQ(path.hop_limit, 64);
    EXPECT_EQ(path.reversible, 1u);
    EXPECT_EQ(path.packet_life_time, 18);
    Cm other;
    query.id = other.create_id(4);
    ASSERT_EQ(other.command(RDMA_USER_CM_CMD_QUERY_ROUTE, query, sizeof route), 0);
    EXPECT_EQ(route.num_paths, 0u);
}

TEST_F(RdmaCmInRoce, TheActiveEndRefusesTheAnswer) {
    const std::uint32_t child = request("hello");
    EXPECT_EQ(client_.reject(client_id_, ""), EINVAL);  // there is none yet
    EXPECT_EQ(server_.accept(child, 3, 0), 0);
    const auto response = client_.event();
    ASSERT_TRUE(response && response->event == kConnectResponse);
    EXPECT_EQ(client_.reject(client_id_, "no"), 0);
    const auto event = server_.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kConnectError);
    EXPECT_EQ(event->uid, 3u);
    EXPECT_FALSE(client_.event(300));  // who refuses hears nothing
    EXPECT_EQ(client_.reject(client_id_, "no"), EINVAL);
}

}  // namespace
}  // namespace swrnic::test
