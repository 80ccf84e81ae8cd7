// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory table: who may touch what, to the octet, and how STags come and go.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "engine/support.h"

namespace swrnic::engine::test {

namespace {

constexpr std::uint32_t kPd = 1, kOtherPd = 2;
constexpr std::uint32_t kRemoteRights = access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic;

struct Table {
    TestRandom random;
    PassPool passes;
    MemoryTable memory{passes, random};
    std::array<std::byte, 64> data{};

    MemoryError look(std::uint32_t stag, std::uint64_t to, std::uint64_t length, std::uint32_t needed,
                     std::uint32_t pd = kPd) const {
        return memory.look_up(pd, stag, to, length, needed).error;
    }
};

// Granted is what was registered, all of it and nothing else; a local use needs no remote right and gives none.
TEST(Memory, RightsMatrix) {
    Table t;
    for (std::uint32_t granted = 0; granted < 16; ++granted) {
        const std::uint32_t stag = t.memory.add(kPd, t.data.data(), 64, 0x1000, granted);
        ASSERT_NE(stag, 0u);
        for (std::uint32_t needed = 0; needed < 16; ++needed) {
            SCOPED_TRACE(testing::Message() << "granted " << granted << " needed " << needed);
            EXPECT_EQ(t.look(stag, 0x1000, 64, needed),
                      (needed & ~granted) == 0 ? MemoryError::kNone : MemoryError::kAccess);
            EXPECT_EQ(t.look(stag, 0x1000, 64, needed, kOtherPd), MemoryError::kWrongPd);
        }
    }
}

TEST(Memory, RightsChangeUnderTheSameStag) {
    Table t;
    const std::uint32_t stag = t.memory.add(kPd, t.data.data(), 64, 0x1000, access::kLocalWrite);
    EXPECT_EQ(t.look(stag, 0x1000, 64, access::kRemoteRead), MemoryError::kAccess);
    EXPECT_TRUE(t.memory.change_access(stag, access::kRemoteRead));
    EXPECT_EQ(t.look(stag, 0x1000, 64, access::kRemoteRead), MemoryError::kNone);
    EXPECT_EQ(t.look(stag, 0x1000, 64, access::kLocalWrite), MemoryError::kAccess);
    EXPECT_EQ(t.look(stag, 0x1000, 65, access::kRemoteRead), MemoryError::kBounds);
    EXPECT_EQ(t.memory.invalidate_remote(kPd, stag), MemoryError::kNone);
    EXPECT_TRUE(t.memory.change_access(stag, access::kRemoteRead));
    EXPECT_EQ(t.look(stag, 0x1000, 64, access::kRemoteRead), MemoryError::kNone);
    EXPECT_FALSE(t.memory.change_access(stag ^ 1, access::kRemoteRead));
    EXPECT_TRUE(t.memory.remove(stag));
    EXPECT_FALSE(t.memory.change_access(stag, access::kRemoteRead));
}

TEST(Memory, Bounds) {
    Table t;
    constexpr std::uint64_t kBase = 0x1000;
    const std::uint32_t stag = t.memory.add(kPd, t.data.data(), 64, kBase, kAllRights);
    for (std::uint64_t from = kBase - 3; from < kBase + 68; ++from) {
        for (std::uint64_t length = 1; length < 70; ++length) {
            const MemoryView view = t.memory.look_up(kPd, stag, from, length, access::kRemoteWrite);
            const bool inside = from >= kBase && from + length <= kBase + 64;
            ASSERT_EQ(view.error, inside ? MemoryError::kNone : MemoryError::kBounds) << from << " " << length;
            if (inside) {
                ASSERT_EQ(view.data, t.data.data() + (from - kBase));
            }
        }
    }
    for (const std::uint64_t to : {std::uint64_t{0}, kBase, kBase + 1, kBase + 63, kBase + 64}) {
        for (const std::uint64_t length : {std::uint64_t{0xffffffff}, std::uint64_t{1} << 32, ~std::uint64_t{0} - to})
            EXPECT_EQ(t.look(stag, to, length, access::kRemoteRead), MemoryError::kBounds) << to << " " << length;
    }
}

// DDP-34: a range that wraps is told as such, before bounds.
TEST(Memory, Wrap) {
    Table t;
    constexpr std::uint64_t kLast = ~std::uint64_t{0};
    const std::uint32_t stag = t.memory.add(kPd, t.data.data(), 64, kLast - 64, kAllRights);
    EXPECT_EQ(t.look(stag, kLast - 64, 64, access::kRemoteRead), MemoryError::kNone);
    EXPECT_EQ(t.memory.look_up(kPd, stag, kLast - 1, 1, access::kRemoteRead).data, t.data.data() + 63);
    EXPECT_EQ(t.look(stag, kLast - 63, 64, access::kRemoteRead), MemoryError::kWrap);
    EXPECT_EQ(t.look(stag, kLast, 1, access::kRemoteRead), MemoryError::kWrap);
    EXPECT_EQ(t.look(stag, kLast, 0xffffffff, access::kRemoteRead), MemoryError::kWrap);
    EXPECT_EQ(t.look(stag, kLast - 65, 1, access::kRemoteRead), MemoryError::kBounds);
    EXPECT_EQ(t.look(stag, 0, 1, access::kRemoteRead), MemoryError::kBounds);
}

TEST(Memory, RegionBeyondFourGigabytes) {
    Table t;
    constexpr std::uint64_t kLength = std::uint64_t{1} << 33;
    const std::uint32_t stag = t.memory.add(kPd, t.data.data(), kLength, 0, kAllRights);  // never touched
    EXPECT_EQ(t.look(stag, kLength - 0xffffffff, 0xffffffff, access::kRemoteWrite), MemoryError::kNone);
    EXPECT_EQ(t.look(stag, kLength - 0xfffffffe, 0xffffffff, access::kRemoteWrite), MemoryError::kBounds);
    EXPECT_EQ(t.look(stag, std::uint64_t{1} << 32, 1, access::kRemoteWrite), MemoryError::kNone);
}

// DDP-31: STag, PD, access, wrap, bounds.
TEST(Memory, OrderOfChecks) {
    Table t;
    const std::uint32_t stag = t.memory.add(kPd, t.data.data(), 64, 0x1000, access::kRemoteRead);
    constexpr std::uint64_t kLast = ~std::uint64_t{0};
    EXPECT_EQ(t.look(stag ^ 1, kLast, 9, access::kRemoteWrite, kOtherPd), MemoryError::kInvalidStag);
    EXPECT_EQ(t.look(stag, kLast, 9, access::kRemoteWrite, kOtherPd), MemoryError::kWrongPd);
    EXPECT_EQ(t.look(stag, kLast, 9, access::kRemoteWrite), MemoryError::kAccess);
    EXPECT_EQ(t.look(stag, kLast, 9, access::kRemoteRead), MemoryError::kWrap);
    EXPECT_EQ(t.look(stag, 0, 9, access::kRemoteRead), MemoryError::kBounds);
}

// The key is part of the name: each of its bits counts, as does each bit of the index.
TEST(Memory, WholeStagIsCompared) {
    Table t;
    const std::uint32_t stag = t.memory.add(kPd, t.data.data(), 64, 0, kAllRights);
    for (unsigned bit = 0; bit < 32; ++bit) {
        EXPECT_EQ(t.look(stag ^ 1u << bit, 0, 1, 0), MemoryError::kInvalidStag) << bit;
        EXPECT_FALSE(t.memory.remove(stag ^ 1u << bit));
        EXPECT_EQ(t.memory.invalidate_remote(kPd, stag ^ 1u << bit), MemoryError::kInvalidStag);
    }
    EXPECT_EQ(t.look(0, 0, 1, 0), MemoryError::kInvalidStag);
    EXPECT_EQ(t.look(stag, 0, 1, 0), MemoryError::kNone);
}

// VERBS-28: index 0 is never given, and an index in use is given once, whatever the key.
TEST(Memory, BadWishesAreNotGranted) {
    Table t;
    for (const std::uint32_t wish : {0x00000000u, 0x000000ffu, 0x12345601u, 0x12345602u, 0x12345601u, 0x00000100u})
        t.random.wish(wish);
    EXPECT_EQ(t.memory.add(kPd, t.data.data(), 64, 0, 0), 0x12345601u);
    EXPECT_EQ(t.memory.add(kPd, t.data.data(), 64, 0, 0), 0x00000100u);
}

TEST(Memory, TenThousandComeAndGo) {
    Table t;
    std::set<std::uint32_t> indices;
    std::map<std::uint32_t, int> keys;
    std::uint32_t before = 0;
    unsigned neighbours = 0;
    for (int i = 0; i < 10000; ++i) {
        const std::uint32_t stag = t.memory.add(kPd, t.data.data(), 64, 0x1000, kAllRights);
        ASSERT_NE(stag >> 8, 0u);
        ASSERT_NE(stag, before) << "used again at once";
        neighbours += stag >> 8 == (before >> 8) + 1 || stag == before + 1;
        indices.insert(stag >> 8);
        ++keys[stag & 0xff];
        ASSERT_EQ(t.look(stag, 0x1000, 64, kAllRights), MemoryError::kNone);
        ASSERT_TRUE(t.memory.remove(stag));
        ASSERT_EQ(t.look(stag, 0x1000, 64, 0), MemoryError::kInvalidStag);
        ASSERT_FALSE(t.memory.remove(stag));
        before = stag;
    }
    EXPECT_EQ(neighbours, 0u);
    EXPECT_GT(indices.size(), 9900u);  // of 2^24: about three meet by chance
    EXPECT_EQ(keys.size(), 256u);
}

// Growing moves every region and no tombstone.
TEST(Memory, Growth) {
    Table t;
    std::vector<std::uint32_t> live, dead;
    for (std::uint32_t i = 0; i < 5000; ++i) {
        const std::uint32_t stag = t.memory.add(kPd, t.data.data() + i % 64, 1, i, access::kRemoteRead);
        (i % 3 == 0 ? dead : live).push_back(stag);
        if (i % 3 == 0) {
            ASSERT_TRUE(t.memory.remove(stag));
        }
    }
    std::set<std::uint32_t> indices;
    for (std::size_t i = 0; i < live.size(); ++i) {
        const auto number = i / 2 * 3 + 1 + i % 2;
        const MemoryView view = t.memory.look_up(kPd, live[i], number, 1, access::kRemoteRead);
        ASSERT_EQ(view.error, MemoryError::kNone);
        ASSERT_EQ(view.data, t.data.data() + number % 64);
        ASSERT_TRUE(indices.insert(live[i] >> 8).second);
    }
    for (const std::uint32_t stag : dead)
        ASSERT_EQ(t.look(stag, 0, 1, 0), MemoryError::kInvalidStag);
}

// RFC 5040 5.3, SEC-16: remote access ends, local use goes on; once, in the right domain, of a region with remote
// rights.
TEST(Memory, Invalidation) {
    Table t;
    const std::uint32_t stag = t.memory.add(kPd, t.data.data(), 64, 0, kAllRights);
    EXPECT_EQ(t.memory.invalidate_remote(kOtherPd, stag), MemoryError::kWrongPd);
    EXPECT_EQ(t.look(stag, 0, 64, access::kRemoteWrite), MemoryError::kNone);
    EXPECT_EQ(t.memory.invalidate_remote(kPd, stag), MemoryError::kNone);
    for (const std::uint32_t right : {access::kRemoteWrite, access::kRemoteRead, access::kRemoteAtomic}) {
        EXPECT_EQ(t.look(stag, 0, 64, right), MemoryError::kInvalidStag);
        EXPECT_EQ(t.look(stag, 0, 64, right, kOtherPd), MemoryError::kInvalidStag);
    }
    EXPECT_EQ(t.look(stag, 0, 64, access::kLocalWrite), MemoryError::kNone);
    EXPECT_EQ(t.memory.invalidate_remote(kPd, stag), MemoryError::kInvalidStag) << "again";
    EXPECT_TRUE(t.memory.remove(stag));

    const std::uint32_t local = t.memory.add(kPd, t.data.data(), 64, 0, access::kLocalWrite);
    EXPECT_EQ(t.memory.invalidate_remote(kPd, local), MemoryError::kInvalidStag);
    EXPECT_EQ(t.look(local, 0, 64, access::kLocalWrite), MemoryError::kNone);
    EXPECT_EQ(t.look(local, 0, 64, kRemoteRights), MemoryError::kAccess);
}

}  // namespace

}  // namespace swrnic::engine::test
