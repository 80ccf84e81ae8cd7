// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A completion of a wired QP, and of others where it is asked for, says that the peer has the data. Programs tell their
// peer so by other ways as soon as they have polled it, and the peer looks at its memory at once.
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ostream>
#include <string>
#include <thread>

#include "other_process.h"
#include "wiring.h"

namespace swrnic::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSize = 65536;
using Words = std::array<std::uint32_t, kSize / sizeof(std::uint32_t)>;

// Memory of the target's, in which the initiator can look for itself.
struct Shared {
    Shared()
        : words(static_cast<Words*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
        EXPECT_NE(static_cast<void*>(words), MAP_FAILED);
    }
    ~Shared() { munmap(words, kSize); }
    Shared(const Shared&) = delete;

    bool holds(std::uint32_t value, std::uint32_t length) const {
        const volatile std::uint32_t* const there = words->data();
        for (std::size_t i = 0; i < length / sizeof value; ++i)
            if (there[i] != value) return false;
        return true;
    }

    Words* const words;
};

struct Target {
    WiredEnd end;
    std::uint64_t address;
    std::uint32_t rkey;
};

struct Round {
    std::uint32_t value, length;
};

struct Condition {
    const char* name;
    bool busy, on_one_processor, stopped_before;
    friend std::ostream& operator<<(std::ostream& out, const Condition& condition) { return out << condition.name; }
};

// Each round that it is told of it looks for, and says whether it found it.
int look_for_rounds(Talk& talk, const Shared& memory, const Condition& condition) {
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (condition.on_one_processor && sched_setaffinity(0, sizeof first, &first) != 0) return 1;
    Station here;
    WiredEnd peer{};
    if (!here.open(memory.words, kSize) ||
        !talk.tell(Target{here.end(), reinterpret_cast<std::uintptr_t>(memory.words), here.region->rkey}) ||
        !talk.hear(peer) || wire(here.qp.get(), here.chosen, peer) != 0)
        return 2;
    for (Round round{}; condition.busy ? talk.hear_busily(round) : talk.hear(round);)
        if (!talk.tell(memory.holds(round.value, round.length))) return 3;
    return 0;
}

class Placed : public testing::TestWithParam<Condition> {
  protected:
    // The fork comes before this process has the device.
    void connect(const char* completion) {
        ASSERT_EQ(setenv("SWRNIC_COMPLETION", completion, 1), 0);
        ASSERT_TRUE(other_.talk.hear(target_));
        ASSERT_TRUE(here_.open(source_.data(), kSize));
        ASSERT_TRUE(other_.talk.tell(here_.end()));
        ASSERT_EQ(wire(here_.qp.get(), here_.chosen, target_.end), 0);
    }
    void write(const Round& round) {
        std::fill_n(source_.begin(), round.length / sizeof round.value, round.value);
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(source_.data()), round.length, here_.region->lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = target_.address;
        wr.wr.rdma.rkey = target_.rkey;
        ASSERT_EQ(ibv_post_send(here_.qp.get(), &wr, &bad), 0);
    }
    void write_while_stopped(const Round& round) {
        ASSERT_NO_FATAL_FAILURE(other_.stop());
        ASSERT_NO_FATAL_FAILURE(write(round));
    }
    bool completes(std::chrono::milliseconds within) {
        ibv_wc wc{};
        for (const auto end = Clock::now() + within; Clock::now() < end;)
            if (ibv_poll_cq(here_.cq.get(), 1, &wc) != 0) return true;
        return false;
    }

    Shared memory_;
    OtherProcess other_{[this](Talk& talk) { return look_for_rounds(talk, memory_, GetParam()); }};
    Target target_{};
    Words source_{};
    Station here_;
};

TEST_P(Placed, TheTargetFindsWhatItIsToldOf) {
    ASSERT_NO_FATAL_FAILURE(connect("auto"));
    constexpr std::array<std::uint32_t, 4> kLengths{8, 256, 4096, kSize};
    const auto count = static_cast<std::uint32_t>(rounds(600, 20'000));
    for (std::uint32_t value = 1; value <= count; ++value) {
        const Round round{value, kLengths[value % kLengths.size()]};
        if (GetParam().stopped_before && value % 8 == 0) {
            ASSERT_NO_FATAL_FAILURE(write_while_stopped(round));
            ASSERT_NO_FATAL_FAILURE(other_.go_on());
        } else {
            ASSERT_NO_FATAL_FAILURE(write(round));
        }
        ASSERT_EQ(next(here_.cq.get()).status, IBV_WC_SUCCESS);
        ASSERT_TRUE(memory_.holds(round.value, round.length)) << "round " << value;
        bool found = false;
        ASSERT_TRUE(other_.talk.tell(round) && other_.talk.hear(found));
        ASSERT_TRUE(found) << "round " << value;
    }
}

INSTANTIATE_TEST_SUITE_P(, Placed,
                         testing::Values(Condition{"Asleep", false, false, false},
                                         Condition{"Busy", true, false, false},
                                         Condition{"BusyOnOneProcessor", true, true, false},
                                         Condition{"StoppedBefore", false, false, true},
                                         Condition{"AllAtOnce", true, true, true}),
                         [](const auto& of) { return std::string(of.param.name); });

// A process that is stopped places nothing.
using CompletionOfAStoppedPeer = Placed;
INSTANTIATE_TEST_SUITE_P(, CompletionOfAStoppedPeer, testing::Values(Condition{"Asleep", false, false, false}));

TEST_P(CompletionOfAStoppedPeer, WaitsUntilItGoesOn) {
    ASSERT_NO_FATAL_FAILURE(connect("auto"));
    const Round round{7, 4096};
    ASSERT_NO_FATAL_FAILURE(write({6, 4096}));
    ASSERT_EQ(next(here_.cq.get()).status, IBV_WC_SUCCESS);
    ASSERT_NO_FATAL_FAILURE(write_while_stopped(round));
    EXPECT_FALSE(completes(std::chrono::milliseconds(200)));
    EXPECT_FALSE(memory_.holds(round.value, 4));
    ASSERT_NO_FATAL_FAILURE(other_.go_on());
    ASSERT_EQ(next(here_.cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(memory_.holds(round.value, round.length));
}

TEST_P(CompletionOfAStoppedPeer, ComesTooEarlyWithSent) {
    ASSERT_NO_FATAL_FAILURE(connect("sent"));
    const Round round{7, 4096};
    ASSERT_NO_FATAL_FAILURE(write({6, 4096}));
    ASSERT_EQ(next(here_.cq.get()).status, IBV_WC_SUCCESS);
    bool found = false;  // once asked, the target has received
    while (!found)
        ASSERT_TRUE(other_.talk.tell(Round{6, 4096}) && other_.talk.hear(found));
    ASSERT_NO_FATAL_FAILURE(write_while_stopped(round));
    ASSERT_TRUE(completes(std::chrono::seconds(5)));
    EXPECT_FALSE(memory_.holds(round.value, 4)) << "what this test shows of `auto` it would show of `sent`";
    ASSERT_NO_FATAL_FAILURE(other_.go_on());
}

// ---- a Write with Immediate Data

// Its receive completes when its octets lie where they belong, whoever drives the engine, with the CRC and without.
class ToldByImmediate : public testing::TestWithParam<const char*> {
  protected:
    static constexpr std::uint32_t kSlots = 8, kSlotWords = 1024;
    using Slots = std::array<std::array<std::uint32_t, kSlotWords>, kSlots>;

    void SetUp() override {
        ASSERT_EQ(setenv("SWRNIC_CRC", GetParam(), 1), 0);
        ASSERT_TRUE(here_.open(source_.data(), sizeof source_) && there_.open(target_.data(), sizeof target_));
        ASSERT_EQ(to_init(there_.qp.get(), there_.chosen), 0);
        for (std::uint32_t i = 0; i < kSlots; ++i)
            ASSERT_TRUE(post_receive());
        ASSERT_EQ(wire(here_.qp.get(), here_.chosen, there_.end()), 0);
        ASSERT_EQ(to_rtr_and_rts(there_.qp.get(), there_.chosen, here_.end()), 0);
    }
    void TearDown() override { unsetenv("SWRNIC_CRC"); }

    bool post_receive() {
        ibv_recv_wr wr{}, *bad = nullptr;  // with no SGE
        return ibv_post_recv(there_.qp.get(), &wr, &bad) == 0;
    }
    bool write(std::uint32_t value) {
        auto& slot = source_[value % kSlots];
        const std::uint32_t words = words_of(value);
        std::fill_n(slot.begin(), words, value);
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(slot.data()), words * 4, here_.region->lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.imm_data = value;
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(target_[value % kSlots].data());
        wr.wr.rdma.rkey = there_.region->rkey;
        return ibv_post_send(here_.qp.get(), &wr, &bad) == 0;
    }
    // The values come in their order.
    bool is_placed(const ibv_wc& wc, std::uint32_t value) const {
        const auto& slot = target_[value % kSlots];
        return wc.status == IBV_WC_SUCCESS && wc.imm_data == value && wc.byte_len == words_of(value) * 4 &&
               std::all_of(slot.begin(), slot.begin() + words_of(value), [&](auto word) { return word == value; });
    }
    static std::uint32_t words_of(std::uint32_t value) { return 1 + value * 37 % kSlotWords; }
    static ibv_wc next(const Station& of) {
        ibv_wc wc{};
        while (ibv_poll_cq(of.cq.get(), 1, &wc) == 0)
            std::this_thread::yield();
        return wc;
    }

    Slots source_{}, target_{};
    Station here_, there_;
};

TEST_P(ToldByImmediate, TheDataIsPlaced) {
    const auto count = static_cast<std::uint32_t>(rounds(3000, 1'000'000));
    std::atomic<std::uint32_t> seen{0}, missing{0};
    std::thread receiver([&] {
        for (std::uint32_t value = 0; value < count; ++value) {
            const ibv_wc wc = next(there_);
            if (!is_placed(wc, value) || !post_receive()) ++missing;
            if (wc.status != IBV_WC_SUCCESS) break;
            seen = value + 1;
        }
    });
    for (std::uint32_t value = 0; value < count && missing == 0; ++value) {
        while (value - seen >= kSlots && missing == 0)
            std::this_thread::yield();
        EXPECT_TRUE(write(value)) << value;
        if (next(here_).status != IBV_WC_SUCCESS) ++missing;
    }
    if (missing != 0) to_reset(there_.qp.get());  // what is left is flushed
    receiver.join();
    EXPECT_EQ(missing, 0u);
}

INSTANTIATE_TEST_SUITE_P(Crc, ToldByImmediate, testing::Values("on", "off"),
                         [](const auto& crc) { return std::string(crc.param); });

// ---- QPs of rdma_cm

// What the initiator's process and the target's are told, and how many Reads both ask for.
struct Terms {
    const char* name;
    const char *persona, *completion, *target_completion;
    std::uint8_t depth;
    friend std::ostream& operator<<(std::ostream& out, const Terms& terms) { return out << terms.name; }
};

struct DestroyEndpoint {
    void operator()(rdma_cm_id* id) const { rdma_destroy_ep(id); }
};
using EndpointPtr = std::unique_ptr<rdma_cm_id, DestroyEndpoint>;

// An endpoint of librdmacm's at a port of 127.0.0.1; without a port it listens at any.
EndpointPtr endpoint(std::uint16_t port) {
    rdma_addrinfo hints{}, *found = nullptr;
    hints.ai_port_space = RDMA_PS_TCP;
    hints.ai_flags = port == 0 ? RAI_PASSIVE : 0;
    if (rdma_getaddrinfo("127.0.0.1", std::to_string(port).c_str(), &hints, &found) != 0) return nullptr;
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    rdma_cm_id* id = nullptr;
    const int error = rdma_create_ep(&id, found, nullptr, &attr);
    rdma_freeaddrinfo(found);
    return EndpointPtr(error == 0 ? id : nullptr);
}

int set_terms(const Terms& terms, const char* completion) {
    return setenv("SWRNIC_PERSONA", terms.persona, 1) | setenv("SWRNIC_COMPLETION", completion, 1);
}

rdma_conn_param parameters_of(const Terms& terms) {
    rdma_conn_param wish{};
    wish.initiator_depth = wish.responder_resources = terms.depth;
    wish.rnr_retry_count = 7;
    return wish;
}

struct CmTarget {
    std::uint64_t address;
    std::uint32_t rkey;
};

enum class Order : std::uint8_t { kReceive, kDisconnectWhenReceived, kSend };

// Does what it is told, one word for one word, until the talk ends.
int take_orders(Talk& talk, const Shared& memory, const Terms& terms) {
    if (set_terms(terms, terms.target_completion) != 0) return 1;
    const EndpointPtr listener = endpoint(0);
    if (listener == nullptr || rdma_listen(listener.get(), 1) != 0) return 2;
    if (!talk.tell(ntohs(rdma_get_src_port(listener.get())))) return 3;
    rdma_cm_id* asked = nullptr;
    if (rdma_get_request(listener.get(), &asked) != 0) return 4;
    const EndpointPtr id(asked);
    const MrPtr region(ibv_reg_mr(id->pd, memory.words, kSize, kAllAccess));
    rdma_conn_param answer = parameters_of(terms);
    if (!region || rdma_accept(id.get(), &answer) != 0) return 5;
    if (!talk.tell(CmTarget{reinterpret_cast<std::uintptr_t>(memory.words), region->rkey})) return 6;
    for (Order order{}; talk.hear(order);) {
        ibv_wc wc{};
        if (order == Order::kSend) {
            if (rdma_post_send(id.get(), nullptr, memory.words, 64, region.get(), IBV_SEND_SIGNALED) != 0) return 9;
            if (rdma_get_send_comp(id.get(), &wc) != 1 || !talk.tell(wc.status)) return 10;
            continue;
        }
        if (rdma_post_recv(id.get(), nullptr, memory.words, kSize, region.get()) != 0 || !talk.tell(order)) return 7;
        if (order != Order::kDisconnectWhenReceived) continue;
        if (rdma_get_recv_comp(id.get(), &wc) != 1 || rdma_disconnect(id.get()) != 0) return 8;
    }
    return 0;
}

class PlacedOfRdmaCm : public testing::TestWithParam<Terms> {
  protected:
    void SetUp() override {
        ASSERT_EQ(set_terms(GetParam(), GetParam().completion), 0);
        std::uint16_t port = 0;
        ASSERT_TRUE(other_.talk.hear(port));
        id_ = endpoint(port);
        ASSERT_TRUE(id_);
        rdma_conn_param wish = parameters_of(GetParam());
        ASSERT_EQ(rdma_connect(id_.get(), &wish), 0);
        EXPECT_EQ(id_->event->param.conn.initiator_depth, GetParam().depth) << "as the program has asked";
        ASSERT_TRUE(other_.talk.hear(target_));
        region_.reset(ibv_reg_mr(id_->pd, source_.data(), kSize, kAllAccess));
        ASSERT_TRUE(region_);
    }
    void TearDown() override { unsetenv("SWRNIC_PERSONA"); }
    void write(std::uint32_t value) {
        source_.fill(value);
        ASSERT_EQ(rdma_post_write(id_.get(), nullptr, source_.data(), kSize, region_.get(), IBV_SEND_SIGNALED,
                                  target_.address, target_.rkey),
                  0);
    }
    void send() {
        ASSERT_EQ(rdma_post_send(id_.get(), nullptr, source_.data(), kSize, region_.get(), IBV_SEND_SIGNALED), 0);
    }
    void order(Order order) {
        Order done{};
        ASSERT_TRUE(other_.talk.tell(order) && other_.talk.hear(done));
    }
    ibv_cq* cq() const { return id_->send_cq; }
    bool completes(std::chrono::milliseconds within) {
        ibv_wc wc{};
        for (const auto end = Clock::now() + within; Clock::now() < end;)
            if (ibv_poll_cq(cq(), 1, &wc) != 0) return true;
        return false;
    }

    Shared memory_;
    OtherProcess other_{[this](Talk& talk) { return take_orders(talk, memory_, GetParam()); }};
    CmTarget target_{};
    Words source_{};
    EndpointPtr id_;
    MrPtr region_;
};

constexpr Terms kOnRequest{"OnRequest", "iwarp", "placed", "auto", 4};
constexpr Terms kWithoutReads{"WithoutReadsOfTheProgram", "iwarp", "placed", "placed", 0};
constexpr Terms kRoce{"Roce", "roce", "auto", "auto", 4};
constexpr Terms kRoceWithoutReads{"RoceWithoutReads", "roce", "auto", "auto", 0};
const auto name_of_terms = [](const auto& of) { return std::string(of.param.name); };

INSTANTIATE_TEST_SUITE_P(, PlacedOfRdmaCm, testing::Values(kOnRequest, kWithoutReads, kRoce, kRoceWithoutReads),
                         name_of_terms);

TEST_P(PlacedOfRdmaCm, AStoppedPeerHasNothing) {
    ASSERT_NO_FATAL_FAILURE(write(6));
    ASSERT_EQ(next(cq()).status, IBV_WC_SUCCESS);
    ASSERT_TRUE(memory_.holds(6, kSize));
    ASSERT_NO_FATAL_FAILURE(other_.stop());
    ASSERT_NO_FATAL_FAILURE(write(7));
    EXPECT_FALSE(completes(std::chrono::milliseconds(200)));
    ASSERT_NO_FATAL_FAILURE(other_.go_on());
    ASSERT_EQ(next(cq()).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(memory_.holds(7, kSize));
}

TEST_P(PlacedOfRdmaCm, ASendWaitsForItsReceive) {
    ASSERT_NO_FATAL_FAILURE(send());
    EXPECT_FALSE(completes(std::chrono::milliseconds(100)));
    ASSERT_NO_FATAL_FAILURE(order(Order::kReceive));
    EXPECT_EQ(next(cq()).status, IBV_WC_SUCCESS);
}

TEST_P(PlacedOfRdmaCm, AGracefulEndWaitsForTheLastAnswer) {
    ASSERT_NO_FATAL_FAILURE(order(Order::kReceive));
    ASSERT_NO_FATAL_FAILURE(other_.stop());
    ASSERT_NO_FATAL_FAILURE(send());
    ibv_qp_attr closing{};
    closing.qp_state = IBV_QPS_SQD;  // how rdma_disconnect() begins on an RNIC; it waits for the peer's end
    ASSERT_EQ(ibv_modify_qp(id_->qp, &closing, IBV_QP_STATE), 0);
    ASSERT_NO_FATAL_FAILURE(other_.go_on());
    EXPECT_EQ(next(cq()).status, IBV_WC_SUCCESS);
}

TEST_P(PlacedOfRdmaCm, APeerThatEndsAtAMessageHasConfirmedIt) {
    ASSERT_NO_FATAL_FAILURE(order(Order::kDisconnectWhenReceived));
    ASSERT_NO_FATAL_FAILURE(send());
    EXPECT_EQ(next(cq()).status, IBV_WC_SUCCESS);
}

// Who asks no peer.
using SentOfRdmaCm = PlacedOfRdmaCm;
INSTANTIATE_TEST_SUITE_P(, SentOfRdmaCm,
                         testing::Values(Terms{"ByDefault", "iwarp", "auto", "auto", 4},
                                         Terms{"RoceOnRequest", "roce", "sent", "auto", 4}),
                         name_of_terms);

TEST_P(SentOfRdmaCm, CompletesThoughThePeerIsStopped) {
    ASSERT_NO_FATAL_FAILURE(other_.stop());
    ASSERT_NO_FATAL_FAILURE(write(7));
    EXPECT_TRUE(completes(std::chrono::seconds(5)));
    EXPECT_FALSE(memory_.holds(7, kSize));
    ASSERT_NO_FATAL_FAILURE(other_.go_on());
}

// A Responder whose peer grants no Read has nothing to ask it with. (An Initiator's grants one for its RTR, at least.)
using ResponderOfRdmaCm = PlacedOfRdmaCm;
INSTANTIATE_TEST_SUITE_P(, ResponderOfRdmaCm,
                         testing::Values(Terms{"WithAGrant", "iwarp", "auto", "placed", 4},
                                         Terms{"WithoutAGrant", "iwarp", "auto", "placed", 0}),
                         name_of_terms);

TEST_P(ResponderOfRdmaCm, AsksIfItMay) {
    ibv_wc_status status{};
    ASSERT_TRUE(other_.talk.tell(Order::kSend) && other_.talk.hear(status));
    const bool sent = GetParam().depth == 0;
    EXPECT_EQ(status == IBV_WC_SUCCESS, sent) << "no receive is posted: " << ibv_wc_status_str(status);
}

}  // namespace
}  // namespace swrnic::test
