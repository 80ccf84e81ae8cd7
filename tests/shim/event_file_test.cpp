// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The event file's state machine: what the provider writes is checked against what has happened.
#include <sys/socket.h>
#include <unistd.h>

#include "joined_pair.h"

namespace swrnic::test {
namespace {

class EventFileTest : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(pair.ready()); }
    JoinedPair pair;
};

TEST_F(EventFileTest, NothingBeforeTheStreamIsHandedOver) {
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_QP_READY, pair.active.qp.qpn), EINVAL);
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_QP_CLOSED, pair.active.qp.qpn), EINVAL);
}

TEST_F(EventFileTest, NothingBeforeTheStreamIsRead) {
    ASSERT_TRUE(pair.request_and_accept());
    ASSERT_TRUE(readable(pair.active.context.events.get(), 2000));
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_QP_READY, pair.active.qp.qpn), EINVAL);
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_QP_CLOSED, pair.active.qp.qpn), EINVAL);
    EXPECT_TRUE(pair.take_streams());
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_QP_READY, pair.active.qp.qpn), 0);
}

TEST_F(EventFileTest, ReadyOnceClosedOnce) {
    ASSERT_TRUE(pair.request_and_accept() && pair.take_streams());
    const auto& side = pair.active;
    EXPECT_EQ(side.context.report(SWRNIC_UP_QP_READY, side.qp.qpn), 0);
    EXPECT_EQ(side.context.report(SWRNIC_UP_QP_READY, side.qp.qpn), EINVAL);
    EXPECT_EQ(side.context.report(SWRNIC_UP_QP_CLOSED, side.qp.qpn, 3), EINVAL) << "no such reason";
    EXPECT_EQ(side.context.report(SWRNIC_UP_QP_CLOSED, side.qp.qpn, SWRNIC_CLOSE_LOST), 0);
    EXPECT_EQ(side.context.report(SWRNIC_UP_QP_CLOSED, side.qp.qpn), EINVAL);
    EXPECT_EQ(side.context.report(SWRNIC_UP_QP_READY, side.qp.qpn), EINVAL);
    const auto established = side.cm.event();
    ASSERT_TRUE(established);
    EXPECT_EQ(established->event, kEstablished);
    const auto closed = side.cm.event();
    ASSERT_TRUE(closed);
    EXPECT_EQ(closed->event, kDisconnected);
    EXPECT_FALSE(side.cm.event(50)) << "nothing more than that";
}

TEST_F(EventFileTest, CountersOfTheContract) {
    const auto& context = pair.active.context;
    for (std::uint32_t counter = 0; counter < SWRNIC_COUNTERS; ++counter)
        EXPECT_EQ(context.report(SWRNIC_UP_COUNTED, counter, 0xffffffff), 0) << counter;
    const std::string port = "/sys/class/infiniband/swr0/ports/1/";
    EXPECT_EQ(contents(port + "hw_counters/tx_bytes"), "4294967295\n");
    EXPECT_EQ(contents(port + "hw_counters/rx_calls"), "4294967295\n");
    EXPECT_EQ(contents(port + "counters/port_xmit_data"), "1073741823\n");
    EXPECT_EQ(context.report(SWRNIC_UP_COUNTED, SWRNIC_COUNT_TX_BYTES, 5), 0);
    EXPECT_EQ(contents(port + "hw_counters/tx_bytes"), "4294967300\n");
    EXPECT_EQ(contents(port + "counters/port_xmit_data"), "1073741825\n");
    EXPECT_EQ(contents(port + "counters/symbol_error"), "0\n");
    EXPECT_EQ(context.report(SWRNIC_UP_COUNTED, SWRNIC_COUNTERS, 1), EINVAL);
    EXPECT_EQ(context.report(SWRNIC_UP_COUNTED, 0xffffffff, 1), EINVAL);
}

TEST_F(EventFileTest, OnlyTheOwnersFileMaySpeak) {
    ASSERT_TRUE(pair.request_and_accept() && pair.take_streams());
    EXPECT_EQ(pair.passive.context.report(SWRNIC_UP_QP_READY, pair.active.qp.qpn), EINVAL);
    EXPECT_EQ(pair.passive.context.report(SWRNIC_UP_ASYNC_EVENT, pair.active.qp.qpn, 1), EINVAL);
}

TEST_F(EventFileTest, MalformedRecords) {
    const int fd = pair.active.context.events.get();
    swrnic_up record{};
    record.type = SWRNIC_UP_QP_READY;
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, sizeof(record) - 1, sizeof(record) + 1}) {
        char bytes[sizeof(record) + 1] = {};
        EXPECT_EQ(write(fd, bytes, size), -1) << size;
        EXPECT_EQ(errno, EINVAL);
    }
    for (const std::uint32_t type : {0u, 6u, 0xffffffffu})
        EXPECT_EQ(pair.active.context.report(type, 1), EINVAL) << type;
    std::uint32_t cq = 0;
    ASSERT_EQ(pair.active.context.create_cq(cq), 0);
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_COMP_POSTED, cq), EINVAL) << "no channel";
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_COMP_POSTED, cq + 77), EINVAL);
}

TEST_F(EventFileTest, ReservedFieldIsRefused) {
    ASSERT_TRUE(pair.request_and_accept() && pair.take_streams());
    swrnic_up record{};
    record.type = SWRNIC_UP_QP_READY;
    record.id = pair.active.qp.qpn;
    record.reserved = 1;
    EXPECT_EQ(write(pair.active.context.events.get(), &record, sizeof(record)), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(EventFileTest, SeveralRecordsInOneWrite) {
    Fd channel;
    std::uint32_t cq = 0;
    const Context& context = pair.active.context;
    ASSERT_EQ(context.create_channel(channel), 0);
    ASSERT_EQ(context.create_cq(cq, channel.get(), 7), 0);
    swrnic_up records[3] = {};
    for (swrnic_up& record : records) {
        record.type = SWRNIC_UP_COMP_POSTED;
        record.id = cq;
    }
    records[2].id = cq + 1000;
    EXPECT_EQ(write(context.events.get(), records, sizeof(records)), static_cast<ssize_t>(2 * sizeof(swrnic_up)))
        << "as far as the first that is refused";
}

TEST_F(EventFileTest, ReadsWholeRecordsOnly) {
    ASSERT_TRUE(pair.request_and_accept());
    const int fd = pair.active.context.events.get();
    ASSERT_TRUE(readable(fd, 2000));
    char small[sizeof(swrnic_down) - 1];
    EXPECT_EQ(read(fd, small, sizeof(small)), -1);
    EXPECT_EQ(errno, EINVAL);
    swrnic_down records[4];
    EXPECT_EQ(read(fd, records, sizeof(records)), static_cast<ssize_t>(sizeof(swrnic_down)));
    EXPECT_EQ(records[0].type, unsigned{SWRNIC_DOWN_QP_CONNECTED});
    close(records[0].u.connected.fd);
    EXPECT_EQ(read(fd, records, sizeof(records)), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(EventFileTest, ClosedInsteadOfReady) {
    ASSERT_TRUE(pair.request_and_accept() && pair.take_streams());
    EXPECT_EQ(pair.active.context.report(SWRNIC_UP_QP_CLOSED, pair.active.qp.qpn, SWRNIC_CLOSE_ERROR), 0);
    const auto failed = pair.active.cm.event();
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->event, kRejected);
    EXPECT_EQ(static_cast<int>(failed->status), -ECONNRESET);
    // The accepting side hears both, as from the kernel's iw_cm.
    EXPECT_EQ(pair.passive.context.report(SWRNIC_UP_QP_CLOSED, pair.passive.qp.qpn, SWRNIC_CLOSE_LOST), 0);
    auto event = pair.passive.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kEstablished);
    event = pair.passive.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kDisconnected);
}

TEST_F(EventFileTest, ClosingItEndsTheConnections) {
    ASSERT_TRUE(pair.establish());
    pair.active.context.events.reset();
    const auto event = pair.active.cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kDisconnected);
}

TEST_F(EventFileTest, UnreadStreamOfADestroyedQpIsClosed) {
    ASSERT_TRUE(pair.request_and_accept());
    ASSERT_TRUE(readable(pair.active.context.events.get(), 2000));
    ASSERT_EQ(pair.active.context.destroy_qp(pair.active.qp.handle), 0);
    EXPECT_FALSE(pair.active.context.next_order(0));
    const auto order = pair.passive.context.next_order();
    ASSERT_TRUE(order);
    const Fd stream(order->u.connected.fd);
    ASSERT_TRUE(readable(stream.get(), 2000));
    char octet = 0;
    EXPECT_EQ(recv(stream.get(), &octet, 1, MSG_DONTWAIT), 0) << "FIN: nobody holds the other end";
}

}  // namespace
}  // namespace swrnic::test
