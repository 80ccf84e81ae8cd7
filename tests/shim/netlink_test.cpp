// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RDMA netlink, spoken by hand: one question is answered, every other is refused, nothing malformed is believed.
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "raw.h"

namespace swrnic::test {
namespace {

constexpr std::uint16_t kSystem = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET);
constexpr std::uint16_t kDevices = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);

class Netlink : public testing::Test {
  protected:
    Netlink() : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA)) {}

    ssize_t send(const void* octets, std::size_t size) const {
        iovec part{const_cast<void*>(octets), size};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        return ::sendmsg(socket_.get(), &message, 0);
    }

    static nlmsghdr request(std::uint16_t type, std::uint16_t flags = NLM_F_REQUEST) {
        return {sizeof(nlmsghdr), type, flags, 77, 0};
    }

    // The next message; empty: there is none.
    Bytes answer() const {
        Bytes message(4096);
        const ssize_t size = ::recv(socket_.get(), message.data(), message.size(), 0);
        message.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        return message;
    }

    static nlmsghdr header_of(const Bytes& message) {
        nlmsghdr header{};
        if (message.size() >= sizeof header) std::memcpy(&header, message.data(), sizeof header);
        return header;
    }

    static int error_of(const Bytes& message) {
        nlmsgerr error{};
        EXPECT_EQ(header_of(message).nlmsg_type, NLMSG_ERROR);
        EXPECT_GE(message.size(), sizeof(nlmsghdr) + sizeof error);
        if (message.size() >= sizeof(nlmsghdr) + sizeof error)
            std::memcpy(&error, message.data() + sizeof(nlmsghdr), sizeof error);
        return error.error;
    }

    const Fd socket_;
};

TEST_F(Netlink, SaysThatForkCopies) {
    ASSERT_GE(socket_.get(), 0);
    const nlmsghdr question = request(kSystem);
    ASSERT_EQ(send(&question, sizeof question), static_cast<ssize_t>(sizeof question));
    const Bytes message = answer();
    const nlmsghdr header = header_of(message);
    ASSERT_EQ(header.nlmsg_type, kSystem);
    EXPECT_EQ(header.nlmsg_len, message.size());
    EXPECT_EQ(header.nlmsg_seq, 77u);
    std::map<int, int> octets;  // attributes of one octet
    for (std::size_t at = sizeof header; at + sizeof(nlattr) < message.size();) {
        nlattr attribute{};
        std::memcpy(&attribute, message.data() + at, sizeof attribute);
        ASSERT_EQ(attribute.nla_len, sizeof attribute + 1);
        octets[attribute.nla_type] = message[at + sizeof attribute];
        at += NLA_ALIGN(attribute.nla_len);
    }
    EXPECT_EQ(octets.at(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK), 1);
    EXPECT_TRUE(answer().empty());
}

// libnl's numbers have the upper bit set half of the time.
TEST_F(Netlink, AnswersASocketOfAnyNumber) {
    sockaddr_nl own{};
    own.nl_family = AF_NETLINK;
    own.nl_pid = 0x8000'0000U | static_cast<std::uint32_t>(::getpid());
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0) << std::strerror(errno);
    const nlmsghdr question = request(kSystem, NLM_F_REQUEST | NLM_F_ACK);
    ASSERT_EQ(send(&question, sizeof question), static_cast<ssize_t>(sizeof question));
    const Bytes system = answer(), acknowledgement = answer();
    EXPECT_EQ(header_of(system).nlmsg_type, kSystem);
    EXPECT_EQ(header_of(system).nlmsg_pid, own.nl_pid);
    EXPECT_EQ(error_of(acknowledgement), 0);
    EXPECT_EQ(header_of(acknowledgement).nlmsg_pid, own.nl_pid);
}

TEST_F(Netlink, AcknowledgesWhereItIsAsked) {
    const nlmsghdr question = request(kSystem, NLM_F_REQUEST | NLM_F_ACK);
    send(&question, sizeof question);
    EXPECT_EQ(header_of(answer()).nlmsg_type, kSystem);
    EXPECT_EQ(error_of(answer()), 0);
}

TEST_F(Netlink, RefusesAllElse) {
    for (const nlmsghdr& question : {request(kDevices, NLM_F_REQUEST | NLM_F_DUMP), request(kDevices),
                                     request(kSystem, NLM_F_REQUEST | NLM_F_DUMP), request(0), request(0xffff)}) {
        ASSERT_EQ(send(&question, sizeof question), static_cast<ssize_t>(sizeof question));
        EXPECT_EQ(error_of(answer()), -EOPNOTSUPP) << question.nlmsg_type;
        EXPECT_TRUE(answer().empty());
    }
}

TEST_F(Netlink, PassesOverWhatIsNoRequest) {
    nlmsghdr longer = request(kSystem), shorter = request(kSystem);
    longer.nlmsg_len = 17;
    shorter.nlmsg_len = 15;
    for (const nlmsghdr& no_request : {request(kSystem, 0), longer, shorter}) {
        EXPECT_EQ(send(&no_request, sizeof no_request), static_cast<ssize_t>(sizeof no_request));
        EXPECT_TRUE(answer().empty());
    }
    EXPECT_EQ(send(&longer, 3), 3);
    EXPECT_EQ(send(&longer, 0), 0);
    EXPECT_TRUE(answer().empty());
}

TEST_F(Netlink, TakesARequestInParts) {
    const nlmsghdr question = request(kSystem);
    std::array<char, sizeof question> octets{};
    std::memcpy(octets.data(), &question, sizeof question);
    std::array<iovec, 3> parts{{{octets.data(), 5}, {nullptr, 0}, {octets.data() + 5, octets.size() - 5}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    EXPECT_EQ(::sendmsg(socket_.get(), &message, 0), static_cast<ssize_t>(octets.size()));
    EXPECT_EQ(header_of(answer()).nlmsg_type, kSystem);
}

TEST_F(Netlink, PointersThatLeadNowhere) {
    auto* const nowhere = reinterpret_cast<void*>(16);
    EXPECT_EQ(send(nowhere, sizeof(nlmsghdr)), -1);
    EXPECT_EQ(errno, EFAULT);
    msghdr message{};
    message.msg_iov = static_cast<iovec*>(nowhere);
    message.msg_iovlen = 1;
    EXPECT_EQ(::sendmsg(socket_.get(), &message, 0), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(::sendmsg(socket_.get(), static_cast<msghdr*>(nowhere), 0), -1);
    EXPECT_EQ(errno, EFAULT);
    message.msg_iovlen = ~std::size_t{0} / 8;
    EXPECT_EQ(::sendmsg(socket_.get(), &message, 0), -1);
    EXPECT_EQ(errno, EMSGSIZE);
}

TEST_F(Netlink, OtherFamiliesAreTheKernels) {
    const Fd route(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    EXPECT_GE(route.get(), 0);
    EXPECT_EQ(::socket(AF_NETLINK, SOCK_STREAM, NETLINK_RDMA), -1);
    EXPECT_EQ(errno, ESOCKTNOSUPPORT);
}

}  // namespace
}  // namespace swrnic::test
