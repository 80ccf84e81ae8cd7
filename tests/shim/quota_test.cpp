// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A process gets as many objects of each kind as the device announces, over all of its contexts, and no more.
#include <functional>
#include <string>

#include "raw.h"

namespace swrnic::test {
namespace {

ib_uverbs_query_device_resp limits(const Context& context) {
    ib_uverbs_query_device_resp limits{};
    ib_uverbs_query_device core{};
    core.response = reinterpret_cast<std::uint64_t>(&limits);
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_QUERY_DEVICE, core, sizeof(limits)), 0);
    return limits;
}

int alloc_mw(const Context& context, std::uint32_t pd, std::uint32_t& handle) {
    ib_uverbs_alloc_mw_resp made{};
    ib_uverbs_alloc_mw core{};
    core.response = reinterpret_cast<std::uint64_t>(&made);
    core.pd_handle = pd;
    core.mw_type = 2;
    Bytes driver;
    append(driver, swrnic_alloc_mw_req{.stag = 0x100, .reserved = 0});
    const int error = context.command(IB_USER_VERBS_CMD_ALLOC_MW, core, sizeof(made), driver);
    handle = made.mw_handle;
    return error;
}

// To this host itself.
int create_ah(const Context& context, std::uint32_t pd) {
    ib_uverbs_create_ah_resp made{};
    ib_uverbs_create_ah core{};
    core.response = reinterpret_cast<std::uint64_t>(&made);
    core.pd_handle = pd;
    core.attr.is_global = core.attr.port_num = 1;
    core.attr.grh.dgid[10] = core.attr.grh.dgid[11] = 0xff;  // ::ffff:127.0.0.1
    core.attr.grh.dgid[12] = 127;
    core.attr.grh.dgid[15] = 1;
    return context.command(IB_USER_VERBS_CMD_CREATE_AH, core, sizeof(made));
}

int create_srq(const Context& context, std::uint32_t pd) {
    ib_uverbs_create_srq_resp made{};
    ib_uverbs_create_srq core{};
    core.response = reinterpret_cast<std::uint64_t>(&made);
    core.pd_handle = pd;
    core.max_wr = core.max_sge = 1;
    return context.command(IB_USER_VERBS_CMD_CREATE_SRQ, core, sizeof(made));
}

// Makes one in this context, whose PD and CQ these are.
using Make = std::function<int(const Context&, std::uint32_t pd, std::uint32_t cq)>;

// `there`: how many of the kind the contexts have already.
void expect_quota(const char* name, std::uint32_t most, std::uint32_t there, const Make& make) {
    SCOPED_TRACE(name);
    std::uint32_t pd = 0, cq = 0, other_pd = 0, other_cq = 0;
    const Context context;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    ASSERT_EQ(context.create_cq(cq), 0);
    {
        const Context other;
        ASSERT_EQ(other.alloc_pd(other_pd), 0);
        ASSERT_EQ(other.create_cq(other_cq), 0);
        std::uint32_t made = there;
        for (; made < most; ++made) {
            const int error =
                make(made % 2 != 0 ? context : other, made % 2 != 0 ? pd : other_pd, made % 2 != 0 ? cq : other_cq);
            ASSERT_EQ(error, 0) << made;
        }
        testing::internal::CaptureStderr();
        const int refused = make(context, pd, cq), refused_too = make(other, other_pd, other_cq);
        const std::string log = testing::internal::GetCapturedStderr();
        EXPECT_EQ(refused, ENOMEM);
        EXPECT_EQ(refused_too, ENOMEM);
        EXPECT_NE(log.find(std::to_string(most) + " " + name), std::string::npos) << log;
    }
    EXPECT_EQ(make(context, pd, cq), 0) << "the other context's are given back";
}

TEST(Quota, ProtectionDomains) {
    expect_quota("protection domains", static_cast<std::uint32_t>(limits(Context()).max_pd), 2,
                 [](const Context& context, std::uint32_t, std::uint32_t) {
                     std::uint32_t pd = 0;
                     return context.alloc_pd(pd);
                 });
}

TEST(Quota, MemoryRegions) {
    expect_quota("memory regions", static_cast<std::uint32_t>(limits(Context()).max_mr), 0,
                 [](const Context& context, std::uint32_t pd, std::uint32_t) {
                     ib_uverbs_reg_mr_resp region{};
                     return context.reg_mr(pd, 0x100, 1, region);
                 });
}

TEST(Quota, MemoryWindows) {
    expect_quota("memory windows", static_cast<std::uint32_t>(limits(Context()).max_mw), 0,
                 [](const Context& context, std::uint32_t pd, std::uint32_t) {
                     std::uint32_t handle = 0;
                     return alloc_mw(context, pd, handle);
                 });
}

TEST(Quota, AddressHandles) {
    expect_quota("address handles", static_cast<std::uint32_t>(limits(Context()).max_ah), 0,
                 [](const Context& context, std::uint32_t pd, std::uint32_t) { return create_ah(context, pd); });
}

TEST(Quota, CompletionQueues) {
    expect_quota("completion queues", static_cast<std::uint32_t>(limits(Context()).max_cq), 2,
                 [](const Context& context, std::uint32_t, std::uint32_t) {
                     std::uint32_t cq = 0;
                     return context.create_cq(cq);
                 });
}

TEST(Quota, SharedReceiveQueues) {
    expect_quota("shared receive queues", static_cast<std::uint32_t>(limits(Context()).max_srq), 0,
                 [](const Context& context, std::uint32_t pd, std::uint32_t) { return create_srq(context, pd); });
}

TEST(Quota, QueuePairs) {
    expect_quota("queue pairs", static_cast<std::uint32_t>(limits(Context()).max_qp), 0,
                 [](const Context& context, std::uint32_t pd, std::uint32_t cq) {
                     Context::Qp qp;
                     return context.create_qp(pd, cq, qp, default_startup());
                 });
}

TEST(Quota, WhatIsDestroyedIsGivenBack) {
    const Context context;
    std::uint32_t pd = 0, window = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    const auto most = static_cast<std::uint32_t>(limits(context).max_mw);
    for (std::uint32_t i = 0; i < most + 10; ++i) {
        ASSERT_EQ(alloc_mw(context, pd, window), 0) << i;
        ASSERT_EQ(context.command(IB_USER_VERBS_CMD_DEALLOC_MW, ib_uverbs_dealloc_mw{window}, 0), 0);
    }
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEALLOC_MW, ib_uverbs_dealloc_mw{window}, 0), EINVAL);
    EXPECT_EQ(alloc_mw(context, pd + 1, window), EINVAL) << "of no domain";
}

}  // namespace
}  // namespace swrnic::test
