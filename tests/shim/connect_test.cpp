// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections from request to end, over both dialects' commands and real TCP.
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "joined_pair.h"

namespace swrnic::test {
namespace {

// perftest pairs its QPs by it. On one processor the listener's thread mostly finds all three at once: a connection,
// the Request of one accepted before, and the new one's Request.
TEST(Connect, RequestsAreToldInTheOrderOfTheirArrival) {
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    {
        JoinedPair pair;  // its thread inherits the processor, unless an earlier test has made it
        ASSERT_TRUE(pair.ready());
        const std::string first = mpa_request(0, 1, 5, "first"), second = mpa_request(0, 1, 6, "second");
        for (int i = 0; i < 100; ++i) {
            const Fd early = raw_client(pair.port);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));  // it is accepted, and waits for its Request
            const Fd late = raw_client(pair.port);
            ASSERT_EQ(send(early.get(), first.data(), first.size(), 0), static_cast<ssize_t>(first.size()));
            ASSERT_EQ(send(late.get(), second.data(), second.size(), 0), static_cast<ssize_t>(second.size()));
            for (const char* expected : {"first", "second"}) {
                const auto event = pair.passive.cm.event();
                ASSERT_TRUE(event);
                ASSERT_EQ(private_text(*event), expected) << "round " << i;
            }
        }
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

class NextRequest : public testing::Test {
  protected:
    // A connection that has been accepted, and of which the peer says that it is ready, or keeps silent.
    void accept_one(bool peer_is_ready) {
        ASSERT_TRUE(pair_->ready() && pair_->request_and_accept() && pair_->take_streams());
        if (!peer_is_ready) return;
        const std::string rtr(20, '\0');
        ASSERT_EQ(send(pair_->active.stream.get(), rtr.data(), rtr.size(), 0), static_cast<ssize_t>(rtr.size()));
    }
    static void ask(const Fd& client, const std::string& private_data) {
        const std::string request = mpa_request(0, 1, static_cast<std::uint16_t>(private_data.size()), private_data);
        ASSERT_EQ(send(client.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    }
    Fd connect_again(const std::string& private_data = "again") {
        Fd next = raw_client(pair_->port);
        ask(next, private_data);
        return next;
    }
    void expect_request(int timeout_ms, std::string_view private_data = "again") {
        const auto event = pair_->passive.cm.event(timeout_ms);
        ASSERT_TRUE(event);
        EXPECT_EQ(event->event, kConnectRequest);
        ASSERT_EQ(private_text(*event), private_data);
    }
    std::optional<JoinedPair> pair_{std::in_place};
};

// A server that waits for ESTABLISHED behind each accept does not look for another request meanwhile.
TEST_F(NextRequest, IsToldBehindTheConnectionBefore) {
    ASSERT_NO_FATAL_FAILURE(accept_one(true));
    const Fd next = connect_again();
    EXPECT_FALSE(pair_->passive.cm.event(50)) << "the engine has not come to the RTR yet";
    ASSERT_EQ(pair_->passive.context.report(SWRNIC_UP_QP_READY, pair_->passive.qp.qpn), 0);
    const auto event = pair_->passive.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kEstablished);
    expect_request(200);
}

// Another may come just when what the first waits for is over, and the thread finds both at once.
TEST_F(NextRequest, IsNotOvertaken) {
    for (int round = 0; round < 20; ++round) {
        ASSERT_NO_FATAL_FAILURE(accept_one(true));
        const Fd first = connect_again("first"), second = raw_client(pair_->port);
        EXPECT_FALSE(pair_->passive.cm.event(20));
        ASSERT_EQ(pair_->passive.context.report(SWRNIC_UP_QP_READY, pair_->passive.qp.qpn), 0);
        ask(second, "second");
        const auto event = pair_->passive.cm.event();
        ASSERT_TRUE(event);
        EXPECT_EQ(event->event, kEstablished);
        ASSERT_NO_FATAL_FAILURE(expect_request(200, "first")) << round;
        ASSERT_NO_FATAL_FAILURE(expect_request(200, "second")) << round;
        pair_.emplace();
    }
}

TEST_F(NextRequest, WaitsForNoPeerThatKeepsSilent) {
    ASSERT_NO_FATAL_FAILURE(accept_one(false));
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 8; ++i) {
        const Fd next = connect_again();
        expect_request(2000);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(8 * 250));
}

TEST_F(NextRequest, WaitsNoLongerThanItsTurn) {
    ASSERT_NO_FATAL_FAILURE(accept_one(true));
    const Fd next = connect_again();
    expect_request(2000);
}

TEST_F(NextRequest, GoesWithItsListener) {
    ASSERT_NO_FATAL_FAILURE(accept_one(true));
    const Fd next = connect_again();
    EXPECT_FALSE(pair_->passive.cm.event(50));
    ASSERT_EQ(pair_->passive.cm.destroy_id(pair_->listener), 0);
    ASSERT_EQ(pair_->passive.context.report(SWRNIC_UP_QP_READY, pair_->passive.qp.qpn), 0);
    const auto event = pair_->passive.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kEstablished);
    EXPECT_FALSE(pair_->passive.cm.event(300));
}

TEST(Connect, BothSidesAndTheirParameters) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready());
    ASSERT_TRUE(pair.request("hello", 8, 4));
    EXPECT_EQ(pair.asked.uid, JoinedPair::kListenerUid);
    EXPECT_EQ(private_text(pair.asked), "hello");             // VERBS-49
    EXPECT_EQ(pair.asked.param.conn.responder_resources, 4);  // VERBS-51: the peer's ORD
    EXPECT_EQ(pair.asked.param.conn.initiator_depth, 8);      // and IRD
    ASSERT_EQ(pair.passive.cm.accept(pair.passive.id, JoinedPair::kPassiveUid, pair.passive.qp.qpn, "welcome", 16, 2),
              0);
    ASSERT_TRUE(pair.take_streams());
    EXPECT_EQ(pair.active.connected.role, SWRNIC_ROLE_INITIATOR);
    EXPECT_EQ(pair.passive.connected.role, SWRNIC_ROLE_RESPONDER);
    for (const Side* side : {&pair.active, &pair.passive}) {
        EXPECT_NE(side->connected.flags & SWRNIC_CONN_SAME_HOST, 0);
        EXPECT_NE(side->connected.flags & SWRNIC_CONN_P2P, 0);
        EXPECT_NE(side->connected.flags & SWRNIC_CONN_LARGE_FPDU, 0);
        EXPECT_NE(side->connected.flags & SWRNIC_CONN_SHORT_FIRST, 0);
        EXPECT_EQ(side->connected.flags & SWRNIC_CONN_CRC, 0) << "one host: not asked for";
        EXPECT_EQ(side->connected.mpa_rev, 2);
        EXPECT_EQ(side->connected.terminate, 0);
    }
    EXPECT_LE(pair.passive.connected.ord, pair.active.connected.ird);
    EXPECT_LE(pair.active.connected.ord, pair.passive.connected.ird);

    EXPECT_FALSE(pair.active.cm.event(50)) << "ESTABLISHED waits for QP_READY";
    ASSERT_EQ(pair.active.context.report(SWRNIC_UP_QP_READY, pair.active.qp.qpn), 0);
    ASSERT_EQ(pair.passive.context.report(SWRNIC_UP_QP_READY, pair.passive.qp.qpn), 0);
    const auto active = pair.active.cm.event();
    const auto passive = pair.passive.cm.event();
    ASSERT_TRUE(active && passive);
    EXPECT_EQ(active->event, kEstablished);
    EXPECT_EQ(active->uid, JoinedPair::kActiveUid);
    EXPECT_EQ(private_text(*active), "welcome");
    EXPECT_EQ(passive->event, kEstablished);
    EXPECT_EQ(passive->uid, JoinedPair::kPassiveUid) << "the uid that ACCEPT named";
    EXPECT_EQ(passive->param.conn.initiator_depth, 2);
    ib_uverbs_query_qp_resp attributes{};
    ASSERT_EQ(pair.active.context.query_qp(pair.active.qp.handle, attributes), 0);
    EXPECT_EQ(attributes.qp_state, 3) << "RTS";
}

TEST(Connect, CrcIsAskedForWhenTheQpSaysSo) {
    swrnic_create_qp_req startup = default_startup();
    startup.crc_mode = SWRNIC_CRC_ON;
    startup.fpdu_mode = SWRNIC_FPDU_EMSS;
    startup.mpa_rev = 1;
    JoinedPair pair(startup);
    ASSERT_TRUE(pair.ready() && pair.request_and_accept() && pair.take_streams());
    EXPECT_EQ(pair.asked.param.conn.responder_resources, 128) << "revision 1 shows the maxima (VERBS-51)";
    for (const Side* side : {&pair.active, &pair.passive}) {
        EXPECT_NE(side->connected.flags & SWRNIC_CONN_CRC, 0);
        EXPECT_EQ(side->connected.flags & (SWRNIC_CONN_LARGE_FPDU | SWRNIC_CONN_SHORT_FIRST | SWRNIC_CONN_P2P), 0);
        EXPECT_EQ(side->connected.mpa_rev, 1);
    }
}

TEST(Connect, StreamCarriesOctetsBothWays) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.establish());
    ASSERT_EQ(send(pair.active.stream.get(), "ping", 4, 0), 4);
    char buffer[8];
    ASSERT_TRUE(readable(pair.passive.stream.get(), 2000));
    EXPECT_EQ(recv(pair.passive.stream.get(), buffer, sizeof(buffer), 0), 4) << "no octet of startup is left in it";
}

void expect_address(const swrnic_address& told, int socket, int (*ask)(int, sockaddr*, socklen_t*)) {
    sockaddr_in is{};
    socklen_t size = sizeof(is);
    ASSERT_EQ(ask(socket, reinterpret_cast<sockaddr*>(&is), &size), 0);
    EXPECT_EQ(told.version, 4);
    EXPECT_EQ(told.port, ntohs(is.sin_port));
    EXPECT_EQ(std::memcmp(told.octets, &is.sin_addr, sizeof(is.sin_addr)), 0);
}

TEST(Connect, TheProviderIsToldWhatTheSocketIs) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.establish());
    for (const Side* side : {&pair.active, &pair.passive}) {
        expect_address(side->connected.local, side->stream.get(), getsockname);
        expect_address(side->connected.peer, side->stream.get(), getpeername);
        EXPECT_NE(side->connected.flags & SWRNIC_CONN_NODELAY, 0);
        int delays_not = 0;
        socklen_t size = sizeof(delays_not);
        ASSERT_EQ(getsockopt(side->stream.get(), IPPROTO_TCP, TCP_NODELAY, &delays_not, &size), 0);
        EXPECT_EQ(delays_not, 1);
    }
}

// What the engine asks for later would not stop BBR's timers in a connection that was established with them.
TEST(Connect, StreamsOfOneHostAreNotPaced) {
    std::string usual;
    ASSERT_TRUE(std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> usual);
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.establish());
    for (const Side* side : {&pair.active, &pair.passive}) {
        char name[16]{};
        socklen_t size = sizeof(name) - 1;
        ASSERT_EQ(getsockopt(side->stream.get(), IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
        EXPECT_EQ(std::string(name), usual.starts_with("bbr") ? "reno" : usual);
    }
}

TEST(Connect, ServersMayTakeThePortOfAConnectionThatHasEnded) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.establish());
    sockaddr_in was{};
    socklen_t size = sizeof(was);
    ASSERT_EQ(getsockname(pair.active.stream.get(), reinterpret_cast<sockaddr*>(&was), &size), 0);
    // The side that ends first keeps the port in TIME_WAIT.
    char octet = 0;
    ASSERT_EQ(shutdown(pair.active.stream.get(), SHUT_WR), 0);
    ASSERT_TRUE(readable(pair.passive.stream.get(), 2000));
    EXPECT_EQ(recv(pair.passive.stream.get(), &octet, 1, 0), 0);
    for (Side* side : {&pair.passive, &pair.active}) {
        side->stream = Fd();
        ASSERT_EQ(side->context.report(SWRNIC_UP_QP_CLOSED, side->qp.qpn), 0);
    }
    const sockaddr_in wanted = loopback(ntohs(was.sin_port));
    const std::uint32_t server = pair.passive.cm.create_id(2);
    EXPECT_EQ(pair.passive.cm.bind(server, reinterpret_cast<const sockaddr*>(&wanted), sizeof(wanted)), 0);
    EXPECT_EQ(pair.passive.cm.listen(server), 0);
}

TEST(Connect, Verbs52RejectCarriesPrivateData) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.request());
    ASSERT_EQ(pair.passive.cm.reject(pair.passive.id, "not today"), 0);
    const auto event = pair.active.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kRejected);
    EXPECT_EQ(static_cast<int>(event->status), -ECONNREFUSED);
    EXPECT_EQ(private_text(*event), "not today");
    EXPECT_EQ(pair.passive.cm.reject(pair.passive.id, ""), EINVAL) << "twice";
    EXPECT_EQ(pair.passive.cm.accept(pair.passive.id, 1, pair.passive.qp.qpn), EINVAL);
}

TEST(Connect, DestroyingARequestRefusesIt) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.request());
    ASSERT_EQ(pair.passive.cm.destroy_id(pair.passive.id), 0);
    const auto event = pair.active.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kRejected);
}

TEST(Connect, DestroyingTheListenerRefusesWhatNobodyHasHeardOf) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready());
    ASSERT_EQ(pair.active.cm.connect(pair.active.id, pair.active.qp.qpn), 0);
    ASSERT_TRUE(readable(pair.passive.cm.fd.get(), 2000)) << "CONNECT_REQUEST is queued";
    std::uint32_t reported = 1;
    ASSERT_EQ(pair.passive.cm.destroy_id(pair.listener, &reported), 0);
    EXPECT_EQ(reported, 0u);
    EXPECT_FALSE(readable(pair.passive.cm.fd.get(), 0));
    const auto event = pair.active.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kRejected);
}

TEST(Connect, NobodyListens) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready());
    ASSERT_EQ(pair.passive.cm.destroy_id(pair.listener), 0);
    ASSERT_EQ(pair.active.cm.connect(pair.active.id, pair.active.qp.qpn), 0);
    const auto event = pair.active.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kRejected);
    EXPECT_EQ(static_cast<int>(event->status), -ECONNREFUSED);
}

TEST(Connect, AcceptAfterThePeerHasGone) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.request());
    ASSERT_EQ(pair.active.cm.destroy_id(pair.active.id), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(pair.passive.cm.event(0)) << "nothing may be told of a child before ACCEPT";
    EXPECT_EQ(pair.passive.cm.accept(pair.passive.id, 1, pair.passive.qp.qpn), ECONNRESET);
    EXPECT_EQ(pair.passive.cm.destroy_id(pair.passive.id), 0);
}

TEST(Connect, SilentResponderTimesOut) {
    std::uint16_t port = 0;
    const Fd silent = raw_listener(port);
    swrnic_create_qp_req startup = default_startup();
    startup.timeout_ms = 200;
    const Cm cm;
    const Context context;
    const auto qp = context.ready_qp(startup);
    const std::uint32_t id = cm.create_id(1);
    ASSERT_TRUE(qp && cm.resolve_to_loopback(id, port));
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(cm.connect(id, qp->qpn), 0);
    const auto event = cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kUnreachable);
    EXPECT_EQ(static_cast<int>(event->status), -ETIMEDOUT);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Connect, AStreamThatIsNotReadyInTimeIsOrderedToEnd) {
    swrnic_create_qp_req startup = default_startup();
    startup.timeout_ms = 200;
    JoinedPair pair(startup);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(pair.ready() && pair.request_and_accept() && pair.take_streams());
    for (const Side* side : {&pair.active, &pair.passive}) {
        const auto order = side->context.next_order();
        ASSERT_TRUE(order);
        EXPECT_EQ(order->type, std::uint32_t{SWRNIC_DOWN_QP_ERROR});
        EXPECT_EQ(order->qpn, side->qp.qpn);
    }
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200));
}

TEST(Connect, GarbageForAReply) {
    std::uint16_t port = 0;
    const Fd listener = raw_listener(port);
    const Cm cm;
    const Context context;
    const auto qp = context.ready_qp(default_startup());
    const std::uint32_t id = cm.create_id(1);
    ASSERT_TRUE(qp && cm.resolve_to_loopback(id, port));
    ASSERT_EQ(cm.connect(id, qp->qpn), 0);
    const Fd peer(accept(listener.get(), nullptr, nullptr));
    ASSERT_EQ(send(peer.get(), "HTTP/1.1 400 Bad Request\r\n\r\n", 28, 0), 28);
    const auto event = cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kConnectError);
    EXPECT_EQ(static_cast<int>(event->status), -EPROTO);
}

TEST(Connect, Rfc6581s10OneMoreTryWithRevisionOne) {
    std::uint16_t port = 0;
    const Fd listener = raw_listener(port);
    const Cm cm;
    const Context context;
    const auto qp = context.ready_qp(default_startup());
    const std::uint32_t id = cm.create_id(1);
    ASSERT_TRUE(qp && cm.resolve_to_loopback(id, port));
    ASSERT_EQ(cm.connect(id, qp->qpn, "data"), 0);
    char frame[64];
    {
        const Fd old_peer(accept(listener.get(), nullptr, nullptr));
        ASSERT_EQ(recv(old_peer.get(), frame, 28, MSG_WAITALL), 28);
        EXPECT_EQ(frame[17], 2);
    }  // closes, as a Responder of RFC 5044 does
    ASSERT_TRUE(readable(listener.get(), 2000));
    const Fd peer(accept(listener.get(), nullptr, nullptr));
    ASSERT_EQ(recv(peer.get(), frame, 24, MSG_WAITALL), 24);
    EXPECT_EQ(frame[17], 1);
    EXPECT_EQ(std::string_view(frame + 20, 4), "data");
    EXPECT_FALSE(cm.event(0)) << "the application hears nothing of it";
}

TEST(Connect, DestroyingTheQpEndsAStartup) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.request());
    ASSERT_EQ(pair.active.context.destroy_qp(pair.active.qp.handle), 0);
    const auto event = pair.active.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kRejected);
}

TEST(Connect, ErrorStateEndsAStartup) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.request());
    ASSERT_EQ(pair.active.context.modify_qp(pair.active.qp.handle, 6), 0);
    const auto event = pair.active.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kConnectError);
}

TEST(Connect, DestroyingTheIdEndsAStartupAtOnce) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.request());
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(pair.active.cm.destroy_id(pair.active.id), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
    EXPECT_FALSE(pair.active.cm.event(50));
}

TEST(Connect, QpMustBeIdleAndPrepared) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready());
    EXPECT_EQ(pair.active.cm.connect(pair.active.id, 0x123456), EINVAL) << "unknown";
    ASSERT_EQ(pair.active.context.modify_qp(pair.active.qp.handle, 0), 0);
    EXPECT_EQ(pair.active.cm.connect(pair.active.id, pair.active.qp.qpn), EINVAL) << "RESET";
    ASSERT_EQ(pair.active.context.modify_qp(pair.active.qp.handle, 1), 0);
    ASSERT_TRUE(pair.request());
    EXPECT_EQ(pair.passive.cm.accept(pair.passive.id, 1, pair.active.qp.qpn), EINVAL) << "already connecting";
    EXPECT_EQ(pair.passive.cm.accept(pair.passive.id, 1, pair.passive.qp.qpn), 0) << "the refusal did no harm";
    EXPECT_EQ(pair.active.cm.connect(pair.active.id, pair.active.qp.qpn), EINVAL) << "twice";
}

TEST(Connect, DisconnectOrdersTheEngineAndIsAnsweredByItsReport) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.establish());
    ASSERT_EQ(pair.active.cm.disconnect(pair.active.id), 0);
    EXPECT_EQ(pair.active.cm.disconnect(pair.active.id), 0) << "harmless";
    const auto order = pair.active.context.next_order();
    ASSERT_TRUE(order);
    EXPECT_EQ(order->type, unsigned{SWRNIC_DOWN_QP_DISCONNECT});
    EXPECT_EQ(order->qpn, pair.active.qp.qpn);
    EXPECT_FALSE(pair.active.cm.event(50));
    ASSERT_EQ(pair.active.context.report(SWRNIC_UP_QP_CLOSED, pair.active.qp.qpn), 0);
    const auto event = pair.active.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kDisconnected);
    ib_uverbs_query_qp_resp attributes{};
    ASSERT_EQ(pair.active.context.query_qp(pair.active.qp.handle, attributes), 0);
    EXPECT_EQ(attributes.qp_state, 6) << "VERBS-56";
}

// iw_cm waits for the accept, and then disconnects.
TEST(Connect, DisconnectRightBehindAcceptEndsTheStreamThatComes) {
    for (const bool gets_ready : {true, false}) {
        SCOPED_TRACE(gets_ready ? "ready" : "not ready");
        JoinedPair pair;
        ASSERT_TRUE(pair.ready() && pair.request_and_accept());
        const Side& side = pair.passive;
        ASSERT_EQ(side.cm.disconnect(side.id), 0);
        EXPECT_EQ(side.cm.disconnect(side.id), 0) << "harmless";
        ASSERT_TRUE(pair.take(pair.passive));
        const auto order = side.context.next_order();
        ASSERT_TRUE(order);
        EXPECT_EQ(order->type, unsigned{SWRNIC_DOWN_QP_DISCONNECT});
        EXPECT_EQ(order->qpn, side.qp.qpn);
        EXPECT_FALSE(side.context.next_order(0)) << "once";
        if (gets_ready) {
            ASSERT_EQ(side.context.report(SWRNIC_UP_QP_READY, side.qp.qpn), 0);
        }
        ASSERT_EQ(side.context.report(SWRNIC_UP_QP_CLOSED, side.qp.qpn), 0);
        for (const std::uint32_t type : {kEstablished, kDisconnected}) {
            const auto event = side.cm.event();
            ASSERT_TRUE(event);
            EXPECT_EQ(event->event, type);
        }
    }
}

TEST(Connect, DestroyingAnEstablishedIdAbortsTheStream) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.establish());
    ASSERT_EQ(pair.active.cm.destroy_id(pair.active.id), 0);
    const auto order = pair.active.context.next_order();
    ASSERT_TRUE(order);
    EXPECT_EQ(order->type, unsigned{SWRNIC_DOWN_QP_ERROR});
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_QP_CLOSED, pair.active.qp.qpn, SWRNIC_CLOSE_ERROR), 0);
}

TEST(Connect, SameQpAgainAfterReset) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.establish());
    ASSERT_EQ(pair.active.context.report(SWRNIC_UP_QP_CLOSED, pair.active.qp.qpn), 0);
    ASSERT_TRUE(pair.active.cm.event());
    ASSERT_EQ(pair.active.context.modify_qp(pair.active.qp.handle, 0), 0);
    ASSERT_EQ(pair.active.context.modify_qp(pair.active.qp.handle, 1), 0);
    const std::uint32_t again = pair.active.cm.create_id(2);
    ASSERT_TRUE(pair.active.cm.resolve_to_loopback(again, pair.port));
    EXPECT_EQ(pair.active.cm.connect(again, pair.active.qp.qpn), 0);
    const auto request = pair.passive.cm.event();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->event, kConnectRequest);
}

TEST(Connect, ListenerPortIsFreeForTheNextWhileConnectionsLive) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.establish());
    ASSERT_EQ(pair.passive.cm.destroy_id(pair.listener), 0);
    const std::uint32_t next = pair.passive.cm.create_id(5);
    const sockaddr_in same = loopback(pair.port);
    EXPECT_EQ(pair.passive.cm.bind(next, reinterpret_cast<const sockaddr*>(&same), sizeof(same)), 0);
    EXPECT_EQ(pair.passive.cm.listen(next), 0) << "perftest listens twice on its port";
    const std::uint32_t third = pair.passive.cm.create_id(6);
    EXPECT_EQ(pair.passive.cm.bind(third, reinterpret_cast<const sockaddr*>(&same), sizeof(same)), EADDRINUSE);
}

int tos_of(int fd, int level = IPPROTO_IP, int name = IP_TOS) {
    int tos = -1;
    socklen_t size = sizeof(tos);
    return getsockopt(fd, level, name, &tos, &size) == 0 ? tos : -1;
}

// perftest sets it when the address is resolved, and the userspace shim has a socket by then.
TEST(Connect, TypeOfServiceHoldsHoweverLateItIsSet) {
    const std::uint8_t ours = 32, theirs = 64;
    JoinedPair pair;
    ASSERT_TRUE(pair.ready());
    const std::uint32_t listener = pair.passive.cm.create_id(2);
    const sockaddr_in any = loopback();
    ASSERT_EQ(pair.passive.cm.bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
    ASSERT_EQ(pair.passive.cm.set_option(listener, RDMA_OPTION_ID_TOS, theirs), 0);
    ASSERT_EQ(pair.passive.cm.listen(listener), 0);
    rdma_ucm_query_addr_resp at{};
    ASSERT_EQ(pair.passive.cm.query_addr(listener, at), 0);
    sockaddr_in there{};
    std::memcpy(&there, &at.src_addr, sizeof(there));
    pair.active.id = pair.active.cm.create_id(JoinedPair::kActiveUid);
    ASSERT_TRUE(pair.active.cm.resolve_to_loopback(pair.active.id, ntohs(there.sin_port)));
    ASSERT_EQ(pair.active.cm.set_option(pair.active.id, RDMA_OPTION_ID_TOS, ours), 0);
    ASSERT_TRUE(pair.establish());
    EXPECT_EQ(tos_of(pair.active.stream.get()), 32);
    EXPECT_EQ(tos_of(pair.passive.stream.get()), 64) << "what a listener accepts has its";
}

class Ports : public testing::Test {
  protected:
    std::uint32_t id() const { return cm.create_id(1); }
    int bind(std::uint32_t id, std::uint16_t port) const {
        const sockaddr_in at = loopback(port);
        return cm.bind(id, reinterpret_cast<const sockaddr*>(&at), sizeof(at));
    }
    std::uint16_t port_of(std::uint32_t id) const {
        rdma_ucm_query_addr_resp at{};
        sockaddr_in in{};
        if (cm.query_addr(id, at) == 0) std::memcpy(&in, &at.src_addr, sizeof(in));
        return ntohs(in.sin_port);
    }
    const Cm cm;
};

TEST_F(Ports, BelongToTheFirstThatBinds) {
    const std::uint32_t first = id(), second = id(), client = id();
    ASSERT_EQ(bind(first, 0), 0);
    EXPECT_EQ(bind(second, port_of(first)), EADDRINUSE);
    EXPECT_EQ(cm.set_option(second, RDMA_OPTION_ID_REUSEADDR, 1u), 0);
    EXPECT_EQ(bind(second, port_of(first)), EADDRINUSE) << "the first did not agree";
    EXPECT_EQ(cm.listen(first), 0);
    EXPECT_EQ(bind(second, port_of(first)), EADDRINUSE);
    ASSERT_TRUE(cm.resolve_to_loopback(client, port_of(first)));
    EXPECT_EQ(bind(second, port_of(client)), EADDRINUSE) << "a resolved address has a port too";
}

TEST_F(Ports, AreSharedByThoseWhoAllAgreeUntilOneListens) {
    const std::uint32_t first = id(), third = id();
    std::uint32_t second = id();
    ASSERT_EQ(cm.set_option(first, RDMA_OPTION_ID_REUSEADDR, 1u), 0);
    ASSERT_EQ(bind(first, 0), 0);
    ASSERT_EQ(cm.set_option(second, RDMA_OPTION_ID_REUSEADDR, 1u), 0);
    EXPECT_EQ(bind(second, port_of(first)), 0);
    EXPECT_EQ(bind(third, port_of(first)), EADDRINUSE);
    EXPECT_EQ(cm.set_option(second, RDMA_OPTION_ID_REUSEADDR, 0u), EINVAL) << "too late";
    EXPECT_EQ(cm.listen(first), EADDRINUSE) << "a listener is alone";
    ASSERT_EQ(cm.destroy_id(second), 0);
    EXPECT_EQ(cm.listen(first), 0);
    second = id();
    ASSERT_EQ(cm.set_option(second, RDMA_OPTION_ID_REUSEADDR, 1u), 0);
    EXPECT_EQ(bind(second, port_of(first)), EADDRINUSE);
    EXPECT_EQ(cm.set_option(first, RDMA_OPTION_ID_REUSEADDR, 1u), EINVAL) << "it listens";
}

TEST_F(Ports, MayBeSharedAfterTheBind) {
    const std::uint32_t first = id(), second = id();
    ASSERT_EQ(bind(first, 0), 0);
    ASSERT_EQ(cm.set_option(first, RDMA_OPTION_ID_REUSEADDR, 1u), 0);
    ASSERT_EQ(cm.set_option(second, RDMA_OPTION_ID_REUSEADDR, 1u), 0);
    EXPECT_EQ(bind(second, port_of(first)), 0);
}

TEST_F(Ports, OfOneFamilyAloneThoughThatIsSaidAfterTheBind) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    for (const bool only : {false, true}) {
        const std::uint32_t server = id(), late = id();
        ASSERT_EQ(cm.bind(server, reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
        const std::uint16_t port = port_of(server);
        if (only) {
            ASSERT_EQ(cm.set_option(server, RDMA_OPTION_ID_AFONLY, 1u), 0);
        }
        EXPECT_EQ(port_of(server), port);
        ASSERT_EQ(cm.listen(server), 0);
        const Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const sockaddr_in to = loopback(port);
        EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), only ? -1 : 0);
        EXPECT_EQ(bind(late, port), only ? 0 : EADDRINUSE);
        EXPECT_EQ(cm.set_option(server, RDMA_OPTION_ID_AFONLY, 1u), EINVAL) << "it listens";
    }
}

}  // namespace
}  // namespace swrnic::test
