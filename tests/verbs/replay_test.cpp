// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of programs that wire their queue pairs themselves, in the order and with the values in which they make
// them. Where programs differ from one another, the device has to please all of them.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "device.h"
#include "wiring.h"

namespace swrnic::test {
namespace {

using SrqPtr = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;
using AhPtr = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;

// Registered memory.
struct Memory {
    Memory(ibv_pd* pd, std::size_t size, int access = kAllAccess)
        : octets(size), region(ibv_reg_mr(pd, octets.data(), size, access)) {}
    std::uint64_t address(std::size_t at = 0) const { return reinterpret_cast<std::uintptr_t>(octets.data() + at); }
    ibv_sge sge(std::size_t at, std::size_t length) const {
        return {.addr = address(at), .length = static_cast<std::uint32_t>(length), .lkey = region->lkey};
    }
    // Other octets for each seed.
    void fill(int seed) {
        for (std::size_t i = 0; i < octets.size(); ++i)
            octets[i] = static_cast<char>(i * 7 + i / 251 + static_cast<std::size_t>(seed));
    }

    std::vector<char> octets;
    MrPtr region;
};

class Replay : public DeviceTest {
  protected:
    void SetUp() override {
        DeviceTest::SetUp();
        ASSERT_EQ(ibv_query_port(context_.get(), 1, &port_), 0);
    }

    QpPtr make_qp(ibv_cq* cq, const ibv_qp_cap& cap, ibv_srq* srq = nullptr) {
        ibv_qp_init_attr attr = qp_attr(cq);
        attr.cap = cap;
        attr.srq = srq;
        return QpPtr(ibv_create_qp(pd_.get(), &attr));
    }
    ibv_gid gid(int index) const { return gid_at(context_.get(), index); }
    WiredEnd end(const QpPtr& qp, int index) const { return {gid(index), qp->qp_num}; }
    static int post(const QpPtr& qp, ibv_send_wr& wr) {
        ibv_send_wr* bad = nullptr;
        return ibv_post_send(qp.get(), &wr, &bad);
    }

    ibv_port_attr port_{};
};

std::string line_of(const std::string& path) {
    std::string line;
    std::ifstream file(path);
    std::getline(file, line);
    return line;
}

// ---- Mooncake's transfer engine ----

// One process of it: two QPs for a peer, and one thread that waits for edges of the completion channel.
struct MooncakeEnd {
    MooncakeEnd(ibv_context* context, ibv_pd* pd) : channel(ibv_create_comp_channel(context)), memory(pd, 1 << 20) {
        cq.reset(ibv_create_cq(context, 4096, this, channel.get(), 0));
        EXPECT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
        epoll_event edge{.events = EPOLLIN | EPOLLET, .data = {.fd = channel->fd}};
        EXPECT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &edge), 0);
        EXPECT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    }
    MooncakeEnd(const MooncakeEnd&) = delete;
    ~MooncakeEnd() { close(epoll); }

    // Takes one event for each edge, whatever waits besides.
    void complete(int count) {
        std::array<ibv_wc, 16> wcs{};
        while (count > 0) {
            const int got = ibv_poll_cq(cq.get(), wcs.size(), wcs.data());
            ASSERT_GE(got, 0);
            for (int i = 0; i < got; ++i)
                ASSERT_EQ(wcs[static_cast<std::size_t>(i)].status, IBV_WC_SUCCESS);
            count -= got;
            if (got != 0) continue;
            epoll_event event{};
            ASSERT_EQ(epoll_wait(epoll, &event, 1, 5000), 1) << count << " completions are missing";
            ibv_cq* of = nullptr;
            void* cookie = nullptr;
            ASSERT_EQ(ibv_get_cq_event(channel.get(), &of, &cookie), 0);
            EXPECT_EQ(cookie, this);
            ibv_ack_cq_events(of, 1);
            ASSERT_EQ(ibv_req_notify_cq(of, 0), 0);
        }
        EXPECT_EQ(count, 0);
    }

    ChannelPtr channel;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    CqPtr cq;
    Memory memory;
    std::array<QpPtr, 2> qps;
    Wiring chosen{.gid_index = 0,
                  .path_mtu = IBV_MTU_4096,
                  .rd_atomic = 16,
                  .timeout = 14,
                  .retry_count = 7,
                  .access = kAllAccess | IBV_ACCESS_REMOTE_ATOMIC,
                  .rts_mask = kRtsMask};
};

class Mooncake : public Replay {
  protected:
    // The first address that is RoCE v2, and has a network interface by its name in sysfs.
    int choose_gid(const std::string& device) const {
        for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(port_.gid_tbl_len); ++i) {
            ibv_gid_entry entry{};
            if (ibv_query_gid_ex(context_.get(), 1, i, &entry, 0) != 0) continue;
            if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !is_ipv4(entry.gid)) continue;
            if (line_of(device + "/ports/1/gid_attrs/ndevs/" + std::to_string(i)).empty()) continue;
            return static_cast<int>(i);
        }
        ADD_FAILURE() << "no GID that Mooncake would take";
        return 0;
    }
    void set_up(MooncakeEnd& from, const MooncakeEnd& to) const {
        for (std::size_t i = 0; i < from.qps.size(); ++i) {
            ASSERT_EQ(to_reset(from.qps[i].get()), 0);
            ASSERT_EQ(wire(from.qps[i].get(), from.chosen, end(to.qps[i], to.chosen.gid_index)), 0);
        }
    }
    // A batch of slices, each of four elements, spread over both QPs and linked.
    static void transfer(MooncakeEnd& from, const MooncakeEnd& to, ibv_wr_opcode opcode) {
        constexpr std::size_t kSlices = 128, kLength = 4096, kElements = 4;
        for (std::size_t q = 0; q < from.qps.size(); ++q) {
            std::array<ibv_send_wr, kSlices> wrs{};
            std::array<std::array<ibv_sge, kElements>, kSlices> sges{};
            for (std::size_t i = 0; i < kSlices; ++i) {
                const std::size_t at = (q * kSlices + i) * kLength;
                for (std::size_t e = 0; e < kElements; ++e)
                    sges[i][e] = from.memory.sge(at + e * kLength / kElements, kLength / kElements);
                wrs[i].wr_id = i;
                wrs[i].opcode = opcode;
                wrs[i].sg_list = sges[i].data();
                wrs[i].num_sge = kElements;
                wrs[i].send_flags = IBV_SEND_SIGNALED;
                wrs[i].next = i + 1 < kSlices ? &wrs[i + 1] : nullptr;
                wrs[i].wr.rdma.remote_addr = to.memory.address(at);
                wrs[i].wr.rdma.rkey = to.memory.region->rkey;
            }
            ASSERT_EQ(post(from.qps[q], wrs[0]), 0);
        }
        ASSERT_NO_FATAL_FAILURE(from.complete(static_cast<int>(from.qps.size() * kSlices)));
        EXPECT_EQ(from.memory.octets, to.memory.octets);
    }
};

TEST_F(Mooncake, TransfersAndWiresAnew) {
    const std::string device = std::string("/sys/class/infiniband/") + ibv_get_device_name(context_->device);
    std::array<char, PATH_MAX> parent;
    ASSERT_NE(realpath((device + "/../..").c_str(), parent.data()), nullptr);
    EXPECT_FALSE(line_of(device + "/device/numa_node").empty());

    MooncakeEnd a(context_.get(), pd_.get()), b(context_.get(), pd_.get());
    b.chosen.path_mtu = IBV_MTU_1024;
    for (MooncakeEnd* each : {&a, &b}) {
        each->chosen.gid_index = choose_gid(device);
        for (QpPtr& qp : each->qps)
            ASSERT_TRUE(qp = make_qp(each->cq.get(), {.max_send_wr = 256,
                                                      .max_recv_wr = 256,
                                                      .max_send_sge = 4,
                                                      .max_recv_sge = 4,
                                                      .max_inline_data = 64}));
    }
    // The first to be told of a break wires its end anew while the other's is still the old one.
    MooncakeEnd *first = &a, *second = &b;
    for (int round = 0; round < 10; ++round) {
        SCOPED_TRACE(round);
        ASSERT_NO_FATAL_FAILURE(set_up(*first, *second));
        ASSERT_NO_FATAL_FAILURE(set_up(*second, *first));
        first->memory.fill(2 * round);
        ASSERT_NO_FATAL_FAILURE(transfer(*first, *second, IBV_WR_RDMA_WRITE));
        first->memory.fill(2 * round + 1);
        ASSERT_NO_FATAL_FAILURE(transfer(*second, *first, IBV_WR_RDMA_READ));
        std::swap(first, second);
    }
}

// ---- RPC of ggml ----

// A TCP connection comes first; what is told of the QPs goes through it, and it says when the peer has gone.
class GgmlEnd {
  public:
    static constexpr std::size_t kChunk = 256 * 1024, kReceives = 24;

    // Takes the GID that is the address of its own end of the connection.
    GgmlEnd(ibv_context* context, ibv_pd* pd, int tcp, int gid_index)
        : channel_(ibv_create_comp_channel(context)),
          send_cq_(ibv_create_cq(context, 16, nullptr, nullptr, 0)),
          recv_cq_(ibv_create_cq(context, kReceives + 4, nullptr, channel_.get(), 0)),
          sent_(pd, kChunk, IBV_ACCESS_LOCAL_WRITE),
          received_(pd, kChunk * kReceives, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
          tcp_(tcp) {
        ibv_qp_init_attr attr{};
        attr.send_cq = send_cq_.get();
        attr.recv_cq = recv_cq_.get();
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 4,
                    .max_recv_wr = kReceives + 4,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 256};
        qp_.reset(ibv_create_qp(pd, &attr));
        EXPECT_GE(attr.cap.max_inline_data, 256u);
        inline_data_ = attr.cap.max_inline_data;
        chosen_.gid_index = gid_index;
        chosen_.rd_atomic = 1;
    }
    // Regions go before their QP, which may still have receives in them.
    ~GgmlEnd() {
        sent_.region.reset();
        received_.region.reset();
        qp_.reset();
        close(tcp_);
    }
    GgmlEnd(const GgmlEnd&) = delete;

    // Receives are posted in INIT: the peer may send as soon as it has been told of this end.
    bool activate(const ibv_gid& own) {
        WiredEnd peer{.gid = own, .qpn = qp_->qp_num};
        if (write(tcp_, &peer, sizeof peer) != sizeof peer) return false;
        if (recv(tcp_, &peer, sizeof peer, MSG_WAITALL) != sizeof peer) return false;
        if (to_init(qp_.get(), chosen_) != 0) return false;
        for (std::size_t slot = 0; slot < kReceives; ++slot)
            if (!receive(slot)) return false;
        return to_rtr_and_rts(qp_.get(), chosen_, peer) == 0;
    }
    bool send(const std::vector<char>& message) {
        for (std::size_t at = 0; at < message.size(); at += kChunk) {
            const std::size_t length = std::min(kChunk, message.size() - at);
            ibv_sge sge = sent_.sge(0, length);
            ibv_send_wr wr{}, *bad = nullptr;
            wr.opcode = IBV_WR_SEND;
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.send_flags = IBV_SEND_SIGNALED;
            if (length <= inline_data_) {
                sge = {.addr = reinterpret_cast<std::uintptr_t>(&message[at]),
                       .length = static_cast<std::uint32_t>(length),
                       .lkey = 0};
                wr.send_flags |= IBV_SEND_INLINE;
            } else {
                std::memcpy(sent_.octets.data(), &message[at], length);
            }
            if (ibv_post_send(qp_.get(), &wr, &bad) != 0 || next(send_cq_.get()).status != IBV_WC_SUCCESS) return false;
        }
        return true;
    }
    // false: the peer has gone.
    bool receive(std::vector<char>& message) {
        for (std::size_t at = 0; at < message.size();) {
            const std::optional<ibv_wc> wc = wait();
            if (!wc || wc->status != IBV_WC_SUCCESS || at + wc->byte_len > message.size()) return false;
            std::memcpy(&message[at], &received_.octets[wc->wr_id * kChunk], wc->byte_len);
            at += wc->byte_len;
            if (!receive(wc->wr_id)) return false;
        }
        return true;
    }

  private:
    bool receive(std::size_t slot) {
        ibv_sge sge = received_.sge(slot * kChunk, kChunk);
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = slot;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        return ibv_post_recv(qp_.get(), &wr, &bad) == 0;
    }
    std::optional<ibv_wc> wait() {
        ibv_wc wc{};
        for (;;) {
            if (ibv_poll_cq(recv_cq_.get(), 1, &wc) == 1) return wc;
            if (ibv_req_notify_cq(recv_cq_.get(), 0) != 0) return {};
            if (ibv_poll_cq(recv_cq_.get(), 1, &wc) == 1) return wc;
            std::array<pollfd, 2> waiting{pollfd{.fd = channel_->fd, .events = POLLIN, .revents = 0},
                                          pollfd{.fd = tcp_, .events = POLLIN, .revents = 0}};
            if (poll(waiting.data(), waiting.size(), 5000) <= 0) return {};
            if (waiting[1].revents != 0) return {};  // nothing more is said there, so it has ended
            ibv_cq* cq = nullptr;
            void* cookie = nullptr;
            if (ibv_get_cq_event(channel_.get(), &cq, &cookie) != 0) return {};
            ibv_ack_cq_events(cq, 1);
        }
    }

    ChannelPtr channel_;
    CqPtr send_cq_, recv_cq_;
    Memory sent_, received_;
    QpPtr qp_;
    Wiring chosen_;
    std::size_t inline_data_ = 0;
    int tcp_;
};

TEST_F(Replay, GgmlAnswersCalls) {
    const int index = ipv4_index(context_.get());
    const ibv_gid own = gid(index);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    std::memcpy(&address.sin_addr, own.raw + 12, 4);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    socklen_t size = sizeof address;
    ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);

    constexpr std::array<std::size_t, 5> kSizes{1, 256, 257, GgmlEnd::kChunk, 40 * GgmlEnd::kChunk + 1};
    std::thread server([&] {
        GgmlEnd end(context_.get(), pd_.get(), accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), index);
        ASSERT_TRUE(end.activate(own));
        for (const std::size_t length : kSizes) {
            std::vector<char> message(length);
            ASSERT_TRUE(end.receive(message)) << length;
            ASSERT_TRUE(end.send(message)) << length;
        }
        std::vector<char> more(1);
        EXPECT_FALSE(end.receive(more)) << "the connection has ended";
    });
    [&] {
        const int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ(connect(tcp, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        GgmlEnd end(context_.get(), pd_.get(), tcp, index);
        ASSERT_TRUE(end.activate(own));
        for (const std::size_t length : kSizes) {
            std::vector<char> message(length), answer(length);
            for (std::size_t i = 0; i < length; ++i)
                message[i] = static_cast<char>(i * 31 + i / 253);
            ASSERT_TRUE(end.send(message)) << length;
            ASSERT_TRUE(end.receive(answer)) << length;
            EXPECT_EQ(message, answer);
        }
    }();
    server.join();
    close(listener);
}

// ---- rc_verbs of UCX ----

TEST_F(Replay, UcxConnectsBeforeItsPeer) {
    const std::string node = std::string("/dev/infiniband/") + context_->device->dev_name;
    struct stat status {};
    ASSERT_EQ(stat(node.c_str(), &status), 0);
    EXPECT_TRUE(S_ISCHR(status.st_mode));
    EXPECT_EQ(access(node.c_str(), R_OK | W_OK), 0);
    ASSERT_EQ(fcntl(context_->async_fd, F_SETFL, fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK), 0);

    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 256;
    wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    wanted.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    ibv_cq_ex* const extended = ibv_create_cq_ex(context_.get(), &wanted);
    const CqPtr cq(extended != nullptr ? ibv_cq_ex_to_cq(extended)
                                       : ibv_create_cq(context_.get(), 256, nullptr, nullptr, 0));
    ASSERT_TRUE(cq);

    Memory memory(pd_.get(), 1 << 16);
    memory.fill(1);
    ibv_srq_init_attr shared{};
    shared.attr = {.max_wr = 64, .max_sge = 1, .srq_limit = 0};
    const SrqPtr srq(ibv_create_srq(pd_.get(), &shared));
    ASSERT_TRUE(srq);
    const ibv_qp_cap cap{
        .max_send_wr = 64, .max_recv_wr = 0, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 64};
    Wiring chosen{.gid_index = ipv4_index(context_.get())};
    chosen.rd_atomic = 4;
    ibv_ah_attr way{};
    way.is_global = way.port_num = 1;
    way.grh.dgid = gid(chosen.gid_index);
    way.grh.sgid_index = static_cast<std::uint8_t>(chosen.gid_index);
    EXPECT_TRUE(AhPtr(ibv_create_ah(pd_.get(), &way)));

    constexpr std::size_t kHeader = 16, kPayload = 32, kSize = kHeader + kPayload, kMessages = 32;
    for (int round = 0; round < 2; ++round) {  // each end is the first once, so each calls once
        QpPtr a = make_qp(cq.get(), cap, srq.get()), b = make_qp(cq.get(), cap, srq.get());
        if ((a->qp_num < b->qp_num) != (round == 0)) std::swap(a, b);
        ASSERT_EQ(wire(a.get(), chosen, end(b, chosen.gid_index)), 0);
        for (std::size_t i = 0; i < kMessages; ++i) {
            std::array<ibv_sge, 2> parts{memory.sge(i, kHeader), memory.sge(4096 + i, kPayload)};
            ibv_send_wr wr{};
            wr.sg_list = parts.data();
            wr.num_sge = 2;
            wr.opcode = IBV_WR_SEND;
            if (i % 2 == 0) wr.send_flags |= IBV_SEND_INLINE;
            if (i + 1 == kMessages) wr.send_flags |= IBV_SEND_SIGNALED;
            wr.wr_id = kMessages;
            ASSERT_EQ(post(a, wr), 0);
        }
        ibv_wc wc{};
        EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
        for (std::size_t i = 0; i < kMessages; ++i) {
            ibv_sge into = memory.sge(32768 + i * kSize, kSize);
            ibv_recv_wr wr{}, *bad = nullptr;
            wr.wr_id = i;
            wr.sg_list = &into;
            wr.num_sge = 1;
            ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
        }
        ASSERT_EQ(wire(b.get(), chosen, end(a, chosen.gid_index)), 0);
        for (std::size_t received = 0, all = 0; all <= kMessages; ++all) {
            wc = next(cq.get());
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            if (wc.wr_id == kMessages) continue;
            EXPECT_EQ(wc.wr_id, received);
            EXPECT_EQ(wc.qp_num, b->qp_num);
            ASSERT_EQ(wc.byte_len, kSize);
            const char* const at = &memory.octets[32768 + received * kSize];
            EXPECT_EQ(std::memcmp(at, &memory.octets[received], kHeader), 0);
            EXPECT_EQ(std::memcmp(at + kHeader, &memory.octets[4096 + received], kPayload), 0);
            ++received;
        }
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            std::array<ibv_sge, 2> parts{memory.sge(8192, 4096), memory.sge(12288, 4096)};
            ibv_send_wr wr{};
            wr.sg_list = parts.data();
            wr.num_sge = 2;
            wr.opcode = opcode;
            wr.send_flags = IBV_SEND_SIGNALED;
            wr.wr.rdma.remote_addr = memory.address(16384);
            wr.wr.rdma.rkey = memory.region->rkey;
            if (opcode == IBV_WR_RDMA_READ) std::fill_n(&memory.octets[8192], 8192, 'r');
            ASSERT_EQ(post(a, wr), 0);
            ASSERT_EQ(next(cq.get()).status, IBV_WC_SUCCESS);
            EXPECT_TRUE(std::equal(&memory.octets[8192], &memory.octets[16384], &memory.octets[16384]));
        }
        EXPECT_NE(memory.octets[8192], 'r');
    }
    ibv_async_event event{};
    EXPECT_NE(ibv_get_async_event(context_.get(), &event), 0) << ibv_event_type_str(event.event_type);
    EXPECT_EQ(errno, EAGAIN);
}

// ---- brpc ----

// It loads libibverbs by name, wires without a timeout of its own and without Reads, and sends from as many elements as
// the device has.
TEST_F(Replay, BrpcSends) {
    void* const library = dlopen("libibverbs.so.1", RTLD_LAZY);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto modify_qp = reinterpret_cast<decltype(&ibv_modify_qp)>(dlsym(library, "ibv_modify_qp"));
    ASSERT_NE(modify_qp, nullptr);
    EXPECT_EQ(modify_qp, &ibv_modify_qp) << "two libraries would have two lists of devices";

    int index = port_.gid_tbl_len - 1;
    while (index > 0 && gid(index).global.interface_id == 0)
        --index;
    const ChannelPtr channel(ibv_create_comp_channel(context_.get()));
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
    const CqPtr cq(ibv_create_cq(context_.get(), 256, nullptr, channel.get(), 0));
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 1), 0);

    const auto elements = static_cast<std::uint32_t>(limits_.max_sge);
    Memory memory(pd_.get(), 1 << 16);
    memory.fill(3);
    const ibv_qp_cap cap{
        .max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = elements, .max_recv_sge = 1, .max_inline_data = 0};
    Wiring chosen{.gid_index = index};
    chosen.rd_atomic = 0;
    chosen.rts_mask = kRtsMask & ~IBV_QP_TIMEOUT;
    const QpPtr a = make_qp(cq.get(), cap), b = make_qp(cq.get(), cap);
    ASSERT_TRUE(a && b);
    const auto receive = [&](const QpPtr& qp) {
        ibv_sge into = memory.sge(32768, 8192);
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.sg_list = &into;
        wr.num_sge = 1;
        return ibv_post_recv(qp.get(), &wr, &bad);
    };
    for (const auto& [from, to] : {std::pair{&a, &b}, {&b, &a}}) {
        ASSERT_EQ(to_init(from->get(), chosen), 0);
        for (int i = 0; i < 8; ++i)
            ASSERT_EQ(receive(*from), 0);
        ASSERT_EQ(to_rtr_and_rts(from->get(), chosen, end(*to, index)), 0);
    }
    for (const auto& [from, to] : {std::pair{&a, &b}, {&b, &a}}) {
        std::vector<ibv_sge> sges;
        for (std::size_t i = 0; i < elements; ++i)
            sges.push_back(memory.sge(i * 300, 100));
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        wr.sg_list = sges.data();
        wr.num_sge = static_cast<int>(elements);
        wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
        ASSERT_EQ(post(*from, wr), 0);
        pollfd waiting{.fd = channel->fd, .events = POLLIN, .revents = 0};
        ASSERT_EQ(poll(&waiting, 1, 5000), 1);
        ibv_cq* of = nullptr;
        void* cookie = nullptr;
        ASSERT_EQ(ibv_get_cq_event(channel.get(), &of, &cookie), 0);
        ibv_ack_cq_events(of, 1);
        ASSERT_EQ(ibv_req_notify_cq(of, 1), 0);
        for (int i = 0; i < 2; ++i) {
            const ibv_wc wc = next(cq.get());
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            if (wc.opcode != IBV_WC_RECV) continue;
            EXPECT_EQ(wc.qp_num, (*to)->qp_num);
            EXPECT_EQ(wc.byte_len, 100 * elements);
        }
        for (std::size_t i = 0; i < elements; ++i)
            EXPECT_EQ(std::memcmp(&memory.octets[32768 + i * 100], &memory.octets[i * 300], 100), 0) << i;
    }
    dlclose(library);
}

// ---- net_ib of NCCL ----

// A sender writes, and tells so by a message that takes a receive without memory; the receiver flushes its own by a
// Read over a QP that is wired to itself. A thread waits for asynchronous events all the while.
TEST_F(Replay, NcclWritesAndFlushes) {
    ASSERT_EQ(ibv_fork_init(), 0);
    static std::atomic<int> events;
    std::thread watch([context = context_.get()] {
        ibv_async_event event{};
        while (ibv_get_async_event(context, &event) == 0) {
            const bool is_last = event.event_type == IBV_EVENT_QP_ACCESS_ERR;
            ibv_ack_async_event(&event);
            ++events;
            if (is_last) return;
        }
    });
    [&] {
        Wiring chosen{.gid_index = ipv4_index(context_.get())};
        chosen.rd_atomic = 1;
        const CqPtr cq = make_cq(1024);
        Memory source(pd_.get(), 1 << 20), target(pd_.get(), 1 << 20), flushed(pd_.get(), 64, IBV_ACCESS_LOCAL_WRITE);
        const ibv_qp_cap cap{
            .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        const QpPtr sender = make_qp(cq.get(), cap), receiver = make_qp(cq.get(), cap), own = make_qp(cq.get(), cap);
        ASSERT_TRUE(sender && receiver && own);
        for (const auto& [from, to] : {std::pair{&receiver, &sender}, {&sender, &receiver}, {&own, &own}})
            ASSERT_EQ(wire(from->get(), chosen, end(*to, chosen.gid_index)), 0);
        for (int round = 0; round < 8; ++round) {
            ibv_recv_wr slot{}, *bad = nullptr;
            slot.wr_id = 1;
            ASSERT_EQ(slot.sg_list, nullptr);
            ASSERT_EQ(ibv_post_recv(receiver.get(), &slot, &bad), 0);
            source.fill(round);
            std::array<ibv_sge, 2> halves{source.sge(0, 1 << 19), source.sge(1 << 19, 1 << 19)};
            std::array<ibv_send_wr, 3> wrs{};
            for (std::size_t i = 0; i < 2; ++i) {
                wrs[i].opcode = IBV_WR_RDMA_WRITE;
                wrs[i].sg_list = &halves[i];
                wrs[i].num_sge = 1;
                wrs[i].wr.rdma.remote_addr = target.address(i << 19);
                wrs[i].wr.rdma.rkey = target.region->rkey;
                wrs[i].next = &wrs[i + 1];
            }
            wrs[2].wr_id = 2;
            wrs[2].opcode = IBV_WR_SEND;
            wrs[2].send_flags = IBV_SEND_SIGNALED;
            ASSERT_EQ(post(sender, wrs[0]), 0);
            std::uint64_t ids = 0;
            for (int i = 0; i < 2; ++i) {
                const ibv_wc wc = next(cq.get());
                ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
                ids += wc.wr_id;
            }
            EXPECT_EQ(ids, 3u);
            ibv_sge one = flushed.sge(0, sizeof(int));
            ibv_send_wr flush{};
            flush.opcode = IBV_WR_RDMA_READ;
            flush.sg_list = &one;
            flush.num_sge = 1;
            flush.send_flags = IBV_SEND_SIGNALED;
            flush.wr.rdma.remote_addr = target.address();
            flush.wr.rdma.rkey = target.region->rkey;
            ASSERT_EQ(post(own, flush), 0);
            ASSERT_EQ(next(cq.get()).status, IBV_WC_SUCCESS);
            EXPECT_EQ(source.octets, target.octets);
            EXPECT_EQ(std::memcmp(flushed.octets.data(), target.octets.data(), sizeof(int)), 0);
        }
        EXPECT_EQ(events, 0);
        ibv_sge any = source.sge(0, 8);
        ibv_send_wr wrong{};
        wrong.opcode = IBV_WR_RDMA_WRITE;
        wrong.sg_list = &any;
        wrong.num_sge = 1;
        wrong.wr.rdma.remote_addr = flushed.address();  // which is for local writes alone
        wrong.wr.rdma.rkey = flushed.region->rkey;
        ASSERT_EQ(post(sender, wrong), 0);
        EXPECT_EQ(next(cq.get()).status, IBV_WC_REM_ACCESS_ERR);
        watch.join();
    }();
    if (watch.joinable()) watch.detach();  // the test has failed, and no event will come
}

}  // namespace
}  // namespace swrnic::test
