// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Lengths, handles and limits of the uverbs commands.
#include <fcntl.h>
#include <unistd.h>

#include "raw.h"

namespace swrnic::test {
namespace {

Bytes header(std::uint32_t command, std::uint16_t in_words, std::uint16_t out_words) {
    const ib_uverbs_cmd_hdr h{command, in_words, out_words};
    Bytes bytes;
    append(bytes, h);
    return bytes;
}

TEST(Uverbs, ContextHasItsThreeFiles) {
    const Context context;
    ASSERT_TRUE(context.ok());
    EXPECT_GE(context.comp_vectors, 1u);
    EXPECT_NE(fcntl(context.events.get(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(context.events.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Uverbs, GetContextOnceAndFirst) {
    Context context;
    std::uint32_t pd = 0;
    Bytes good(sizeof(swrnic_alloc_ucontext_req));
    good[0] = SWRNIC_ABI_NEWEST;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, 24, good), EINVAL)
        << "a second time";
    context.cmd = Fd(open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(context.alloc_pd(pd), EINVAL) << "no context yet";
    ib_uverbs_get_context core{};
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_GET_CONTEXT, core, 24), EINVAL) << "another provider's: no driver data";
    Bytes asked(sizeof(swrnic_alloc_ucontext_req));
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_GET_CONTEXT, core, 24, asked), EPROTO) << "ABI version 0";
    asked[4] = 1;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_GET_CONTEXT, core, 24, asked), EINVAL) << "reserved field";
}

// Each end says the newest version that it speaks; the other may be older or newer (swrnic-abi.h).
TEST(Uverbs, TheNewestVersionThatBothSpeak) {
    struct {
        std::uint32_t async_fd, num_comp_vectors;
        swrnic_alloc_ucontext_resp driver;
    } made{};
    ib_uverbs_get_context core{};
    core.response = address_of(made);
    swrnic_alloc_ucontext_req asked{};
    for (const std::uint32_t newer : {std::uint32_t{SWRNIC_ABI_NEWEST + 1}, ~std::uint32_t{0}}) {
        Context context;
        context.cmd = Fd(open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC));
        asked.abi_version = SWRNIC_ABI_OLDEST - 1;
        EXPECT_EQ(context.command(IB_USER_VERBS_CMD_GET_CONTEXT, core, sizeof(made), bytes_of(asked)), EPROTO);
        asked.abi_version = newer;
        ASSERT_EQ(context.command(IB_USER_VERBS_CMD_GET_CONTEXT, core, sizeof(made), bytes_of(asked)), 0);
        const Fd async(static_cast<int>(made.async_fd)), events(made.driver.event_fd);
        EXPECT_EQ(made.driver.abi_version, std::uint32_t{SWRNIC_ABI_NEWEST});
    }
}

TEST(Uverbs, TruncatedAndInflatedFrames) {
    const Context context;
    const int fd = context.cmd.get();
    for (std::size_t size = 0; size < sizeof(ib_uverbs_cmd_hdr); ++size) {
        EXPECT_EQ(write(fd, "\0\0\0\0\0\0\0\0", size), -1) << size;
        EXPECT_EQ(errno, EINVAL);
    }
    EXPECT_EQ(send_bytes(fd, header(IB_USER_VERBS_CMD_ALLOC_PD, 4, 2)), EINVAL) << "says more than it brings";
    EXPECT_EQ(send_bytes(fd, header(IB_USER_VERBS_CMD_ALLOC_PD, 0xffff, 0xffff)), EINVAL);
    EXPECT_EQ(send_bytes(fd, header(IB_USER_VERBS_CMD_ALLOC_PD, 2, 0)), EINVAL) << "no body";
    EXPECT_EQ(send_bytes(fd, header(IB_USER_VERBS_CMD_ALLOC_PD | 0x100, 2, 0)), EINVAL) << "unknown header bit";
}

TEST(Uverbs, EveryCommandWithEveryShortBody) {
    for (std::uint32_t command = 1; command < 64; ++command) {
        for (std::uint16_t words = 2; words < 48; ++words) {
            const Context context;
            ASSERT_TRUE(context.ok());
            Bytes bytes = header(command, words, 0);
            bytes.resize(std::size_t{words} * 4);
            const int error = send_bytes(context.cmd.get(), bytes);
            EXPECT_NE(error, 0) << "command " << command << " with " << words << " words of zeros has no valid meaning";
        }
    }
}

TEST(Uverbs, ExtendedFrames) {
    const Context context;
    Bytes bytes = header(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, 1, 38);
    EXPECT_EQ(send_bytes(context.cmd.get(), bytes), EINVAL) << "no extended header";
    ib_uverbs_ex_cmd_hdr more{};
    ib_uverbs_ex_query_device_resp out{};
    append(bytes, more);
    append(bytes, ib_uverbs_ex_query_device{});
    EXPECT_EQ(send_bytes(context.cmd.get(), bytes), EINVAL) << "room for a response, but no address";
    more.response = reinterpret_cast<std::uint64_t>(&out);
    std::memcpy(bytes.data() + 8, &more, sizeof(more));
    EXPECT_EQ(send_bytes(context.cmd.get(), bytes), 0);
    EXPECT_EQ(out.response_length, sizeof(out));
    EXPECT_EQ(out.base.max_qp_rd_atom, 128u);
    more.provider_in_words = 1;
    std::memcpy(bytes.data() + 8, &more, sizeof(more));
    EXPECT_EQ(send_bytes(context.cmd.get(), bytes), EINVAL) << "driver data announced, not brought";
    EXPECT_EQ(send_bytes(context.cmd.get(), header(IB_USER_VERBS_CMD_FLAG_EXTENDED | 99, 0, 0)), EINVAL);
}

TEST(Uverbs, ResponseNeedsRoom) {
    const Context context;
    ib_uverbs_alloc_pd_resp made{};
    ib_uverbs_alloc_pd core{};
    core.response = reinterpret_cast<std::uint64_t>(&made);
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_ALLOC_PD, core, 0), ENOSPC);
}

TEST(Uverbs, UnsupportedCommandsSaySo) {
    const Context context;
    for (const int command :
         {IB_USER_VERBS_CMD_CREATE_XSRQ, IB_USER_VERBS_CMD_OPEN_XRCD, IB_USER_VERBS_CMD_RESIZE_CQ}) {
        EXPECT_EQ(context.command(static_cast<std::uint32_t>(command), Bytes::value_type{}, 0, Bytes(63)), EOPNOTSUPP)
            << command;
    }
    EXPECT_EQ(context.command(200, std::uint64_t{}, 0), EINVAL);
}

TEST(Uverbs, SharedReceiveQueuesAreAnAccountAndALimit) {
    const Context context;
    std::uint32_t pd = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    ib_uverbs_create_srq_resp made{};
    ib_uverbs_create_srq core{};
    core.response = reinterpret_cast<std::uint64_t>(&made);
    core.user_handle = 0x77;
    core.pd_handle = pd;
    core.max_sge = 1;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_CREATE_SRQ, core, sizeof(made)), EINVAL) << "of no requests";
    core.max_wr = 4;
    core.pd_handle = pd + 1;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_CREATE_SRQ, core, sizeof(made)), EINVAL) << "of no domain";
    core.pd_handle = pd;
    ASSERT_EQ(context.command(IB_USER_VERBS_CMD_CREATE_SRQ, core, sizeof(made)), 0);
    constexpr std::uint32_t kLimitReached = 15;
    EXPECT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, made.srq_handle, kLimitReached), EINVAL) << "nothing is armed";
    ib_uverbs_modify_srq change{};
    change.srq_handle = made.srq_handle;
    change.attr_mask = 2;
    change.srq_limit = 2;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_MODIFY_SRQ, change, 0), 0);
    EXPECT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, made.srq_handle, kLimitReached), 0);
    EXPECT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, made.srq_handle, kLimitReached), EINVAL) << "once per arming";
    ib_uverbs_async_event_desc event{};
    ASSERT_EQ(read(context.async.get(), &event, sizeof(event)), 16);
    EXPECT_EQ(event.element, 0x77u);
    EXPECT_EQ(event.event_type, kLimitReached);
    ib_uverbs_destroy_srq_resp counts{};
    ib_uverbs_destroy_srq end{};
    end.response = reinterpret_cast<std::uint64_t>(&counts);
    end.srq_handle = made.srq_handle;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DESTROY_SRQ, end, sizeof(counts)), 0);
    EXPECT_EQ(counts.events_reported, 1u);
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DESTROY_SRQ, end, sizeof(counts)), EINVAL);
}

TEST(Uverbs, HandlesOfTheWrongTypeOrContext) {
    const Context one, two;
    std::uint32_t pd = 0, cq = 0;
    ASSERT_EQ(one.alloc_pd(pd), 0);
    ASSERT_EQ(one.create_cq(cq), 0);
    Context::Qp qp;
    EXPECT_EQ(one.create_qp(cq, pd, qp, default_startup()), EINVAL) << "swapped";
    EXPECT_EQ(two.create_qp(pd, cq, qp, default_startup()), EINVAL) << "the other context's";
    ib_uverbs_destroy_cq_resp counts{};
    EXPECT_EQ(one.destroy_cq(pd, counts), EINVAL);
    EXPECT_EQ(two.destroy_cq(cq, counts), EINVAL);
    EXPECT_EQ(one.destroy_qp(cq), EINVAL);
    EXPECT_EQ(one.command(IB_USER_VERBS_CMD_DEREG_MR, ib_uverbs_dereg_mr{pd}, 0), EINVAL);
}

TEST(Uverbs, ObjectsInUseStay) {
    const Context context;
    std::uint32_t pd = 0, cq = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    ASSERT_EQ(context.create_cq(cq), 0);
    Context::Qp qp;
    ASSERT_EQ(context.create_qp(pd, cq, qp, default_startup()), 0);
    ib_uverbs_reg_mr_resp region{};
    ASSERT_EQ(context.reg_mr(pd, 0x1234, 1, region), 0);
    EXPECT_EQ(region.lkey, 0x1234u);
    EXPECT_EQ(region.rkey, 0x1234u);
    const ib_uverbs_dealloc_pd dealloc{pd};
    ib_uverbs_destroy_cq_resp counts{};
    EXPECT_EQ(context.destroy_cq(cq, counts), EBUSY);
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEALLOC_PD, dealloc, 0), EBUSY);
    EXPECT_EQ(context.destroy_qp(qp.handle), 0);
    EXPECT_EQ(context.destroy_qp(qp.handle), EINVAL) << "twice";
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEALLOC_PD, dealloc, 0), EBUSY) << "the region still holds it";
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEREG_MR, ib_uverbs_dereg_mr{region.mr_handle}, 0), 0);
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEALLOC_PD, dealloc, 0), 0);
    EXPECT_EQ(context.destroy_cq(cq, counts), 0);
}

TEST(Uverbs, Verbs31RemoteWriteNeedsLocalWrite) {
    const Context context;
    std::uint32_t pd = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    ib_uverbs_reg_mr_resp region{};
    EXPECT_EQ(context.reg_mr(pd, 1, 2, region), EINVAL);
    EXPECT_EQ(context.reg_mr(pd, 1, 8, region), EINVAL);
    EXPECT_EQ(context.reg_mr(pd, 1, 3, region), 0);
    EXPECT_EQ(context.reg_mr(pd, 0, 1, region), EINVAL) << "STag 0";
}

TEST(Uverbs, QueuePairLimitsAndTypes) {
    const Context context;
    std::uint32_t pd = 0, cq = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    ASSERT_EQ(context.create_cq(cq), 0);
    Context::Qp qp, other;
    for (const std::uint8_t type : {8, 9, 0xff})
        EXPECT_EQ(context.create_qp(pd, cq, qp, default_startup(), 0, type), EOPNOTSUPP)
            << "VERBS-46, type " << int{type};
    swrnic_create_qp_req odd = default_startup();
    odd.mpa_rev = 3;
    EXPECT_EQ(context.create_qp(pd, cq, qp, odd), EINVAL);
    odd = default_startup();
    odd.reserved[1] = 1;
    EXPECT_EQ(context.create_qp(pd, cq, qp, odd), EINVAL);
    ASSERT_EQ(context.create_qp(pd, cq, qp, default_startup()), 0);
    ASSERT_EQ(context.create_qp(pd, cq, other, default_startup()), 0);
    EXPECT_NE(qp.qpn, other.qpn);
    EXPECT_GT(qp.qpn, 1u);
    EXPECT_LT(qp.qpn, 1u << 24);
}

TEST(Uverbs, Verbs21ModifyWithoutStateAndNoWayToRts) {
    const Context context;
    const auto qp = context.ready_qp(default_startup());
    ASSERT_TRUE(qp);
    ib_uverbs_modify_qp port_only{};
    port_only.qp_handle = qp->handle;
    port_only.attr_mask = 0x20;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_MODIFY_QP, port_only, 0), 0);
    EXPECT_EQ(context.modify_qp(qp->handle, 2), 0);
    EXPECT_EQ(context.modify_qp(qp->handle, 3), EINVAL) << "only MPA startup leads to RTS";
    EXPECT_EQ(context.modify_qp(qp->handle, 7), EINVAL);
    ib_uverbs_query_qp_resp attributes{};
    ASSERT_EQ(context.query_qp(qp->handle, attributes), 0);
    EXPECT_EQ(attributes.qp_state, 2);
}

TEST(Uverbs, PortIsWhatTheSpecSays) {
    const Context context;
    ib_uverbs_query_port_resp port{};
    ib_uverbs_query_port core{};
    core.response = reinterpret_cast<std::uint64_t>(&port);
    core.port_num = 2;
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_QUERY_PORT, core, sizeof(port)), EINVAL);
    core.port_num = 1;
    ASSERT_EQ(context.command(IB_USER_VERBS_CMD_QUERY_PORT, core, sizeof(port)), 0);
    EXPECT_EQ(port.state, 4);  // VERBS-40
    EXPECT_EQ(port.link_layer, 2);
    EXPECT_EQ(port.lid, 0);
    EXPECT_EQ(port.pkey_tbl_len, 1);
    EXPECT_EQ(port.max_msg_sz, 0xffffffffu);  // VERBS-42
    EXPECT_GE(port.gid_tbl_len, 2u);
    EXPECT_GE(port.active_mtu, 1);
    EXPECT_LE(port.active_mtu, 5);
}

}  // namespace
}  // namespace swrnic::test
