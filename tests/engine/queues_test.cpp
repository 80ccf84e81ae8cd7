// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The rings of a QP and the completion queue, each alone.
#include <gtest/gtest.h>

#include <thread>

#include "engine/support.h"

namespace swrnic::engine::test {

namespace {

// ---- WqeRing

TEST(WqeRing, TakesWhatWasGrantedAndNoMore) {
    for (const std::uint32_t most : {1u, 2u, 3u, 5u, 64u}) {
        WqeRing<RecvWqe> ring(most, 4 * sizeof(Sge));
        for (std::uint64_t round = 0; round < 10; ++round) {
            for (std::uint32_t i = 0; i < most; ++i) {
                RecvWqe* wqe = ring.reserve();
                ASSERT_NE(wqe, nullptr);
                wqe->wr_id = round * most + i;
                for (std::uint32_t sge = 0; sge < 4; ++sge)
                    wqe->sges()[sge] = {wqe->wr_id, i, sge};
                ring.publish();
            }
            EXPECT_EQ(ring.reserve(), nullptr) << most;
            EXPECT_EQ(ring.tail() - ring.head(), most);
            for (std::uint32_t i = 0; i < most; ++i) {
                const RecvWqe& wqe = *ring.peek(ring.head());
                EXPECT_EQ(wqe.wr_id, round * most + i);
                for (std::uint32_t sge = 0; sge < 4; ++sge) {
                    EXPECT_EQ(wqe.sges()[sge].addr, wqe.wr_id) << "slots overlap";
                    EXPECT_EQ(wqe.sges()[sge].lkey, sge);
                }
                ring.release();
            }
            EXPECT_EQ(ring.head(), ring.tail());
        }
    }
}

TEST(WqeRing, ReserveAloneShowsNothing) {
    WqeRing<SendWqe> ring(2, 16);
    SendWqe* const first = ring.reserve();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(ring.reserve(), first) << "nothing was published yet";
    EXPECT_EQ(ring.head(), ring.tail());
    ring.publish();
    EXPECT_NE(ring.reserve(), first);
    EXPECT_EQ(ring.peek(ring.head()), first);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % alignof(SendWqe), 0u);
}

TEST(WqeRing, BetweenTwoThreads) {
    WqeRing<RecvWqe> ring(3, sizeof(Sge));
    constexpr std::uint64_t kCount = 20000;
    std::thread producer([&] {
        for (std::uint64_t i = 0; i < kCount;) {
            RecvWqe* wqe = ring.reserve();
            if (wqe == nullptr) {
                std::this_thread::yield();
                continue;
            }
            wqe->wr_id = i;
            wqe->sges()[0] = {~i, 0, 0};
            ring.publish();
            ++i;
        }
    });
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < kCount;) {
        if (ring.head() == ring.tail()) {
            std::this_thread::yield();
            continue;
        }
        const RecvWqe& wqe = *ring.peek(ring.head());
        wrong += wqe.wr_id != i || wqe.sges()[0].addr != ~i;
        ring.release();
        ++i;
    }
    producer.join();
    EXPECT_EQ(wrong, 0u);
}

// ---- SpscRing

TEST(SpscRing, InOrderUpToItsCapacity) {
    SpscRing<int> ring;
    EXPECT_EQ(ring.capacity(), 0u);
    EXPECT_TRUE(ring.empty());
    EXPECT_FALSE(ring.publish(1)) << "no capacity yet";
    for (const std::uint32_t capacity : {1u, 3u, 8u}) {
        ring.resize(capacity);
        int next = 0, expected = 0;
        for (int round = 0; round < 5; ++round) {
            while (ring.publish(next))
                ++next;
            ASSERT_EQ(ring.size(), capacity);
            EXPECT_EQ(ring.published(), static_cast<std::uint32_t>(next));
            for (std::uint32_t i = 0; i < capacity; ++i)
                EXPECT_EQ(ring.peek(i), expected + static_cast<int>(i));
            for (std::uint32_t i = 0; i < (capacity + 1) / 2; ++i) {
                EXPECT_EQ(ring.peek(), expected++);
                ring.release();
            }
            EXPECT_EQ(ring.empty(), capacity == 1);
        }
        ring.resize(0);
        EXPECT_TRUE(ring.empty()) << "resize empties";
        EXPECT_EQ(ring.published(), 0u);
        EXPECT_FALSE(ring.publish(1));
    }
}

// ---- Cq

struct CqRig {
    explicit CqRig(std::uint32_t entries = 8) : cq(entries, 42) {}
    void push(std::uint64_t wr_id, WcStatus status = WcStatus::kSuccess, bool solicited = false,
              std::uint32_t qpn = 7) {
        Pass pass = passes.begin();
        Cq::Producer(cq, pass).push(make_completion(qpn, wr_id, status, WcOpcode::kRecv), solicited);
        Outbox& outbox = pass.outbox();
        told += outbox.notify.size();
        for (const std::uint32_t handle : outbox.notify)
            EXPECT_EQ(handle, 42u);
        for (const Outbox::Event& event : outbox.events) {
            EXPECT_EQ(event.event, AsyncEvent::kCqErr);
            EXPECT_EQ(event.id, 42u);
            ++errors;
        }
        outbox = Outbox{};
    }
    std::vector<std::uint64_t> poll(int most) {
        std::vector<std::uint64_t> ids;
        const int count = cq.poll(most, [&](const WorkCompletion& done) { ids.push_back(done.wr_id); });
        EXPECT_EQ(static_cast<std::size_t>(count), ids.size());
        return ids;
    }
    PassPool passes;
    Cq cq;
    std::size_t told = 0, errors = 0;
};
using Ids = std::vector<std::uint64_t>;

TEST(Cq, EntriesAreAtLeastWhatWasAskedFor) {
    EXPECT_EQ(Cq(0, 1).entries(), 1u);
    EXPECT_EQ(Cq(1, 1).entries(), 1u);
    EXPECT_EQ(Cq(5, 1).entries(), 8u);
    EXPECT_EQ(Cq(8, 1).entries(), 8u);
}

TEST(Cq, OldestFirstAndNoMoreThanAskedFor) {
    CqRig rig;
    std::uint64_t next = 0, expected = 0;
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 5; ++i)
            rig.push(next++);
        EXPECT_EQ(rig.poll(0), Ids{});
        EXPECT_EQ(rig.poll(2), (Ids{expected, expected + 1}));
        EXPECT_EQ(rig.poll(100), (Ids{expected + 2, expected + 3, expected + 4}));
        EXPECT_EQ(rig.poll(1), Ids{});
        expected += 5;
    }
    EXPECT_EQ(rig.told, 0u) << "never armed";
    EXPECT_EQ(rig.errors, 0u);
}

TEST(Cq, ArmedForAnyTellsOnce) {
    CqRig rig;
    rig.push(1);
    rig.cq.arm(false);
    EXPECT_EQ(rig.told, 0u) << "what is there already is not told";
    rig.push(2);
    EXPECT_EQ(rig.told, 1u);
    rig.push(3, WcStatus::kSuccess, true);
    rig.push(4, WcStatus::kWrFlushErr);
    EXPECT_EQ(rig.told, 1u) << "once per arming";
    rig.cq.arm(false);
    rig.cq.arm(false);
    rig.push(5);
    rig.push(6);
    EXPECT_EQ(rig.told, 2u) << "armings do not add up";
}

TEST(Cq, ArmedForSolicitedWaitsForOneOrForAnError) {
    CqRig rig(64);
    for (const bool by_error : {false, true}) {
        const std::size_t before = rig.told;
        rig.cq.arm(true);
        rig.push(1);
        rig.push(2);
        EXPECT_EQ(rig.told, before);
        rig.push(3, by_error ? WcStatus::kWrFlushErr : WcStatus::kSuccess, !by_error);
        EXPECT_EQ(rig.told, before + 1);
        rig.push(4, WcStatus::kWrFlushErr, true);
        EXPECT_EQ(rig.told, before + 1);
    }
}

TEST(Cq, TheWiderArmingStands) {
    for (const bool any_first : {false, true}) {
        CqRig rig;
        rig.cq.arm(!any_first);
        rig.cq.arm(any_first);
        rig.push(1);
        EXPECT_EQ(rig.told, 1u) << any_first;
    }
}

TEST(Cq, OverflowIsToldOnceAndKeepsWhatWasThere) {
    CqRig rig(4);
    for (std::uint64_t i = 0; i < 4; ++i)
        rig.push(i);
    EXPECT_EQ(rig.errors, 0u) << "full is no overflow";
    rig.push(4);
    EXPECT_EQ(rig.errors, 1u);
    rig.push(5);
    EXPECT_EQ(rig.errors, 1u);
    EXPECT_EQ(rig.poll(10), (Ids{0, 1, 2, 3}));
    for (std::uint64_t i = 6; i < 11; ++i)
        rig.push(i);
    EXPECT_EQ(rig.errors, 1u);
}

TEST(Cq, ResizeKeepsWhatStandsInIt) {
    CqRig rig(4);
    for (std::uint64_t id = 0; id < 6; ++id) {  // wraps
        rig.push(id);
        if (id < 2) {
            EXPECT_EQ(rig.poll(1), (std::vector<std::uint64_t>{id}));
        }
    }
    EXPECT_FALSE(rig.cq.resize(3)) << "four stand in it";
    ASSERT_TRUE(rig.cq.resize(9));
    EXPECT_GE(rig.cq.entries(), 9u);
    for (std::uint64_t id = 6; id < 11; ++id)
        rig.push(id);
    EXPECT_EQ(rig.errors, 0u);
    EXPECT_EQ(rig.poll(20), (std::vector<std::uint64_t>{2, 3, 4, 5, 6, 7, 8, 9, 10}));
    ASSERT_TRUE(rig.cq.resize(1));
    rig.push(11);
    rig.push(12);
    EXPECT_EQ(rig.errors, 1u);
}

TEST(Cq, PurgeForgetsOneQpAlone) {
    CqRig rig;
    for (std::uint64_t i = 0; i < 6; ++i)
        rig.push(i);
    EXPECT_EQ(rig.poll(6).size(), 6u);  // the ring wraps below
    for (std::uint64_t i = 0; i < 8; ++i)
        rig.push(i, WcStatus::kSuccess, false, i % 3 == 0 ? 7 : 8);
    rig.cq.purge(9);
    rig.cq.purge(7);
    for (std::uint64_t i = 8; i < 11; ++i)
        rig.push(i, WcStatus::kSuccess, false, 7);
    EXPECT_EQ(rig.errors, 0u) << "room again";
    EXPECT_EQ(rig.poll(20), (Ids{1, 2, 4, 5, 7, 8, 9, 10}));
    rig.push(11);
    rig.cq.purge(7);
    EXPECT_EQ(rig.poll(20), Ids{});
}

}  // namespace

}  // namespace swrnic::engine::test
