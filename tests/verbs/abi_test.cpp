// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The layouts that provider/abi knows, against facts: places and sizes as the compiler gave them for the headers of
// rdma-core's releases, on x86-64.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "abi/layout.h"
#include "operations.h"

namespace swrnic::abi {
namespace {

struct Fact {
    unsigned pabi, newest_public, release;
    std::size_t operations, context_offset, context_size;
};
// Releases 39 to 56, 57 and 58, 59 to 61, 62 and 63, 64, 65.
constexpr std::array kFacts{
    Fact{34, 14, 39, 76, 320, 648}, Fact{57, 14, 57, 76, 320, 648}, Fact{59, 15, 59, 79, 344, 672},
    Fact{59, 16, 62, 81, 352, 680}, Fact{64, 17, 64, 83, 368, 696}, Fact{65, 18, 65, 93, 368, 696},
};

struct Place {
    const char* name;
    std::size_t offset;  // in Operations
    std::array<std::size_t, kFacts.size()> at;
};
#define SWRNIC_AT(name, ...)                 \
    Place {                                  \
#name, offsetof(Operations, name), { \
            __VA_ARGS__                      \
        }                                    \
    }
constexpr std::array kPlaces{
    SWRNIC_AT(alloc_mw, 2, 2, 3, 3, 4, 4),
    SWRNIC_AT(alloc_parent_domain, 4, 4, 5, 5, 6, 6),
    SWRNIC_AT(alloc_pd, 5, 5, 6, 6, 7, 7),
    SWRNIC_AT(alloc_td, 6, 6, 7, 7, 8, 8),
    SWRNIC_AT(attach_mcast, 9, 9, 10, 10, 11, 11),
    SWRNIC_AT(bind_mw, 10, 10, 11, 11, 12, 12),
    SWRNIC_AT(create_ah, 13, 13, 14, 14, 15, 15),
    SWRNIC_AT(create_cq, 15, 15, 16, 16, 17, 18),
    SWRNIC_AT(create_cq_ex, 16, 16, 17, 17, 18, 19),
    SWRNIC_AT(create_qp, 19, 19, 20, 20, 21, 22),
    SWRNIC_AT(create_qp_ex, 20, 20, 21, 21, 22, 23),
    SWRNIC_AT(create_srq, 22, 22, 23, 23, 24, 25),
    SWRNIC_AT(dealloc_mw, 25, 25, 27, 27, 28, 29),
    SWRNIC_AT(dealloc_pd, 26, 26, 28, 28, 29, 30),
    SWRNIC_AT(dealloc_td, 27, 27, 29, 29, 30, 31),
    SWRNIC_AT(dereg_mr, 28, 28, 30, 30, 31, 32),
    SWRNIC_AT(destroy_ah, 29, 29, 31, 31, 32, 33),
    SWRNIC_AT(destroy_cq, 31, 31, 33, 33, 34, 36),
    SWRNIC_AT(destroy_qp, 34, 34, 36, 36, 37, 39),
    SWRNIC_AT(destroy_srq, 36, 36, 38, 38, 39, 41),
    SWRNIC_AT(detach_mcast, 38, 38, 40, 40, 41, 43),
    SWRNIC_AT(free_context, 39, 39, 41, 42, 44, 46),
    SWRNIC_AT(modify_qp, 47, 47, 49, 50, 52, 56),
    SWRNIC_AT(modify_srq, 49, 49, 51, 52, 54, 58),
    SWRNIC_AT(poll_cq, 53, 53, 55, 56, 58, 62),
    SWRNIC_AT(post_recv, 54, 54, 56, 57, 59, 63),
    SWRNIC_AT(post_send, 55, 55, 57, 58, 60, 64),
    SWRNIC_AT(post_srq_recv, 57, 57, 59, 60, 62, 66),
    SWRNIC_AT(query_device_ex, 58, 58, 60, 61, 63, 69),
    SWRNIC_AT(query_port, 60, 60, 62, 63, 65, 71),
    SWRNIC_AT(query_qp, 61, 61, 63, 65, 67, 73),
    SWRNIC_AT(query_rt_values, 63, 63, 65, 67, 69, 75),
    SWRNIC_AT(query_srq, 64, 64, 66, 68, 70, 76),
    SWRNIC_AT(reg_mr, 68, 68, 70, 72, 74, 82),
    SWRNIC_AT(req_notify_cq, 69, 69, 72, 74, 76, 84),
    SWRNIC_AT(rereg_mr, 70, 70, 73, 75, 77, 85),
    SWRNIC_AT(resize_cq, 71, 71, 74, 76, 78, 86),
};
#undef SWRNIC_AT

TEST(Layouts, AreThoseOfTheReleases) {
    ASSERT_EQ(kLayouts.size(), kFacts.size());
    for (std::size_t i = 0; i < kFacts.size(); ++i) {
        EXPECT_EQ(kLayouts[i].pabi, kFacts[i].pabi);
        EXPECT_EQ(kLayouts[i].newest_public, kFacts[i].newest_public);
        EXPECT_EQ(kLayouts[i].release, kFacts[i].release);
        EXPECT_EQ(kLayouts[i].context_offset, kFacts[i].context_offset);
        const std::size_t longer = sizeof(pthread_mutex_t) - 40;
        EXPECT_EQ(kLayouts[i].context_offset + sizeof(ibv_context), kFacts[i].context_size + longer);
    }
}

// Operations whose pointers are their own places in the struct, in words.
Operations marked() {
    std::array<std::uintptr_t, sizeof(Operations) / sizeof(void*)> marks{};
    for (std::size_t i = 0; i < marks.size(); ++i)
        marks[i] = i + 1;
    Operations ops{};
    std::copy_n(reinterpret_cast<const std::byte*>(marks.data()), sizeof(ops), reinterpret_cast<std::byte*>(&ops));
    return ops;
}

TEST(Operations, StandWhereEachReleaseLooksForThem) {
    EXPECT_EQ(kPlaces.size(), sizeof(Operations) / sizeof(void*)) << "an operation that we offer is not checked";
    const Operations ops = marked();
    for (std::size_t i = 0; i < kFacts.size(); ++i) {
        const OperationTable table = arrange(ops, kFacts[i].release);
        for (const Place& place : kPlaces)
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(table[place.at[i]]), place.offset / sizeof(void*) + 1)
                << place.name << " in rdma-core " << kFacts[i].release;
        const auto others = static_cast<std::size_t>(std::count(table.begin(), table.end(), nullptr));
        EXPECT_EQ(table.size() - others, kPlaces.size()) << "what we do not offer is null";
    }
}

// libibverbs reads as many as its own table has.
TEST(Operations, AreAsManyAsTheReleaseHas) {
    for (const Fact& fact : kFacts) {
        std::size_t count = 0;
#define SWRNIC_OURS(name) ++count;
#define SWRNIC_OTHER(since, name) count += fact.release >= (since) ? 1 : 0;
        SWRNIC_OPERATION_ORDER(SWRNIC_OURS, SWRNIC_OTHER)
#undef SWRNIC_OURS
#undef SWRNIC_OTHER
        EXPECT_EQ(count, fact.operations) << "rdma-core " << fact.release;
        EXPECT_LE(count, OperationTable{}.size());
    }
}

}  // namespace
}  // namespace swrnic::abi
