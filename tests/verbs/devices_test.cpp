// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// SWRNIC_DEVICES: what programs with several rails find, as NCCL and Mooncake look for it, and how far the devices are
// apart.
#include <dlfcn.h>
#include <linux/netlink.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "wiring.h"

namespace swrnic::test {
namespace {

constexpr int kDevices = 4;

bool g_no_netlink = false;

}  // namespace
}  // namespace swrnic::test

// libnl's calls come here first. Some containers forbid netlink.
extern "C" [[gnu::visibility("default")]] int socket(int family, int type, int protocol) noexcept {
    if (family == AF_NETLINK && protocol == NETLINK_RDMA && swrnic::test::g_no_netlink) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    static const auto next = reinterpret_cast<decltype(&::socket)>(::dlsym(RTLD_NEXT, "socket"));
    return next(family, type, protocol);
}

namespace swrnic::test {
namespace {

std::string first_line(const std::string& path) {
    std::string line;
    std::getline(std::ifstream(path) >> std::ws, line);
    return line;
}

std::string real_path(const std::string& path) {
    std::array<char, PATH_MAX> real{};
    return ::realpath(path.c_str(), real.data()) != nullptr ? real.data() : std::string();
}

class Devices : public testing::Test {
  protected:
    // Each test has a process of its own, which has not looked for devices yet.
    void SetUp() override {
        ASSERT_EQ(::setenv("SWRNIC_DEVICES", std::to_string(kDevices).c_str(), 1), 0);
        int count = 0;
        ibv_device** const list = ibv_get_device_list(&count);
        ASSERT_NE(list, nullptr);
        for (int i = 0; i < count; ++i)
            contexts_.emplace_back(ibv_open_device(list[i]));
        ibv_free_device_list(list);
        ASSERT_EQ(count, kDevices);
        for (const ContextPtr& context : contexts_)
            ASSERT_TRUE(context);
    }
    void expect_rdma_cm_chooses_the_first() const {
        rdma_cm_id* id = nullptr;
        ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        const ibv_gid gid = gid_at(at(0), ipv4_index(at(0)));
        std::memcpy(&address.sin_addr, gid.raw + 12, sizeof address.sin_addr);
        ASSERT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0);
        ASSERT_NE(id->verbs, nullptr);
        EXPECT_STREQ(id->verbs->device->name, "swr0");
        rdma_destroy_id(id);
    }
    ibv_context* at(std::size_t i) const { return contexts_[i].get(); }
    static std::string sysfs(ibv_context* context) {
        return std::string("/sys/class/infiniband/") + context->device->name;
    }
    static std::string counter(ibv_context* context, const std::string& name) {
        return first_line(sysfs(context) + "/ports/1/hw_counters/" + name);
    }

    std::vector<ContextPtr> contexts_;
};

TEST_F(Devices, each_has_an_identity_of_its_own) {
    std::set<std::string> names, paths, parents, guids_in_sysfs;
    std::set<std::uint64_t> guids;
    for (const ContextPtr& context : contexts_) {
        ibv_device_attr limits{};
        ibv_port_attr port{};
        ASSERT_EQ(ibv_query_device(context.get(), &limits), 0);
        ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
        EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
        EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
        EXPECT_EQ(limits.node_guid, limits.sys_image_guid);
        EXPECT_EQ(limits.node_guid, ibv_get_device_guid(context->device));
        guids.insert(limits.node_guid);
        names.insert(context->device->name);
        const std::string directory = sysfs(context.get());
        guids_in_sysfs.insert(first_line(directory + "/node_guid"));
        paths.insert(real_path(directory + "/device"));              // NCCL
        parents.insert(real_path(real_path(directory) + "/../.."));  // Mooncake
        EXPECT_EQ(first_line(directory + "/device/numa_node"), "-1");
        EXPECT_NE(ipv4_index(context.get()), 0);
    }
    EXPECT_EQ(names, (std::set<std::string>{"swr0", "swr1", "swr2", "swr3"}));
    for (const auto* seen : {&paths, &parents, &guids_in_sysfs})
        EXPECT_EQ(seen->size(), static_cast<std::size_t>(kDevices)) << testing::PrintToString(*seen);
    EXPECT_EQ(guids.size(), static_cast<std::size_t>(kDevices));
    EXPECT_EQ(paths, parents);
    EXPECT_FALSE(paths.contains(""));
}

TEST_F(Devices, netlink_numbers_them) {
    for (int i = 0; i < kDevices; ++i)
        EXPECT_EQ(ibv_get_device_index(contexts_[static_cast<std::size_t>(i)]->device), i);
}

class DevicesWithoutNetlink : public Devices {
  protected:
    void SetUp() override {
        g_no_netlink = true;
        Devices::SetUp();
    }
};

TEST_F(DevicesWithoutNetlink, are_found_in_sysfs) {
    std::set<std::string> names;
    std::set<std::uint64_t> guids;
    for (const ContextPtr& context : contexts_) {
        EXPECT_EQ(ibv_get_device_index(context->device), -1);
        names.insert(context->device->name);
        guids.insert(ibv_get_device_guid(context->device));
    }
    EXPECT_EQ(names, (std::set<std::string>{"swr0", "swr1", "swr2", "swr3"}));
    EXPECT_EQ(guids.size(), static_cast<std::size_t>(kDevices));
    expect_rdma_cm_chooses_the_first();
}

TEST_F(Devices, objects_of_one_are_strangers_to_another) {
    const PdPtr pd(ibv_alloc_pd(at(1))), same_handle(ibv_alloc_pd(at(2)));
    const CqPtr own(ibv_create_cq(at(1), 8, nullptr, nullptr, 0)), other(ibv_create_cq(at(2), 8, nullptr, nullptr, 0));
    ASSERT_TRUE(pd && own && other);
    for (const bool sends : {true, false}) {
        ibv_qp_init_attr attr{};
        attr.send_cq = sends ? other.get() : own.get();
        attr.recv_cq = sends ? own.get() : other.get();
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        errno = 0;
        EXPECT_EQ(ibv_create_qp(pd.get(), &attr), nullptr);
        EXPECT_EQ(errno, EINVAL);
    }
}

// A program's rails: two devices of one process, wired to each other, count for themselves.
TEST_F(Devices, rails_carry_data_and_count_for_themselves) {
    std::array<char, 4096> source{}, target{};
    source.fill('s');
    struct End {
        PdPtr pd;
        CqPtr cq;
        MrPtr region;
        QpPtr qp;
        Wiring chosen;
        WiredEnd end;
    };
    std::array<End, 2> ends;
    for (std::size_t i = 0; i < ends.size(); ++i) {
        End& end = ends[i];
        ibv_context* const context = at(i + 1);
        end.pd.reset(ibv_alloc_pd(context));
        end.cq.reset(ibv_create_cq(context, 8, nullptr, nullptr, 0));
        end.region.reset(ibv_reg_mr(end.pd.get(), i == 0 ? source.data() : target.data(), source.size(), kAllAccess));
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = end.cq.get();
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        end.qp.reset(ibv_create_qp(end.pd.get(), &attr));
        ASSERT_TRUE(end.region && end.qp);
        end.chosen.gid_index = ipv4_index(context);
        end.end = {gid_at(context, end.chosen.gid_index), end.qp->qp_num};
    }
    ASSERT_EQ(wire(ends[0].qp.get(), ends[0].chosen, ends[1].end), 0);
    ASSERT_EQ(wire(ends[1].qp.get(), ends[1].chosen, ends[0].end), 0);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(source.data()), static_cast<std::uint32_t>(source.size()),
                ends[0].region->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(target.data());
    wr.wr.rdma.rkey = ends[1].region->rkey;
    ASSERT_EQ(ibv_post_send(ends[0].qp.get(), &wr, &bad), 0);
    EXPECT_EQ(next(ends[0].cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(source, target);
    // A region is its own device's alone, though the process is one.
    sge.lkey = ends[1].region->lkey;
    ASSERT_EQ(ibv_post_send(ends[0].qp.get(), &wr, &bad), 0);
    EXPECT_EQ(next(ends[0].cq.get()).status, IBV_WC_LOC_PROT_ERR);
    for (End& end : ends)
        end.qp.reset();
    // What a context counts it tells when its thread comes by.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (counter(at(1), "tx_writes") == "0" && std::chrono::steady_clock::now() < deadline)
        ::usleep(20'000);
    EXPECT_NE(counter(at(1), "tx_writes"), "0");
    EXPECT_EQ(counter(at(0), "tx_writes"), "0");
    EXPECT_EQ(counter(at(3), "rx_writes"), "0");
}

TEST_F(Devices, rdma_cm_chooses_the_first) {
    expect_rdma_cm_chooses_the_first();
}

// `rdma resource` shows what its own process holds. So does this one, to itself, for each device.
TEST_F(Devices, netlink_shows_what_each_holds) {
    const auto attribute = [](std::uint16_t type, std::uint32_t value) {
        const nlattr header{NLA_HDRLEN + sizeof value, type};
        std::string octets(reinterpret_cast<const char*>(&header), sizeof header);
        return octets.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    const PdPtr pd(ibv_alloc_pd(at(1)));
    const CqPtr cq(ibv_create_cq(at(1), 8, nullptr, nullptr, 0));
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    const QpPtr one(ibv_create_qp(pd.get(), &attr)), other(ibv_create_qp(pd.get(), &attr));
    ASSERT_TRUE(one && other);
    Wiring chosen;
    chosen.gid_index = ipv4_index(at(1));
    ASSERT_EQ(wire(one.get(), chosen, {gid_at(at(1), chosen.gid_index), other->qp_num}), 0);

    const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA);
    ASSERT_GE(fd, 0);
    const auto ask = [&](std::uint32_t device) {
        const std::string which = attribute(RDMA_NLDEV_ATTR_DEV_INDEX, device);
        const nlmsghdr header{static_cast<std::uint32_t>(NLMSG_HDRLEN + which.size()),
                              RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET), NLM_F_REQUEST | NLM_F_DUMP, 1,
                              0};
        const std::string question = std::string(reinterpret_cast<const char*>(&header), sizeof header) + which;
        EXPECT_EQ(::send(fd, question.data(), question.size(), 0), static_cast<ssize_t>(question.size()));
        std::string answer(4096, '\0');
        const ssize_t size = ::recv(fd, answer.data(), answer.size(), 0);
        answer.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        return answer;
    };
    const std::string shown = ask(1), of_another = ask(2);
    for (const QpPtr* qp : {&one, &other}) {
        const std::string number = attribute(RDMA_NLDEV_ATTR_RES_LQPN, (*qp)->qp_num);
        EXPECT_NE(shown.find(number), std::string::npos);
        EXPECT_EQ(of_another.find(number), std::string::npos);
    }
    EXPECT_NE(shown.find(attribute(RDMA_NLDEV_ATTR_RES_RQPN, other->qp_num)), std::string::npos);
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(one.get(), &now, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init), 0);
    EXPECT_NE(now.sq_psn, 0u);
    EXPECT_NE(shown.find(attribute(RDMA_NLDEV_ATTR_RES_SQ_PSN, now.sq_psn)), std::string::npos);
    EXPECT_NE(shown.find(attribute(RDMA_NLDEV_ATTR_RES_RQ_PSN, now.rq_psn)), std::string::npos);
    // The peer is not wired: the first request ends the QP, and the shim is told.
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    ASSERT_EQ(ibv_post_send(one.get(), &wr, &bad), 0);
    EXPECT_EQ(next(cq.get()).status, IBV_WC_RETRY_EXC_ERR);
    const nlattr header{NLA_HDRLEN + 1, RDMA_NLDEV_ATTR_RES_STATE};
    const std::string error = std::string(reinterpret_cast<const char*>(&header), sizeof header) +
                              static_cast<char>(IBV_QPS_ERR) + std::string(3, '\0');
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ask(1).find(error) == std::string::npos && std::chrono::steady_clock::now() < deadline)
        ::usleep(20'000);
    EXPECT_NE(ask(1).find(error), std::string::npos);
    ::close(fd);
}

}  // namespace
}  // namespace swrnic::test
