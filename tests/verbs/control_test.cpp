// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// rdma_cm in the persona roce for programs that make and wire their queue pairs themselves: ids without a QP of
// librdmacm's exchange private data and numbers, and carry no stream.
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "other_process.h"
#include "pair.h"

namespace swrnic::test {
namespace {

struct ChannelDestroyer {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
using ChannelOfEvents = std::unique_ptr<rdma_event_channel, ChannelDestroyer>;
using IdPtr = std::unique_ptr<rdma_cm_id, Destroyer<rdma_destroy_id>>;

constexpr int kConsumerDefined = 28;  // enum ib_cm_rej_reason

struct Event {
    rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_ERROR;
    int status = 0;
    rdma_cm_id* id = nullptr;
    std::uint32_t qpn = 0;
    std::uint8_t responder_resources = 0, initiator_depth = 0;
    std::string said;

    bool says(std::string_view what, std::size_t length) const {
        return said.size() == length && said.starts_with(what) &&
               said.find_first_not_of('\0', what.size()) == std::string::npos;
    }
};

Event wait_for(const ChannelOfEvents& channel, int ms = 5000) {
    pollfd waiting{.fd = channel->fd, .events = POLLIN, .revents = 0};
    rdma_cm_event* event = nullptr;
    if (poll(&waiting, 1, ms) != 1 || rdma_get_cm_event(channel.get(), &event) != 0) {
        ADD_FAILURE() << "no event within " << ms << " ms";
        return {};
    }
    const rdma_conn_param& conn = event->param.conn;
    Event seen{event->event, event->status, event->id, conn.qp_num, conn.responder_resources, conn.initiator_depth, {}};
    if (conn.private_data != nullptr)
        seen.said.assign(static_cast<const char*>(conn.private_data), conn.private_data_len);
    rdma_ack_cm_event(event);
    return seen;
}

rdma_conn_param saying(std::string_view what, std::uint32_t qpn = 0) {
    rdma_conn_param conn{};
    conn.private_data = what.data();
    conn.private_data_len = static_cast<std::uint8_t>(what.size());
    conn.responder_resources = 3;
    conn.initiator_depth = 5;
    conn.retry_count = conn.rnr_retry_count = 7;
    conn.qp_num = qpn;
    return conn;
}

// What each end has of its own.
struct End {
    bool open(ibv_context* context) {
        pd.reset(ibv_alloc_pd(context));
        cq.reset(ibv_create_cq(context, 16, nullptr, nullptr, 0));
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq.get();
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16};
        qp.reset(ibv_create_qp(pd.get(), &attr));
        return qp != nullptr;
    }
    // As rdma_cm says.
    int move(rdma_cm_id* id, ibv_qp_state to) {
        ibv_qp_attr attr{};
        attr.qp_state = to;
        int mask = 0;
        if (rdma_init_qp_attr(id, &attr, &mask) != 0) return errno;
        return ibv_modify_qp(qp.get(), &attr, mask);
    }
    int wire(rdma_cm_id* id) {
        for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
            if (const int error = move(id, state)) return error;
        return 0;
    }
    int send() {
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        return ibv_post_send(qp.get(), &wr, &bad);
    }
    int receive() {
        ibv_recv_wr wr{}, *bad = nullptr;
        return ibv_post_recv(qp.get(), &wr, &bad);
    }

    PdPtr pd;
    CqPtr cq;
    QpPtr qp;
};

sockaddr_in loopback_at(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = port;
    return address;
}

class Control : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(setenv("SWRNIC_PERSONA", "roce", 1), 0);
        channel_.reset(rdma_create_event_channel());
        ASSERT_TRUE(channel_);
        sockaddr_in address = loopback_at(0);
        listener_ = make_id();
        ASSERT_EQ(rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr*>(&address)), 0);
        ASSERT_EQ(rdma_listen(listener_.get(), 4), 0);
        ASSERT_NO_FATAL_FAILURE(resolve(rdma_get_src_port(listener_.get())));
    }
    IdPtr make_id() {
        rdma_cm_id* id = nullptr;
        EXPECT_EQ(rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP), 0);
        return IdPtr(id);
    }
    void resolve(std::uint16_t port) {
        sockaddr_in address = loopback_at(port);
        client_ = make_id();
        ASSERT_EQ(rdma_resolve_addr(client_.get(), nullptr, reinterpret_cast<sockaddr*>(&address), 2000), 0);
        ASSERT_EQ(wait_for(channel_).type, RDMA_CM_EVENT_ADDR_RESOLVED);
        ASSERT_EQ(rdma_resolve_route(client_.get(), 2000), 0);
        ASSERT_EQ(wait_for(channel_).type, RDMA_CM_EVENT_ROUTE_RESOLVED);
    }
    // Up to CONNECT_REQUEST and CONNECT_RESPONSE.
    void request(std::uint32_t qpn = 0) {
        rdma_conn_param asked = saying("who is there", qpn);
        ASSERT_EQ(rdma_connect(client_.get(), &asked), 0);
        asked_ = wait_for(channel_);
        ASSERT_EQ(asked_.type, RDMA_CM_EVENT_CONNECT_REQUEST);
        server_.reset(asked_.id);
    }
    void accept(std::uint32_t qpn = 0) {
        rdma_conn_param answer = saying("it is me", qpn);
        ASSERT_EQ(rdma_accept(server_.get(), &answer), 0);
        answered_ = wait_for(channel_);
        ASSERT_EQ(answered_.type, RDMA_CM_EVENT_CONNECT_RESPONSE);
    }
    void establish() {
        ASSERT_EQ(rdma_establish(client_.get()), 0);
        const Event event = wait_for(channel_);
        ASSERT_EQ(event.type, RDMA_CM_EVENT_ESTABLISHED);
        ASSERT_EQ(event.id, server_.get());
    }

    ChannelOfEvents channel_;
    IdPtr listener_, client_, server_;
    Event asked_, answered_;
};

TEST_F(Control, ProgramsWireTheirQpsByWhatRdmaCmSays) {
    ASSERT_EQ(client_->route.num_paths, 1);
    EXPECT_EQ(client_->route.path_rec->dgid.raw[15], 1) << "127.0.0.1";
    End active, passive;
    ASSERT_TRUE(active.open(client_->verbs));
    ASSERT_NO_FATAL_FAILURE(request(active.qp->qp_num));
    EXPECT_TRUE(asked_.says("who is there", 56));
    EXPECT_EQ(asked_.qpn, active.qp->qp_num);
    EXPECT_EQ(asked_.responder_resources, 5) << "what the peer may have outstanding";
    EXPECT_EQ(asked_.initiator_depth, 3);
    ASSERT_TRUE(passive.open(server_->verbs));
    ASSERT_EQ(passive.wire(server_.get()), 0);
    ASSERT_EQ(passive.receive(), 0);
    ASSERT_NO_FATAL_FAILURE(accept(passive.qp->qp_num));
    EXPECT_TRUE(answered_.says("it is me", 196));
    EXPECT_EQ(answered_.qpn, passive.qp->qp_num);
    ASSERT_EQ(active.wire(client_.get()), 0);
    ASSERT_NO_FATAL_FAILURE(establish());
    ASSERT_EQ(active.receive(), 0);
    ASSERT_EQ(active.send(), 0);
    EXPECT_EQ(next(active.cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(passive.cq.get()).status, IBV_WC_SUCCESS);
    ASSERT_EQ(passive.send(), 0);
    EXPECT_EQ(next(active.cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(passive.cq.get()).status, IBV_WC_SUCCESS);
}

// Either end may be the first.
TEST_F(Control, AnEndIsToldToBothAndThenItsTimewait) {
    for (const bool by_client : {true, false}) {
        if (!by_client) {
            ASSERT_NO_FATAL_FAILURE(resolve(rdma_get_src_port(listener_.get())));
        }
        ASSERT_NO_FATAL_FAILURE(request());
        ASSERT_NO_FATAL_FAILURE(accept());
        ASSERT_NO_FATAL_FAILURE(establish());
        ASSERT_EQ(rdma_disconnect(by_client ? client_.get() : server_.get()), 0);
        for (const rdma_cm_event_type type : {RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_TIMEWAIT_EXIT})
            for (int i = 0; i < 2; ++i)
                EXPECT_EQ(wait_for(channel_).type, type);
        EXPECT_EQ(rdma_disconnect(by_client ? server_.get() : client_.get()), 0) << "late, and harmless";
        server_.reset();
    }
}

TEST_F(Control, ARejectionHasItsReason) {
    ASSERT_NO_FATAL_FAILURE(request());
    ASSERT_EQ(rdma_reject(server_.get(), "no", 2), 0);
    const Event event = wait_for(channel_);
    EXPECT_EQ(event.type, RDMA_CM_EVENT_REJECTED);
    EXPECT_EQ(event.status, kConsumerDefined);
    EXPECT_TRUE(event.says("no", 148));
}

TEST_F(Control, APeerThatGoesBeforeItsLastWordIsAnError) {
    ASSERT_NO_FATAL_FAILURE(request());
    ASSERT_NO_FATAL_FAILURE(accept());
    client_.reset();
    const Event event = wait_for(channel_);
    EXPECT_EQ(event.type, RDMA_CM_EVENT_CONNECT_ERROR);
    EXPECT_EQ(event.id, server_.get());
}

TEST_F(Control, WithoutAPeerNothingIsSaidOfIt) {
    ASSERT_NO_FATAL_FAILURE(request());
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = IBV_QPS_RTR;
    EXPECT_NE(rdma_init_qp_attr(client_.get(), &attr, &mask), 0);
    EXPECT_EQ(rdma_establish(client_.get()), -1);
}

// An RNIC's program has no use for a connection without a stream.
int listen_as_rnic(Talk& talk) {
    setenv("SWRNIC_PERSONA", "iwarp", 1);
    const ChannelOfEvents channel(rdma_create_event_channel());
    rdma_cm_id* id = nullptr;
    sockaddr_in address = loopback_at(0);
    if (rdma_create_id(channel.get(), &id, nullptr, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0 || rdma_listen(id, 4) != 0)
        return 1;
    const std::uint16_t port = rdma_get_src_port(id);
    bool over = false;
    if (!talk.tell(port) || !talk.hear(over)) return 2;
    pollfd events{channel->fd, POLLIN, 0};
    return poll(&events, 1, 0) == 0 ? 0 : 3;
}

class ControlToAnRnic : public Control {
  protected:
    OtherProcess other_{listen_as_rnic};
};

TEST_F(ControlToAnRnic, IsRejected) {
    std::uint16_t port = 0;
    ASSERT_TRUE(other_.talk.hear(port));
    ASSERT_NO_FATAL_FAILURE(resolve(port));
    rdma_conn_param asked = saying("who is there");
    ASSERT_EQ(rdma_connect(client_.get(), &asked), 0);
    EXPECT_EQ(wait_for(channel_).type, RDMA_CM_EVENT_REJECTED);
    ASSERT_TRUE(other_.talk.tell(true));
    EXPECT_EQ(other_.wait(), 0) << "its program hears nothing of it";
}

}  // namespace
}  // namespace swrnic::test
