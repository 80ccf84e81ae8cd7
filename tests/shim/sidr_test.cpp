// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// rdma_cm's UDP port space: ids that ask for a QP and ids that answer, strangers between them, and groups.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "raw.h"

namespace swrnic::test {
namespace {

constexpr std::uint64_t kAskerUid = 0xaaaa, kListenerUid = 0x1111, kChildUid = 0xbbbb;
constexpr std::uint32_t kQpn = 0x123456, kUdpQKey = 0x01234567;
constexpr std::uint32_t kNoService = 1, kRejectedStatus = 2;  // the kernel shows InfiniBand's numbers
constexpr std::size_t kRequestLen = 208, kAnswerLen = 164;    // docs/PROTOCOL.md
constexpr int kSoon = 300;                                    // ms in which nothing is to come

std::string said(const rdma_ucm_event_resp& event) {
    const auto& ud = event.param.ud;
    return {reinterpret_cast<const char*>(ud.private_data), ud.private_data_len};
}

// A listener of one file, and of another an id that has resolved the way to it.
struct Pair {
    Pair() {
        listener = passive.create_id(kListenerUid, RDMA_PS_UDP);
        port = passive.listen_on_loopback(listener);
        asker = new_asker();
    }

    std::uint32_t new_asker() const {
        const std::uint32_t id = active.create_id(kAskerUid, RDMA_PS_UDP);
        EXPECT_TRUE(active.resolve_to_loopback(id, port));
        return id;
    }

    std::optional<rdma_ucm_event_resp> request(std::string_view private_data = {}) const {
        if (active.connect(asker, kQpn, private_data) != 0) return std::nullopt;
        return passive.event();
    }

    Cm active, passive;
    std::uint32_t listener = 0, asker = 0;
    std::uint16_t port = 0;
};

// A message by hand.
Bytes message(std::uint8_t kind, std::size_t size, std::uint64_t number) {
    Bytes bytes(size);
    std::memcpy(bytes.data(), "SWSR\1", 5);
    bytes[5] = kind;
    for (int i = 0; i < 8; ++i)
        bytes[8 + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(number >> (56 - 8 * i));
    return bytes;
}

// A plain UDP socket on the loopback.
class Stranger {
  public:
    Stranger() : fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in at = loopback();
        socklen_t size = sizeof(at);
        EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), size), 0);
        EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
        port = ntohs(at.sin_port);
    }
    void send(const Bytes& bytes, std::uint16_t to) const {
        const sockaddr_in peer = loopback(to);
        EXPECT_EQ(
            sendto(fd.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)),
            static_cast<ssize_t>(bytes.size()));
    }
    // Empty: nothing came.
    Bytes receive(int timeout_ms, std::uint16_t* from = nullptr) const {
        Bytes bytes(1000);
        sockaddr_in peer{};
        socklen_t size = sizeof(peer);
        if (!readable(fd.get(), timeout_ms)) return {};
        const ssize_t got =
            recvfrom(fd.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&peer), &size);
        bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        if (from != nullptr) *from = ntohs(peer.sin_port);
        return bytes;
    }

    Fd fd;
    std::uint16_t port = 0;
};

TEST(Sidr, AnAcceptedRequestTellsWhereToSendTo) {
    const Pair pair;
    const auto asked = pair.request("may I?");
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->event, kConnectRequest);
    EXPECT_EQ(asked->uid, kListenerUid);
    EXPECT_EQ(said(*asked), "may I?");
    ASSERT_EQ(pair.passive.accept(asked->id, kChildUid, kQpn, "you may"), 0);
    const auto told = pair.active.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kEstablished);
    EXPECT_EQ(told->status, 0u);
    EXPECT_EQ(told->uid, kAskerUid);
    EXPECT_EQ(said(*told), "you may");
    const rdma_ucm_ud_param& ud = told->param.ud;
    EXPECT_EQ(ud.qp_num, kQpn);
    EXPECT_EQ(ud.qkey, kUdpQKey);
    EXPECT_EQ(ud.ah_attr.is_global, 1);
    EXPECT_EQ(ud.ah_attr.port_num, 1);
    EXPECT_FALSE(pair.passive.event(kSoon)) << "who accepts hears nothing more";
    EXPECT_EQ(pair.active.disconnect(pair.asker), 0) << "as in the kernel: there is nothing to end";

    // An address handle can be made of it.
    const Context context;
    std::uint32_t pd = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    ib_uverbs_create_ah_resp made{};
    ib_uverbs_create_ah create{};
    create.response = address_of(made);
    create.pd_handle = pd;
    create.attr = ud.ah_attr;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_CREATE_AH, create, sizeof(made)), 0);
}

TEST(Sidr, TheListenerMayHaveAQKeyOfItsOwn) {
    const Pair pair;
    const auto asked = pair.request();
    ASSERT_TRUE(asked);
    rdma_ucm_accept take{};
    take.id = asked->id;
    take.conn_param.qp_num = kQpn;
    take.conn_param.qkey = 0x11223344;
    take.conn_param.valid = 1;
    ASSERT_EQ(pair.passive.command(RDMA_USER_CM_CMD_ACCEPT, take), 0);
    const auto told = pair.active.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->param.ud.qkey, 0x11223344u);
}

TEST(Sidr, ARefusalSaysWhy) {
    const Pair pair;
    const auto asked = pair.request();
    ASSERT_TRUE(asked);
    ASSERT_EQ(pair.passive.reject(asked->id, "not today"), 0);
    const auto told = pair.active.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kUnreachable);
    EXPECT_EQ(told->status, kRejectedStatus);
    EXPECT_EQ(said(*told), "not today");
    EXPECT_EQ(pair.passive.accept(asked->id, kChildUid, kQpn), EINVAL) << "it has been decided";
}

TEST(Sidr, NobodyListens) {
    Stranger gone;
    const Cm cm;
    const std::uint32_t id = cm.create_id(kAskerUid, RDMA_PS_UDP);
    ASSERT_TRUE(cm.resolve_to_loopback(id, gone.port));
    gone.fd.reset();
    ASSERT_EQ(cm.connect(id, kQpn), 0);
    const auto told = cm.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kUnreachable);
    EXPECT_EQ(told->status, kNoService);
}

// perftest's server listens anew when its client may be asking already.
TEST(Sidr, AListenerMayComeALittleLater) {
    Stranger gone;
    const Cm asks, listens;
    const std::uint32_t asker = asks.create_id(kAskerUid, RDMA_PS_UDP);
    ASSERT_TRUE(asks.resolve_to_loopback(asker, gone.port));
    gone.fd.reset();
    ASSERT_EQ(asks.connect(asker, kQpn), 0);
    EXPECT_FALSE(asks.event(20)) << "it does not believe the first refusal";
    const sockaddr_in at = loopback(gone.port);
    const std::uint32_t listener = listens.create_id(kListenerUid, RDMA_PS_UDP);
    ASSERT_EQ(listens.bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0);
    ASSERT_EQ(listens.listen(listener, 8), 0);
    const auto asked = listens.event();
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->event, kConnectRequest);
}

TEST(Sidr, ASilentListenerIsGivenUpInTime) {
    const Pair pair;
    const Context context;
    swrnic_create_qp_req startup = default_startup();
    startup.timeout_ms = 700;
    const auto qp = context.ready_qp(startup);
    ASSERT_TRUE(qp);
    const auto before = std::chrono::steady_clock::now();
    ASSERT_EQ(pair.active.connect(pair.asker, qp->qpn), 0);
    const auto told = pair.active.event();
    const auto took = std::chrono::steady_clock::now() - before;
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kUnreachable);
    EXPECT_EQ(static_cast<int>(told->status), -ETIMEDOUT);
    EXPECT_GE(took, std::chrono::milliseconds(699));
    const auto asked = pair.passive.event();
    ASSERT_TRUE(asked);
    EXPECT_FALSE(pair.passive.event(kSoon)) << "one request, though it was sent several times";
    EXPECT_EQ(pair.passive.accept(asked->id, kChildUid, kQpn), 0);
    EXPECT_FALSE(pair.active.event(kSoon)) << "too late";
}

TEST(Sidr, ALostAnswerIsSentAgain) {
    const Pair pair;
    const Stranger peer;
    const Bytes request = message(1, kRequestLen, 77);
    peer.send(request, pair.port);
    const auto asked = pair.passive.event();
    ASSERT_TRUE(asked);
    peer.send(request, pair.port);
    EXPECT_TRUE(peer.receive(kSoon).empty()) << "nothing is decided";
    ASSERT_EQ(pair.passive.accept(asked->id, kChildUid, kQpn, "yes"), 0);
    std::uint16_t from = 0;
    const Bytes answer = peer.receive(2000, &from);
    EXPECT_EQ(from, pair.port);
    Bytes expected = message(2, kAnswerLen, 77);
    expected[7] = 3;
    std::memcpy(expected.data() + 20, "\0\x12\x34\x56\x01\x23\x45\x67yes", 11);
    EXPECT_EQ(answer, expected);
    peer.send(request, pair.port);
    EXPECT_EQ(peer.receive(2000), expected);
    EXPECT_FALSE(pair.passive.event(kSoon)) << "it is the same request";
    const Stranger other;
    other.send(request, pair.port);  // the same number from elsewhere is another's
    EXPECT_TRUE(pair.passive.event());
    EXPECT_TRUE(peer.receive(0).empty() && other.receive(0).empty());
}

TEST(Sidr, ARequestWhoseIdIsGoneIsANewOne) {
    const Pair pair;
    const Stranger peer;
    const Bytes request = message(1, kRequestLen, 78);
    for (int i = 0; i < 2; ++i) {
        peer.send(request, pair.port);
        const auto asked = pair.passive.event();
        ASSERT_TRUE(asked);
        EXPECT_EQ(pair.passive.reject(asked->id, ""), 0);
        EXPECT_EQ(pair.passive.destroy_id(asked->id), 0);
        EXPECT_FALSE(peer.receive(2000).empty());
    }
}

TEST(Sidr, WhatIsNoRequestChangesNothing) {
    const Pair pair;
    const Stranger stranger;
    const Bytes good = message(1, kRequestLen, 5);
    std::vector<Bytes> bad(8, good);
    bad[0].pop_back();
    bad[1].push_back(0);
    bad[2].resize(28);
    bad[3].clear();
    bad[4][7] = 181;  // more private data than there is room for
    bad[5][6] = 1;    // the same, in the upper octet
    bad[6][0] = 'X';  // another protocol
    bad[7][4] = 2;    // another version
    bad.push_back(message(2, kRequestLen, 5));
    bad.push_back(message(2, kAnswerLen, 5));
    for (const Bytes& bytes : bad)
        stranger.send(bytes, pair.port);
    EXPECT_FALSE(pair.passive.event(kSoon));
    EXPECT_TRUE(stranger.receive(0).empty()) << "nobody is answered who has not asked";
    stranger.send(good, pair.port);
    EXPECT_TRUE(pair.passive.event());
}

TEST(Sidr, WhatIsNoAnswerChangesNothing) {
    const Stranger peer, stranger;
    const Cm cm;
    const std::uint32_t id = cm.create_id(kAskerUid, RDMA_PS_UDP);
    ASSERT_TRUE(cm.resolve_to_loopback(id, peer.port));
    ASSERT_EQ(cm.connect(id, kQpn, "hello"), 0);
    std::uint16_t from = 0;
    const Bytes request = peer.receive(2000, &from);
    ASSERT_EQ(request.size(), kRequestLen);
    EXPECT_EQ(std::memcmp(request.data(), "SWSR\1\1\0\5", 8), 0);
    EXPECT_EQ(std::memcmp(request.data() + 28, "hello", 5), 0);
    Bytes good = message(2, kAnswerLen, 0);
    std::memcpy(good.data() + 8, request.data() + 8, 8);
    std::memcpy(good.data() + 20, "\0\x12\x34\x56", 4);
    std::vector<Bytes> bad(7, good);
    bad[0].pop_back();
    bad[1].push_back(0);
    bad[2][15] ^= 1;  // another request's
    bad[3][7] = 137;  // more private data than there is room for
    bad[4][4] = 2;    // another version
    bad[5][20] = 1;   // a QP number of 25 bits
    bad[6][5] = 1;    // no answer
    for (const Bytes& bytes : bad)
        peer.send(bytes, from);
    stranger.send(good, from);
    EXPECT_FALSE(cm.event(kSoon));
    EXPECT_EQ(peer.receive(2000), request) << "it goes on asking";
    peer.send(good, from);
    const auto told = cm.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kEstablished);
    peer.send(good, from);
    EXPECT_FALSE(cm.event(kSoon)) << "one answer is enough";
}

TEST(Sidr, AnIdMayGoWhileItAsks) {
    const Pair pair;
    const auto asked = pair.request();
    ASSERT_TRUE(asked);
    EXPECT_EQ(pair.active.destroy_id(pair.asker), 0);
    EXPECT_EQ(pair.passive.accept(asked->id, kChildUid, kQpn), 0) << "the answer is lost, and nobody minds";
    EXPECT_FALSE(pair.active.event(kSoon));
}

TEST(Sidr, DestroyingARequestRefusesIt) {
    const Pair pair;
    const auto asked = pair.request();
    ASSERT_TRUE(asked);
    EXPECT_EQ(pair.passive.destroy_id(asked->id), 0);
    const auto told = pair.active.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kUnreachable);
    EXPECT_EQ(told->status, kRejectedStatus);
}

TEST(Sidr, AListenersEndRefusesWhatWasNotToldYet) {
    const Pair pair;
    ASSERT_EQ(pair.active.connect(pair.asker, kQpn), 0);
    ASSERT_TRUE(readable(pair.passive.fd.get(), 2000));
    EXPECT_EQ(pair.passive.destroy_id(pair.listener), 0);
    const auto told = pair.active.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kUnreachable);
    EXPECT_EQ(told->status, kRejectedStatus);
}

TEST(Sidr, ARequestOutlivesItsListener) {
    const Pair pair;
    const auto asked = pair.request();
    ASSERT_TRUE(asked);
    EXPECT_EQ(pair.passive.destroy_id(pair.listener), 0);
    ASSERT_EQ(pair.passive.accept(asked->id, kChildUid, kQpn), 0);
    const auto told = pair.active.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kEstablished);
    // Its port is free again.
    const sockaddr_in at = loopback(pair.port);
    EXPECT_EQ(
        pair.passive.bind(pair.passive.create_id(1, RDMA_PS_UDP), reinterpret_cast<const sockaddr*>(&at), sizeof(at)),
        0);
}

TEST(Sidr, ClientsAtOnceGetTheirOwnAnswers) {
    const Pair pair;
    const std::uint32_t second = pair.new_asker();
    ASSERT_EQ(pair.active.connect(pair.asker, kQpn, "1"), 0);
    ASSERT_EQ(pair.active.connect(second, kQpn, "2"), 0);
    for (int i = 0; i < 2; ++i) {
        const auto asked = pair.passive.event();
        ASSERT_TRUE(asked);
        const std::string who = said(*asked);
        ASSERT_EQ(pair.passive.accept(asked->id, kChildUid, static_cast<std::uint32_t>(who[0]), who), 0);
    }
    for (int i = 0; i < 2; ++i) {
        const auto told = pair.active.event();
        ASSERT_TRUE(told);
        EXPECT_EQ(told->event, kEstablished);
        EXPECT_EQ(said(*told), told->id == second ? "2" : "1");
        EXPECT_EQ(told->param.ud.qp_num, told->id == second ? '2' : '1');
    }
}

TEST(Sidr, RequestsThatNobodyTakesAreBounded) {
    const Cm cm;
    const std::uint32_t listener = cm.create_id(kListenerUid, RDMA_PS_UDP);
    const std::uint16_t port = cm.listen_on_loopback(listener, 2);
    const Stranger stranger;
    for (std::uint64_t number = 0; number < 20; ++number)
        stranger.send(message(1, kRequestLen, number), port);
    ASSERT_TRUE(readable(cm.fd.get(), 2000));
    usleep(kSoon * 1000);
    EXPECT_TRUE(cm.event(kSoon) && cm.event(kSoon));
    EXPECT_FALSE(cm.event(kSoon));
    stranger.send(message(1, kRequestLen, 19), port);
    EXPECT_TRUE(cm.event()) << "there is room again";
}

TEST(Sidr, PrivateDataHasItsLimits) {
    const Pair pair;
    const std::string most(180, 'r'), much(136, 'a');
    EXPECT_EQ(pair.active.connect(pair.asker, kQpn, most + "r"), EINVAL);
    const auto asked = pair.request(most);
    ASSERT_TRUE(asked);
    EXPECT_EQ(said(*asked), most);
    EXPECT_EQ(pair.passive.accept(asked->id, kChildUid, kQpn, much + "a"), EINVAL);
    EXPECT_EQ(pair.passive.reject(asked->id, much + "a"), EINVAL);
    EXPECT_EQ(pair.passive.accept(asked->id, kChildUid, 0x1000000), EINVAL) << "a number has 24 bits";
    EXPECT_EQ(pair.passive.accept(asked->id, kChildUid, kQpn, much), 0);
    const auto told = pair.active.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(said(*told), much);
}

TEST(Sidr, TwoIdsShareNoPort) {
    const Pair pair;
    const sockaddr_in at = loopback(pair.port);
    const std::uint32_t second = pair.passive.create_id(2, RDMA_PS_UDP);
    EXPECT_EQ(pair.passive.set_option(second, RDMA_OPTION_ID_REUSEADDR, std::uint32_t{1}), 0);
    EXPECT_EQ(pair.passive.bind(second, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0)
        << "rsockets bind an id to a port that they have by themselves";
    rdma_ucm_query_addr_resp where{};
    EXPECT_EQ(pair.passive.query_addr(second, where), 0);
    EXPECT_EQ(std::memcmp(&where.src_addr, &at, 4), 0) << "it is where it was told to be";
    EXPECT_EQ(pair.passive.listen(second), EADDRINUSE);
    EXPECT_EQ(pair.passive.destroy_id(pair.listener), 0);
    EXPECT_EQ(pair.passive.listen(second), 0);
}

TEST(Sidr, AttributesOfAQpOfDatagrams) {
    const Pair pair;
    ib_uverbs_qp_attr out{};
    rdma_ucm_init_qp_attr ask{};
    ask.response = address_of(out);
    ask.id = pair.asker;
    ask.qp_state = 1;
    ASSERT_EQ(pair.active.command(RDMA_USER_CM_CMD_INIT_QP_ATTR, ask, sizeof(out)), 0);
    EXPECT_EQ(out.qp_attr_mask, 1u << 0 | 1u << 4 | 1u << 5 | 1u << 6) << "state, P_Key index, port, Q_Key";
    EXPECT_EQ(out.qp_state, 1u);
    EXPECT_EQ(out.pkey_index, 0);
    EXPECT_EQ(out.port_num, 1);
    EXPECT_EQ(out.qkey, kUdpQKey);
}

// ---- groups ----

constexpr std::uint64_t kGroupUid = 0xcccc;

sockaddr_in group_address(const char* text = "239.192.7.31") {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

int join(const Cm& cm, std::uint32_t id, const void* address, std::size_t size, std::uint32_t& group,
         std::uint16_t flags = RDMA_MC_JOIN_FLAG_FULLMEMBER) {
    rdma_ucm_create_id_resp made{};
    rdma_ucm_join_mcast command{};
    command.response = address_of(made);
    command.uid = kGroupUid;
    command.id = id;
    command.addr_size = static_cast<std::uint16_t>(size);
    command.join_flags = flags;
    std::memcpy(&command.addr, address, std::min(size, sizeof(command.addr)));
    const int error = cm.command(RDMA_USER_CM_CMD_JOIN_MCAST, command, sizeof(made));
    group = made.id;
    return error;
}

int leave(const Cm& cm, std::uint32_t group, std::uint32_t& events) {
    rdma_ucm_destroy_id_resp counts{};
    rdma_ucm_destroy_id command{};
    command.response = address_of(counts);
    command.id = group;
    const int error = cm.command(RDMA_USER_CM_CMD_LEAVE_MCAST, command, sizeof(counts));
    events = counts.events_reported;
    return error;
}

std::uint32_t resolved(const Cm& cm, std::uint16_t port_space = RDMA_PS_UDP) {
    const std::uint32_t id = cm.create_id(kAskerUid, port_space);
    const sockaddr_in to = loopback(1);
    EXPECT_EQ(cm.resolve(id, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_TRUE(cm.event());
    return id;
}

TEST(Sidr, AGroupIsJoinedAndLeft) {
    const Cm cm;
    const std::uint32_t id = resolved(cm);
    const sockaddr_in address = group_address();
    std::uint32_t group = 0, events = 9;
    ASSERT_EQ(join(cm, id, &address, sizeof(address), group), 0);
    const auto told = cm.event();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->event, kMulticastJoin);
    EXPECT_EQ(told->uid, kGroupUid);
    EXPECT_EQ(told->id, group);
    const rdma_ucm_ud_param& ud = told->param.ud;
    EXPECT_EQ(ud.qp_num, 0xffffffu);
    EXPECT_EQ(ud.qkey, kUdpQKey);
    EXPECT_EQ(ud.ah_attr.is_global, 1);
    in6_addr mapped;
    inet_pton(AF_INET6, "::ffff:239.192.7.31", &mapped);
    EXPECT_EQ(std::memcmp(ud.ah_attr.grh.dgid, &mapped, sizeof(mapped)), 0);
    EXPECT_EQ(leave(cm, group, events), 0);
    EXPECT_EQ(events, 1u);
    EXPECT_EQ(leave(cm, group, events), ENOENT);
    EXPECT_EQ(cm.destroy_id(id, &events), 0);
    EXPECT_EQ(events, 2u) << "ADDR_RESOLVED, and the group's as well";
}

TEST(Sidr, AGroupThatIsLeftTellsNothing) {
    const Cm cm, other;
    const std::uint32_t id = resolved(cm);
    const sockaddr_in address = group_address();
    std::uint32_t left = 0, gone = 0, events = 9;
    ASSERT_EQ(join(cm, id, &address, sizeof(address), left), 0);
    EXPECT_EQ(leave(other, left, events), EINVAL) << "it is another file's";
    EXPECT_EQ(leave(cm, left, events), 0);
    EXPECT_EQ(events, 0u);
    EXPECT_FALSE(cm.event(0));
    ASSERT_EQ(join(cm, id, &address, sizeof(address), gone), 0);
    EXPECT_EQ(cm.destroy_id(id), 0);
    EXPECT_FALSE(cm.event(0));
    EXPECT_EQ(leave(cm, gone, events), ENOENT);
}

TEST(Sidr, GroupsByEveryKindOfAddress) {
    const Cm cm;
    const std::uint32_t id = resolved(cm);
    std::uint32_t group = 0;
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    inet_pton(AF_INET6, "ff15::7:31", &v6.sin6_addr);
    std::uint8_t ib[48] = {27};
    std::memcpy(ib + 8, &v6.sin6_addr, sizeof(v6.sin6_addr));
    ASSERT_EQ(join(cm, id, &v6, sizeof(v6), group, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER), 0);
    ASSERT_EQ(join(cm, id, ib, sizeof(ib), group), 0);
    rdma_ucm_create_id_resp made{};
    rdma_ucm_join_ip_mcast older{};
    older.response = address_of(made);
    older.id = id;
    older.addr = v6;
    ASSERT_EQ(cm.command(RDMA_USER_CM_CMD_JOIN_IP_MCAST, older, sizeof(made)), 0);
    for (int i = 0; i < 3; ++i) {
        const auto told = cm.event();
        ASSERT_TRUE(told);
        EXPECT_EQ(std::memcmp(told->param.ud.ah_attr.grh.dgid, &v6.sin6_addr, sizeof(v6.sin6_addr)), 0);
    }
}

TEST(Sidr, WhatIsNoGroupIsRefused) {
    const Cm cm;
    const std::uint32_t id = resolved(cm), of_connections = resolved(cm, RDMA_PS_TCP);
    const std::uint32_t idle = cm.create_id(1, RDMA_PS_UDP);
    const sockaddr_in address = group_address(), host = group_address("10.1.2.3");
    std::uint32_t group = 0;
    EXPECT_EQ(join(cm, id, &host, sizeof(host), group), EINVAL);
    EXPECT_EQ(join(cm, id, &address, 4, group), EINVAL);
    EXPECT_EQ(join(cm, id, &address, 0, group), EINVAL);
    std::array<std::uint8_t, 4096> much{};  // a good address, and more
    std::memcpy(much.data(), &address, sizeof(address));
    EXPECT_EQ(join(cm, id, much.data(), much.size(), group), EINVAL);
    EXPECT_EQ(join(cm, id, &address, sizeof(address), group, RDMA_MC_JOIN_FLAG_RESERVED), EINVAL);
    EXPECT_EQ(join(cm, of_connections, &address, sizeof(address), group), EINVAL);
    EXPECT_EQ(join(cm, idle, &address, sizeof(address), group), EINVAL) << "it knows no device";
    EXPECT_EQ(join(cm, 12345, &address, sizeof(address), group), ENOENT);
    EXPECT_FALSE(cm.event(0));
}

}  // namespace
}  // namespace swrnic::test
