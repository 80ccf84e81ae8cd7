// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RDMA netlink, spoken by hand: what it says of devices and of what the process holds is true, and nothing malformed is
// believed.
#include <linux/netlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "raw.h"

namespace swrnic::test {
namespace {

constexpr std::uint16_t of_nldev(std::uint16_t command) {
    return RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
}
constexpr std::uint16_t kSystem = of_nldev(RDMA_NLDEV_CMD_SYS_GET);
constexpr std::uint16_t kList = NLM_F_REQUEST | NLM_F_DUMP;

void append_octets(Bytes& bytes, const Bytes& more) {
    for (const std::uint8_t octet : more)
        bytes.push_back(octet);
}

Bytes attribute(std::uint16_t type, const Bytes& value) {
    Bytes bytes = bytes_of(nlattr{static_cast<std::uint16_t>(NLA_HDRLEN + value.size()), type});
    append_octets(bytes, value);
    bytes.resize(NLA_ALIGN(bytes.size()));
    return bytes;
}
Bytes number(std::uint16_t type, std::uint32_t value) {
    return attribute(type, bytes_of(value));
}
Bytes text(std::uint16_t type, const std::string& value) {
    const char* const begin = value.c_str();
    return attribute(type, Bytes(begin, begin + value.size() + 1));
}

Bytes request_of(std::uint16_t command, std::uint16_t flags, const std::vector<Bytes>& attributes = {}) {
    Bytes bytes(sizeof(nlmsghdr));
    for (const Bytes& each : attributes)
        append_octets(bytes, each);
    const nlmsghdr header{static_cast<std::uint32_t>(bytes.size()), of_nldev(command), flags, 77, 0};
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

// By type; every length is checked.
class Attributes {
  public:
    Attributes() = default;
    explicit Attributes(const Bytes& octets) {
        std::size_t at = 0;
        while (at < octets.size()) {
            nlattr header{};
            if (at + sizeof header <= octets.size()) std::memcpy(&header, octets.data() + at, sizeof header);
            if (header.nla_len < sizeof header || at + NLA_ALIGN(header.nla_len) > octets.size()) {
                ADD_FAILURE() << "an attribute of " << header.nla_len << " octets at " << at << " of " << octets.size();
                return;
            }
            const auto from = octets.begin() + static_cast<std::ptrdiff_t>(at + sizeof header);
            values_.emplace(header.nla_type, Bytes(from, from + (header.nla_len - NLA_HDRLEN)));
            at += NLA_ALIGN(header.nla_len);
        }
    }
    bool has(std::uint16_t type) const { return values_.contains(type); }
    std::uint64_t number(std::uint16_t type) const {
        std::uint64_t value = 0;
        const auto it = values_.find(type);
        if (it == values_.end() || it->second.size() > sizeof value) return ~std::uint64_t{0};
        std::memcpy(&value, it->second.data(), it->second.size());  // of a little-endian host
        return value;
    }
    std::string text(std::uint16_t type) const {
        const auto it = values_.find(type);
        if (it == values_.end() || it->second.empty() || it->second.back() != 0) return "no text";
        return {it->second.begin(), it->second.end() - 1};
    }
    Bytes octets(std::uint16_t type) const {
        const auto it = values_.find(type);
        return it == values_.end() ? Bytes() : it->second;
    }
    std::vector<Attributes> nested(std::uint16_t table, std::uint16_t entry) const {
        std::vector<Attributes> entries;
        const auto it = values_.find(table);
        if (it == values_.end()) return entries;
        const Attributes inner(it->second);
        for (auto [at, end] = inner.values_.equal_range(entry); at != end; ++at)
            entries.emplace_back(at->second);
        return entries;
    }

  private:
    std::multimap<std::uint16_t, Bytes> values_;
};

struct Message {
    nlmsghdr header{};
    Bytes body;
    Attributes attributes() const { return Attributes(body); }
};

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

    // All that waits, message by message.
    std::vector<Message> answers() const {
        std::vector<Message> all;
        for (Bytes datagram = answer(); !datagram.empty(); datagram = answer()) {
            EXPECT_LE(datagram.size(), 4096u - 320);  // readers have a page, and a kernel's answers are smaller
            std::size_t at = 0;
            while (at < datagram.size()) {
                Message message;
                if (at + sizeof message.header <= datagram.size())
                    std::memcpy(&message.header, datagram.data() + at, sizeof message.header);
                if (message.header.nlmsg_len < sizeof message.header ||
                    at + message.header.nlmsg_len > datagram.size()) {
                    ADD_FAILURE() << "a message of " << message.header.nlmsg_len << " octets at " << at;
                    return all;
                }
                const auto from = datagram.begin() + static_cast<std::ptrdiff_t>(at);
                message.body.assign(from + NLMSG_HDRLEN, from + message.header.nlmsg_len);
                EXPECT_EQ(message.header.nlmsg_seq, 77u);
                at += NLMSG_ALIGN(message.header.nlmsg_len);
                all.push_back(std::move(message));
            }
        }
        return all;
    }

    std::vector<Message> ask(const Bytes& question) const {
        EXPECT_EQ(send(question.data(), question.size()), static_cast<ssize_t>(question.size()));
        return answers();
    }
    // Of one answer, or of a list's only message before its end; empty: it was refused.
    Attributes ask_for_one(std::uint16_t command, std::uint16_t flags, const std::vector<Bytes>& with = {}) const {
        const std::vector<Message> all = ask(request_of(command, flags, with));
        const bool list = (flags & NLM_F_DUMP) != 0;
        EXPECT_EQ(all.size(), list ? 2u : 1u);
        if (all.empty() || all.front().header.nlmsg_type == NLMSG_ERROR) return {};
        EXPECT_EQ(all.front().header.nlmsg_flags, list ? NLM_F_MULTI : 0);
        EXPECT_EQ(all.back().header.nlmsg_type == NLMSG_DONE, list);
        return all.front().attributes();
    }
    int refusal_of(const Bytes& question) const {
        EXPECT_EQ(send(question.data(), question.size()), static_cast<ssize_t>(question.size()));
        const int error = error_of(answer());
        EXPECT_TRUE(answer().empty());
        return error;
    }
    std::map<std::string, std::uint64_t> summary() const {
        std::map<std::string, std::uint64_t> counts;
        const Attributes one =
            ask_for_one(RDMA_NLDEV_CMD_RES_GET, NLM_F_REQUEST, {number(RDMA_NLDEV_ATTR_DEV_INDEX, 0)});
        for (const Attributes& entry : one.nested(RDMA_NLDEV_ATTR_RES_SUMMARY, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY))
            counts[entry.text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)] =
                entry.number(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR);
        return counts;
    }

    const Bytes first_device_ = number(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
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
    const auto in_list = request_of(RDMA_NLDEV_CMD_SYS_GET, kList);
    const auto chardev_list =
        request_of(RDMA_NLDEV_CMD_GET_CHARDEV, kList, {text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs")});
    for (const Bytes& question : {in_list, chardev_list, request_of(RDMA_NLDEV_CMD_STAT_GET, NLM_F_REQUEST),
                                  request_of(1000, NLM_F_REQUEST), bytes_of(request(0xffff)), bytes_of(request(16))})
        EXPECT_EQ(refusal_of(question), -EINVAL);
    for (const std::uint16_t command : {RDMA_NLDEV_CMD_SET, RDMA_NLDEV_CMD_NEWLINK, RDMA_NLDEV_CMD_DELLINK,
                                        RDMA_NLDEV_CMD_SYS_SET, RDMA_NLDEV_CMD_STAT_SET, RDMA_NLDEV_CMD_STAT_DEL})
        EXPECT_EQ(refusal_of(request_of(command, NLM_F_REQUEST, {first_device_})), -EOPNOTSUPP);
}

TEST_F(Netlink, ListsTheDevice) {
    const Attributes listed = ask_for_one(RDMA_NLDEV_CMD_GET, kList);
    const Attributes asked_for = ask_for_one(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, {first_device_});
    std::string guid = contents("/sys/class/infiniband/swr0/node_guid");
    std::erase_if(guid, [](char c) { return c == ':' || c == '\n'; });
    const std::uint64_t expected_guid = std::stoull(guid, nullptr, 16);
    for (const Attributes& device : {listed, asked_for}) {
        EXPECT_EQ(device.number(RDMA_NLDEV_ATTR_DEV_INDEX), 0u);
        EXPECT_EQ(device.text(RDMA_NLDEV_ATTR_DEV_NAME), "swr0");
        EXPECT_EQ(device.number(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
        EXPECT_EQ(device.number(RDMA_NLDEV_ATTR_DEV_NODE_TYPE), 4u);  // RDMA_NODE_RNIC
        EXPECT_EQ(device.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL), "iw");
        EXPECT_EQ(device.number(RDMA_NLDEV_ATTR_NODE_GUID), expected_guid);
        EXPECT_EQ(device.number(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID), expected_guid);
        EXPECT_EQ(device.text(RDMA_NLDEV_ATTR_FW_VERSION) + "\n", contents("/sys/class/infiniband/swr0/fw_ver"));
        EXPECT_EQ(device.number(RDMA_NLDEV_ATTR_CAP_FLAGS), 1u << 17 | 1u << 24);  // memory windows, those of type 2B
    }
    EXPECT_EQ(refusal_of(request_of(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST)), -EINVAL);
    EXPECT_EQ(refusal_of(request_of(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, {number(RDMA_NLDEV_ATTR_DEV_INDEX, 1)})),
              -EINVAL);
}

TEST_F(Netlink, ShowsThePort) {
    const Bytes port = number(RDMA_NLDEV_ATTR_PORT_INDEX, 1), no_port = number(RDMA_NLDEV_ATTR_PORT_INDEX, 2);
    const Attributes listed = ask_for_one(RDMA_NLDEV_CMD_PORT_GET, kList, {first_device_});
    const Attributes asked_for = ask_for_one(RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST, {first_device_, port});
    std::string interface = contents("/sys/class/infiniband/swr0/ports/1/gid_attrs/ndevs/0");
    interface.pop_back();
    for (const Attributes& shown : {listed, asked_for}) {
        EXPECT_EQ(shown.text(RDMA_NLDEV_ATTR_DEV_NAME), "swr0");
        EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
        EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_PORT_STATE), 4u);       // ACTIVE
        EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_PORT_PHYS_STATE), 5u);  // LINK_UP
        EXPECT_EQ(shown.text(RDMA_NLDEV_ATTR_NDEV_NAME), interface);
        EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_NDEV_INDEX), if_nametoindex(interface.c_str()));
        EXPECT_FALSE(shown.has(RDMA_NLDEV_ATTR_LID));  // InfiniBand's
    }
    EXPECT_EQ(refusal_of(request_of(RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST, {first_device_})), -EINVAL);
    EXPECT_EQ(refusal_of(request_of(RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST, {first_device_, no_port})), -EINVAL);
    EXPECT_EQ(refusal_of(request_of(RDMA_NLDEV_CMD_PORT_GET, kList, {port})), -EINVAL);
}

// Octet by octet, as libibverbs and librdmacm take them apart.
TEST_F(Netlink, NamesTheCharacterDevices) {
    struct stat uverbs {};
    ASSERT_EQ(::stat("/dev/infiniband/uverbs0", &uverbs), 0);
    ASSERT_EQ(major(uverbs.st_rdev), 231u);
    ASSERT_EQ(minor(uverbs.st_rdev), 192u);
    const Bytes question = request_of(RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST,
                                      {first_device_, text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs")});
    const std::vector<Message> all = ask(question);
    ASSERT_EQ(all.size(), 1u);
    const Bytes expected{
        8,  0, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 0, 'n', 'r', 'w', 's',                      // SWRNIC_DRIVER_ID
        12, 0, RDMA_NLDEV_ATTR_CHARDEV,          0, 192, 231, 0,   0,   0,   0,   0,   0,    // makedev(231, 192)
        12, 0, RDMA_NLDEV_ATTR_CHARDEV_ABI,      0, 1,   0,   0,   0,   0,   0,   0,   0,    //
        12, 0, RDMA_NLDEV_ATTR_CHARDEV_NAME,     0, 'u', 'v', 'e', 'r', 'b', 's', '0', '\0'  //
    };
    Bytes got = all.front().body;
    ASSERT_EQ(got.size(), expected.size());
    got[24] = 1;  // the ABI's version: whatever sysfs says
    EXPECT_EQ(got, expected);
    EXPECT_EQ(std::to_string(all.front().attributes().number(RDMA_NLDEV_ATTR_CHARDEV_ABI)) + "\n",
              contents("/sys/class/infiniband_verbs/uverbs0/abi_version"));

    const Attributes cm =
        ask_for_one(RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST, {text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "rdma_cm")});
    EXPECT_EQ(cm.text(RDMA_NLDEV_ATTR_CHARDEV_NAME), "rdma_cm");
    EXPECT_EQ(std::to_string(cm.number(RDMA_NLDEV_ATTR_CHARDEV_ABI)) + "\n",
              contents("/sys/class/misc/rdma_cm/abi_version"));
    struct stat rdma_cm {};
    ASSERT_EQ(::stat("/dev/infiniband/rdma_cm", &rdma_cm), 0);
    EXPECT_EQ(cm.number(RDMA_NLDEV_ATTR_CHARDEV), major(rdma_cm.st_rdev) << 8 | minor(rdma_cm.st_rdev));
}

TEST_F(Netlink, KnowsNoOtherCharacterDevices) {
    const auto refused = [this](const std::vector<Bytes>& with) {
        return refusal_of(request_of(RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST, with));
    };
    const auto type = [](const std::string& name) { return text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, name); };
    for (const char* name : {"umad", "issm", "", "uverbs0"})
        EXPECT_EQ(refused({first_device_, type(name)}), -EOPNOTSUPP) << name;
    EXPECT_EQ(refused({type("uverbs")}), -EOPNOTSUPP);
    EXPECT_EQ(refused({first_device_}), -EINVAL);
    EXPECT_EQ(refused({number(RDMA_NLDEV_ATTR_DEV_INDEX, 1), type("uverbs")}), -EINVAL);
    EXPECT_EQ(refused({first_device_, number(RDMA_NLDEV_ATTR_PORT_INDEX, 2), type("uverbs")}), -EINVAL);
    EXPECT_EQ(refused({first_device_, type(std::string(33, 'u'))}), -EINVAL);
    EXPECT_EQ(refused({first_device_, attribute(RDMA_NLDEV_ATTR_CHARDEV_TYPE, {'u', 'v'})}), -EINVAL);  // without NUL
}

TEST_F(Netlink, ShowsWhatTheProcessHolds) {
    const std::vector<std::string> names{"cm_id", "cq", "ctx", "mr", "pd", "qp", "srq"};
    std::map<std::string, std::uint64_t> none;
    for (const std::string& name : names)
        none[name] = 0;
    ASSERT_EQ(summary(), none);
    {
        const Context context;
        ASSERT_TRUE(context.ok());
        std::uint32_t pd = 0, cq = 0;
        ib_uverbs_reg_mr_resp mr{};
        Context::Qp qp, in_reset;
        ASSERT_EQ(context.alloc_pd(pd), 0);
        ASSERT_EQ(context.create_cq(cq, -1, 0, 48), 0);
        ASSERT_EQ(context.reg_mr(pd, 77, 0, mr), 0);
        ASSERT_EQ(context.create_qp(pd, cq, qp, default_startup()), 0);
        ASSERT_EQ(context.create_qp(pd, cq, in_reset, default_startup()), 0);
        ASSERT_EQ(context.modify_qp(qp.handle, 1), 0);
        const Cm cm;
        const std::uint32_t listener = cm.create_id(5), idle = cm.create_id(6);
        const std::uint16_t tcp_port = cm.listen_on_loopback(listener);
        EXPECT_NE(listener, idle);
        EXPECT_EQ(summary(), (std::map<std::string, std::uint64_t>{
                                 {"cm_id", 1}, {"cq", 1}, {"ctx", 1}, {"mr", 1}, {"pd", 1}, {"qp", 2}, {"srq", 0}}));

        const auto list = [this](std::uint16_t command, std::uint16_t table, std::uint16_t entry,
                                 const std::vector<Bytes>& with) {
            return ask_for_one(command, kList, with).nested(table, entry);
        };
        const auto pds =
            list(RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY, {first_device_});
        const auto cqs =
            list(RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY, {first_device_});
        const auto mrs =
            list(RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY, {first_device_});
        const auto contexts =
            list(RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY, {first_device_});
        ASSERT_TRUE(pds.size() == 1 && cqs.size() == 1 && mrs.size() == 1 && contexts.size() == 1);
        const auto pid = static_cast<std::uint64_t>(::getpid());
        for (const auto& each : {pds[0], cqs[0], mrs[0], contexts[0]})
            EXPECT_EQ(each.number(RDMA_NLDEV_ATTR_RES_PID), pid);
        EXPECT_EQ(pds[0].number(RDMA_NLDEV_ATTR_RES_USECNT), 3u);
        EXPECT_EQ(cqs[0].number(RDMA_NLDEV_ATTR_RES_USECNT), 4u);
        EXPECT_EQ(cqs[0].number(RDMA_NLDEV_ATTR_RES_CQE), 48u);
        EXPECT_EQ(mrs[0].number(RDMA_NLDEV_ATTR_RES_MRLEN), 4096u);
        EXPECT_FALSE(mrs[0].has(RDMA_NLDEV_ATTR_RES_LKEY));  // nobody else's business
        EXPECT_EQ(mrs[0].number(RDMA_NLDEV_ATTR_RES_PDN), pds[0].number(RDMA_NLDEV_ATTR_RES_PDN));
        EXPECT_EQ(pds[0].number(RDMA_NLDEV_ATTR_RES_CTXN), contexts[0].number(RDMA_NLDEV_ATTR_RES_CTXN));
        EXPECT_EQ(cqs[0].number(RDMA_NLDEV_ATTR_RES_CTXN), contexts[0].number(RDMA_NLDEV_ATTR_RES_CTXN));

        const Bytes port = number(RDMA_NLDEV_ATTR_PORT_INDEX, 1);
        const auto qps = [&](const std::vector<Bytes>& with) {
            return list(RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY, with);
        };
        EXPECT_EQ(qps({first_device_}).size(), 2u);
        const auto of_port = qps({first_device_, port});  // one in RESET has none yet
        ASSERT_EQ(of_port.size(), 1u);
        const Attributes by_number = ask_for_one(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_REQUEST,
                                                 {first_device_, port, number(RDMA_NLDEV_ATTR_RES_LQPN, qp.qpn)});
        for (const Attributes& shown : {of_port[0], by_number}) {
            EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_RES_LQPN), qp.qpn);
            EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_RES_TYPE), 2u);   // RC
            EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_RES_STATE), 1u);  // INIT
            EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_RES_PDN), pds[0].number(RDMA_NLDEV_ATTR_RES_PDN));
            EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_RES_RQPN), 0u);
            EXPECT_EQ(shown.number(RDMA_NLDEV_ATTR_RES_PID), pid);
        }
        const auto refused = [&](std::uint16_t command, const std::vector<Bytes>& with) {
            return refusal_of(request_of(command, NLM_F_REQUEST, with));
        };
        const Bytes pdn =
            number(RDMA_NLDEV_ATTR_RES_PDN, static_cast<std::uint32_t>(pds[0].number(RDMA_NLDEV_ATTR_RES_PDN)));
        EXPECT_EQ(refused(RDMA_NLDEV_CMD_RES_QP_GET, {first_device_, port, number(RDMA_NLDEV_ATTR_RES_LQPN, 1)}),
                  -ENOENT);
        EXPECT_EQ(refused(RDMA_NLDEV_CMD_RES_QP_GET, {first_device_, number(RDMA_NLDEV_ATTR_RES_LQPN, qp.qpn)}),
                  -EINVAL);
        EXPECT_EQ(refused(RDMA_NLDEV_CMD_RES_PD_GET, {first_device_, port, pdn}), -EINVAL);
        EXPECT_EQ(refused(RDMA_NLDEV_CMD_RES_PD_GET, {first_device_}), -EINVAL);
        EXPECT_EQ(ask_for_one(RDMA_NLDEV_CMD_RES_PD_GET, NLM_F_REQUEST, {first_device_, pdn})
                      .number(RDMA_NLDEV_ATTR_RES_USECNT),
                  3u);

        const auto ids = list(RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
                              {first_device_});
        ASSERT_EQ(ids.size(), 1u);
        EXPECT_EQ(ids[0].number(RDMA_NLDEV_ATTR_RES_STATE), 8u);  // LISTEN
        EXPECT_EQ(ids[0].number(RDMA_NLDEV_ATTR_RES_PS), std::uint64_t{RDMA_PS_TCP});
        EXPECT_EQ(ids[0].number(RDMA_NLDEV_ATTR_RES_CM_IDN), listener);
        EXPECT_FALSE(ids[0].has(RDMA_NLDEV_ATTR_RES_LQPN));
        const Bytes source = ids[0].octets(RDMA_NLDEV_ATTR_RES_SRC_ADDR);
        const sockaddr_in expected = loopback(tcp_port);
        ASSERT_EQ(source.size(), sizeof(sockaddr_storage));
        EXPECT_EQ(std::memcmp(source.data(), &expected, sizeof expected), 0);
    }
    EXPECT_EQ(summary(), none);
}

// What is not a device of ours has no list, and an empty list is only its end.
TEST_F(Netlink, ListsOfNothing) {
    for (const std::uint16_t command :
         {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_CMD_RES_SRQ_GET}) {
        const std::vector<Message> all = ask(request_of(command, kList | NLM_F_ACK, {first_device_}));
        ASSERT_EQ(all.size(), 1u);  // a list's end stands for the acknowledgement
        EXPECT_EQ(all[0].header.nlmsg_type, NLMSG_DONE);
        EXPECT_EQ(all[0].body, bytes_of(int{0}));
        EXPECT_EQ(refusal_of(request_of(command, kList)), -EINVAL);
        EXPECT_EQ(refusal_of(request_of(command, kList, {number(RDMA_NLDEV_ATTR_DEV_INDEX, 3)})), -EINVAL);
    }
}

TEST_F(Netlink, ALongListIsWhole) {
    constexpr std::size_t kMany = 5000;
    const Context context;
    std::set<std::uint64_t> made, listed;
    for (std::size_t i = 0; i < kMany; ++i) {
        std::uint32_t pd = 0;
        ASSERT_EQ(context.alloc_pd(pd), 0);
        made.insert(pd);
    }
    const std::vector<Message> all = ask(request_of(RDMA_NLDEV_CMD_RES_PD_GET, kList, {first_device_}));
    ASSERT_GT(all.size(), 50u);
    EXPECT_EQ(all.back().header.nlmsg_type, NLMSG_DONE);
    for (const Message& message : all)
        for (const Attributes& pd :
             message.header.nlmsg_type == NLMSG_DONE
                 ? std::vector<Attributes>()
                 : message.attributes().nested(RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY))
            listed.insert(pd.number(RDMA_NLDEV_ATTR_RES_PDN));
    EXPECT_EQ(listed, made);
}

TEST_F(Netlink, EveryWayToSend) {
    const Bytes question = request_of(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, {first_device_});
    const auto size = static_cast<ssize_t>(question.size());
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    EXPECT_EQ(::write(socket_.get(), question.data(), question.size()), size);
    EXPECT_EQ(answers().size(), 1u);
    EXPECT_EQ(::send(socket_.get(), question.data(), question.size(), 0), size);
    EXPECT_EQ(answers().size(), 1u);
    EXPECT_EQ(::sendto(socket_.get(), question.data(), question.size(), 0, reinterpret_cast<sockaddr*>(&kernel),
                       sizeof kernel),
              size);
    EXPECT_EQ(answers().size(), 1u);
    EXPECT_EQ(::sendto(socket_.get(), reinterpret_cast<void*>(16), 16, 0, nullptr, 0), -1);
    EXPECT_EQ(errno, EFAULT);
    const Context context;  // no socket
    EXPECT_EQ(::send(context.cmd.get(), question.data(), question.size(), 0), -1);
    EXPECT_EQ(errno, ENOTSOCK);
}

TEST_F(Netlink, SeveralRequestsAtOnce) {
    Bytes questions = request_of(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, {first_device_});
    append_octets(questions, request_of(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST));
    append_octets(questions, request_of(RDMA_NLDEV_CMD_SYS_GET, NLM_F_REQUEST | NLM_F_ACK));
    const std::vector<Message> all = ask(questions);
    ASSERT_EQ(all.size(), 4u);
    EXPECT_EQ(all[0].header.nlmsg_type, of_nldev(RDMA_NLDEV_CMD_GET));
    EXPECT_EQ(all[1].header.nlmsg_type, NLMSG_ERROR);
    EXPECT_EQ(all[2].header.nlmsg_type, kSystem);
    EXPECT_EQ(all[3].header.nlmsg_type, NLMSG_ERROR);
}

TEST_F(Netlink, WrongLengths) {
    const auto refused = [this](const Bytes& with) {
        return refusal_of(request_of(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, {with}));
    };
    for (const std::size_t size : {0u, 1u, 3u, 5u, 8u, 4000u})
        EXPECT_EQ(refused(attribute(RDMA_NLDEV_ATTR_DEV_INDEX, Bytes(size))), -EINVAL) << size;
    for (const std::uint16_t length : {0, 1, 3, 9, 12, 0xffff}) {
        Bytes index = first_device_;
        std::memcpy(index.data(), &length, sizeof length);
        EXPECT_EQ(refused(index), -EINVAL) << length;
    }
    EXPECT_EQ(refused({1, 2, 3}), -EINVAL);
    Bytes with_more = first_device_;
    append_octets(with_more, attribute(0x3fff, Bytes(7)));  // of a kind that nobody knows
    EXPECT_EQ(ask(request_of(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, {with_more})).size(), 1u);
    const Bytes huge(65537);
    EXPECT_EQ(send(huge.data(), huge.size()), -1);
    EXPECT_EQ(errno, EMSGSIZE);
}

// Cut anywhere, and with every octet changed: what comes back is well formed, and the next question is answered.
TEST_F(Netlink, Mangled) {
    const Context context;
    std::uint32_t pd = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    const std::vector<Bytes> good{
        request_of(RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST,
                   {first_device_, text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs")}),
        request_of(RDMA_NLDEV_CMD_RES_PD_GET, kList, {first_device_, number(RDMA_NLDEV_ATTR_PORT_INDEX, 1)}),
        request_of(RDMA_NLDEV_CMD_RES_PD_GET, NLM_F_REQUEST, {first_device_, number(RDMA_NLDEV_ATTR_RES_PDN, pd)})};
    const auto try_it = [this](const Bytes& question) {
        send(question.data(), question.size());
        while (!answer().empty()) {
        }
    };
    for (const Bytes& question : good) {
        for (std::size_t size = 0; size < question.size(); ++size) {
            Bytes cut(question.begin(), question.begin() + static_cast<std::ptrdiff_t>(size));
            try_it(cut);
            const auto length = static_cast<std::uint32_t>(size);
            if (size >= sizeof length) std::memcpy(cut.data(), &length, sizeof length);
            try_it(cut);
        }
        for (std::size_t at = 0; at < question.size(); ++at) {
            for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
                Bytes changed = question;
                changed[at] = static_cast<std::uint8_t>(changed[at] ^ change);
                try_it(changed);
            }
        }
        EXPECT_GE(ask(question).size(), 1u);
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
