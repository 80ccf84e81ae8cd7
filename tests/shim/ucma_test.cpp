// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// rdma_cm commands: framing, ids, addresses, events.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "raw.h"

namespace swrnic::test {
namespace {

TEST(Ucma, EveryCommandWithEveryShortBody) {
    const Cm cm;
    ASSERT_EQ(fcntl(cm.fd.get(), F_SETFL, O_NONBLOCK), 0);  // GET_EVENT would wait
    for (std::uint32_t number = 0; number < 32; ++number) {
        for (std::uint16_t in = 0; in < 400; in = static_cast<std::uint16_t>(in + 4)) {
            const rdma_ucm_cmd_hdr header{number, in, 0};
            Bytes bytes;
            append(bytes, header);
            bytes.resize(bytes.size() + in);
            EXPECT_NE(send_bytes(cm.fd.get(), bytes), 0) << "command " << number << " with " << in << " zeros";
        }
    }
}

TEST(Ucma, HeaderLies) {
    const Cm cm;
    Bytes bytes;
    append(bytes, rdma_ucm_cmd_hdr{RDMA_USER_CM_CMD_LISTEN, 8, 0});
    EXPECT_EQ(send_bytes(cm.fd.get(), bytes), EINVAL) << "announces more than it brings";
    bytes.resize(4);
    EXPECT_EQ(send_bytes(cm.fd.get(), bytes), EINVAL);
    EXPECT_EQ(cm.command(99, std::uint64_t{}), EINVAL);
}

TEST(Ucma, AfIbProbeSucceeds) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(0, RDMA_PS_IB);
    std::uint8_t sockaddr_ib[48] = {27};
    EXPECT_EQ(cm.bind(id, reinterpret_cast<const sockaddr*>(sockaddr_ib), sizeof(sockaddr_ib)), 0);
    EXPECT_EQ(cm.listen(id), EINVAL) << "but nothing can come of it";
    EXPECT_EQ(cm.destroy_id(id), 0);
}

TEST(Ucma, NobodyWaitsForIpoib) {
    const Cm cm;
    const std::uint32_t unbound = cm.create_id(1, RDMA_PS_IPOIB), bound = cm.create_id(2, RDMA_PS_IPOIB);
    const sockaddr_in local = loopback();
    EXPECT_EQ(cm.bind(bound, reinterpret_cast<const sockaddr*>(&local), sizeof(local)), 0);
    EXPECT_EQ(cm.listen(bound), EOPNOTSUPP);
    EXPECT_EQ(cm.listen(unbound), EOPNOTSUPP);
    EXPECT_EQ(cm.destroy_id(bound), 0);
    EXPECT_EQ(cm.destroy_id(unbound), 0);
}

TEST(Ucma, AnyAddressNamesNoDevice) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(1);
    sockaddr_in any = loopback();
    any.sin_addr.s_addr = INADDR_ANY;
    ASSERT_EQ(cm.bind(id, reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
    rdma_ucm_query_addr_resp out{};
    ASSERT_EQ(cm.query_addr(id, out), 0);
    EXPECT_EQ(out.node_guid, 0u);
}

// The device's GUID as an id that is bound to this address shows it; 0: it names none.
template <typename Sockaddr>
std::uint64_t guid_behind(const Cm& cm, const Sockaddr& address) {
    const std::uint32_t id = cm.create_id(2);
    rdma_ucm_query_addr_resp out{};
    EXPECT_EQ(cm.bind(id, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(cm.query_addr(id, out), 0);
    EXPECT_EQ(out.port_num, out.node_guid != 0 ? 1 : 0);
    EXPECT_EQ(out.src_size, sizeof(address));
    return out.node_guid;
}

// 203.0.113.1 on a new interface of this network namespace, through the control of a socket of any kind.
bool add_interface() {
    const Fd tun(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
    const Fd control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(tun.get(), TUNSETIFF, &request) != 0 || ioctl(tun.get(), TUNSETPERSIST, 1) != 0) return false;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0xcb007101);
    std::memcpy(&request.ifr_addr, &address, sizeof(address));
    if (ioctl(control.get(), SIOCSIFADDR, &request) != 0) return false;
    request.ifr_flags = IFF_UP;
    return ioctl(control.get(), SIOCSIFFLAGS, &request) == 0;
}

bool raise_loopback() {
    const Fd control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    return ioctl(control.get(), SIOCSIFFLAGS, &request) == 0;
}

// As with the kernel's rdma_cm, so that nobody offers it to peers elsewhere; but where there is nothing else, it is the
// device's address.
TEST(Ucma, LoopbackNamesTheDeviceWhereNothingElseDoes) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer ends a process that starts threads after a fork";
#endif
    constexpr int kSkipped = 77;
    const pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNET) != 0 || !raise_loopback()) _exit(kSkipped);
        const Cm cm;
        const sockaddr_in v4 = loopback();
        sockaddr_in other{};
        other.sin_family = AF_INET;
        other.sin_addr.s_addr = htonl(0xcb007101);
        if (guid_behind(cm, v4) == 0) _exit(1);
        if (!add_interface()) _exit(kSkipped);
        if (guid_behind(cm, v4) != 0) _exit(2);
        if (guid_behind(cm, other) == 0) _exit(3);
        const std::uint32_t client = cm.create_id(3);
        rdma_ucm_query_addr_resp out{};
        if (!cm.resolve_to_loopback(client, cm.listen_on_loopback(cm.create_id(4)))) _exit(4);
        if (cm.query_addr(client, out) != 0 || out.node_guid == 0) _exit(5);
        _exit(testing::Test::HasFailure() ? 6 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "no network namespaces or TUN devices here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Ucma, LegacyCommands) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(7);
    rdma_ucm_resolve_ip to{};
    to.id = id;
    const sockaddr_in target = loopback(4711);
    std::memcpy(&to.dst_addr, &target, sizeof(target));
    ASSERT_EQ(cm.command(RDMA_USER_CM_CMD_RESOLVE_IP, to), 0);
    auto event = cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kAddrResolved);
    EXPECT_EQ(event->uid, 7u);
    rdma_ucm_query_route_resp out{};
    rdma_ucm_query ask{};
    ask.response = reinterpret_cast<std::uint64_t>(&out);
    ask.id = id;
    ASSERT_EQ(cm.command(RDMA_USER_CM_CMD_QUERY_ROUTE, ask, sizeof(out)), 0);
    EXPECT_NE(out.node_guid, 0u);
    EXPECT_EQ(out.num_paths, 0u);
    sockaddr_in source{};
    std::memcpy(&source, &out.src_addr, sizeof(source));
    EXPECT_EQ(source.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    EXPECT_NE(source.sin_port, 0);
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_QUERY_ROUTE, ask, 16), ENOSPC);
    const std::uint32_t server = cm.create_id(8);
    rdma_ucm_bind_ip at{};
    at.id = server;
    const sockaddr_in here = loopback();
    std::memcpy(&at.addr, &here, sizeof(here));
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_BIND_IP, at), 0);
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_BIND_IP, at), EINVAL) << "twice";
}

TEST(Ucma, ShortAndForeignAddresses) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(1);
    sockaddr_in short_one = loopback();
    EXPECT_EQ(cm.bind(id, reinterpret_cast<const sockaddr*>(&short_one), 8), EAFNOSUPPORT);
    short_one.sin_family = AF_UNIX;
    EXPECT_EQ(cm.bind(id, reinterpret_cast<const sockaddr*>(&short_one), sizeof(short_one)), EAFNOSUPPORT);
    rdma_ucm_bind huge{};
    huge.id = id;
    huge.addr_size = 0xffff;
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_BIND, huge), EINVAL);
    rdma_ucm_resolve_addr far{};
    far.id = id;
    far.dst_size = 0xffff;
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_RESOLVE_ADDR, far), EINVAL);
    sockaddr_in not_ours = loopback();
    not_ours.sin_addr.s_addr = htonl(0xc6336401);  // 198.51.100.1, documentation
    EXPECT_EQ(cm.bind(id, reinterpret_cast<const sockaddr*>(&not_ours), sizeof(not_ours)), EADDRNOTAVAIL);
}

TEST(Ucma, UnroutableAddress) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(1);
    sockaddr_in6 nowhere{};
    nowhere.sin6_family = AF_INET6;
    nowhere.sin6_addr.s6_addr[0] = 0xff;  // multicast without a scope that has a route through lo only
    nowhere.sin6_addr.s6_addr[1] = 0x02;
    nowhere.sin6_addr.s6_addr[15] = 1;
    nowhere.sin6_scope_id = 9999;
    ASSERT_EQ(cm.resolve(id, reinterpret_cast<const sockaddr*>(&nowhere), sizeof(nowhere)), 0);
    const auto event = cm.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kAddrError);
    EXPECT_LT(static_cast<int>(event->status), 0);
    EXPECT_EQ(cm.resolve_route(id), EINVAL);
}

TEST(Ucma, IdsBelongToTheirFile) {
    const Cm one, two;
    const std::uint32_t id = one.create_id(1);
    EXPECT_EQ(two.listen(id), EINVAL);
    EXPECT_EQ(two.destroy_id(id), EINVAL);
    EXPECT_EQ(one.destroy_id(0xdead), ENOENT);
    EXPECT_EQ(one.destroy_id(id), 0);
    EXPECT_EQ(one.destroy_id(id), ENOENT);
}

TEST(Ucma, DestroyCountsWhatWasReportedAndDropsTheRest) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(1);
    const sockaddr_in to = loopback(1);
    ASSERT_EQ(cm.resolve(id, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    ASSERT_TRUE(cm.event());
    ASSERT_EQ(cm.resolve_route(id), 0);
    std::uint32_t reported = 0;
    ASSERT_EQ(cm.destroy_id(id, &reported), 0);
    EXPECT_EQ(reported, 1u);
    EXPECT_FALSE(readable(cm.fd.get(), 0)) << "ROUTE_RESOLVED went with its id";
}

// From here on the kernel answers a system call by an error.
bool refuse_call(std::uint32_t number, std::uint32_t error) {
    std::array<sock_filter, 4> code{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
    const sock_fprog program{code.size(), code.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Kernels before 5.8 refuse the flag, emulators and old sandboxes the call.
TEST(Ucma, DescriptorIsReadableForAnEventAloneWithoutPreadv2) {
    for (const int error : {EOPNOTSUPP, ENOSYS}) {
        const pid_t child = fork();
        if (child == 0) {
            if (!refuse_call(SYS_preadv2, static_cast<std::uint32_t>(error))) _exit(1);
            const Cm cm;
            const std::uint32_t id = cm.create_id(1);
            const sockaddr_in to = loopback(1);
            if (cm.resolve(id, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0 || !cm.event()) _exit(2);
            if (readable(cm.fd.get(), 0)) _exit(3);
            _exit(cm.resolve_route(id) == 0 && cm.event() ? 0 : 4);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), 0) << "1: no seccomp; 3: readable for nothing; error " << error;
    }
}

TEST(Ucma, CommandsOutOfOrder) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(1);
    EXPECT_EQ(cm.resolve_route(id), EINVAL);
    EXPECT_EQ(cm.connect(id, 2), EINVAL);
    EXPECT_EQ(cm.accept(id, 1, 2), EINVAL);
    EXPECT_EQ(cm.reject(id, ""), EINVAL);
    EXPECT_EQ(cm.disconnect(id), EINVAL);
    EXPECT_EQ(cm.listen(id), 0) << "an unbound id listens anywhere, as in the kernel";
    EXPECT_EQ(cm.listen(id), EINVAL);
    EXPECT_EQ(cm.connect(id, 2), EINVAL);
}

TEST(Ucma, InitQpAttrAsTheKernelsIwCm) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(1);
    ib_uverbs_qp_attr out{};
    rdma_ucm_init_qp_attr ask{};
    ask.response = reinterpret_cast<std::uint64_t>(&out);
    ask.id = id;
    ask.qp_state = 1;
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_INIT_QP_ATTR, ask, sizeof(out)), EINVAL) << "no device yet";
    ASSERT_TRUE(cm.resolve_to_loopback(id, 1));
    for (const auto& [state, mask] : {std::pair{1u, 0x29u}, std::pair{2u, 0x29u}, std::pair{3u, 0x20u}}) {
        ask.qp_state = state;
        ASSERT_EQ(cm.command(RDMA_USER_CM_CMD_INIT_QP_ATTR, ask, sizeof(out)), 0);
        EXPECT_EQ(out.qp_attr_mask, mask) << "state " << state;
        EXPECT_EQ(out.port_num, 1);
    }
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_INIT_QP_ATTR, ask, sizeof(out) - 4), ENOSPC);
}

TEST(Ucma, Options) {
    const Cm cm;
    const std::uint32_t id = cm.create_id(1);
    std::uint32_t value = 1;
    rdma_ucm_set_option set{};
    set.optval = reinterpret_cast<std::uint64_t>(&value);
    set.id = id;
    set.optname = RDMA_OPTION_ID_REUSEADDR;
    set.optlen = sizeof(value);
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_SET_OPTION, set), 0);
    set.optlen = 1 << 30;
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_SET_OPTION, set), EINVAL);
    set.optname = RDMA_OPTION_ID_TOS;
    set.optlen = 1;
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_SET_OPTION, set), 0);
    set.optval = 0;
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_SET_OPTION, set), EINVAL);
    set.level = RDMA_OPTION_IB;
    EXPECT_EQ(cm.command(RDMA_USER_CM_CMD_SET_OPTION, set), EINVAL);
}

TEST(Ucma, MigrateTakesTheEventsAlong) {
    const Cm old_file, new_file;
    const std::uint32_t id = old_file.create_id(9);
    const sockaddr_in to = loopback(1);
    ASSERT_EQ(old_file.resolve(id, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    rdma_ucm_migrate_resp counts{};
    rdma_ucm_migrate_id move{};
    move.response = reinterpret_cast<std::uint64_t>(&counts);
    move.id = id;
    move.fd = 0;
    EXPECT_EQ(new_file.command(RDMA_USER_CM_CMD_MIGRATE_ID, move, sizeof(counts)), ENOENT) << "not an rdma_cm file";
    move.fd = static_cast<std::uint32_t>(old_file.fd.get());
    ASSERT_EQ(new_file.command(RDMA_USER_CM_CMD_MIGRATE_ID, move, sizeof(counts)), 0);
    EXPECT_EQ(counts.events_reported, 0u);
    EXPECT_FALSE(readable(old_file.fd.get(), 0));
    const auto event = new_file.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->uid, 9u);
    EXPECT_EQ(old_file.resolve_route(id), EINVAL);
    EXPECT_EQ(new_file.resolve_route(id), 0);
}

TEST(Ucma, ClosingTheFileEndsItsListeners) {
    std::uint16_t port = 0;
    {
        const Cm cm;
        port = cm.listen_on_loopback(cm.create_id(1));
        EXPECT_GE(raw_client(port).get(), 0);
    }
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = loopback(port);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
}

}  // namespace
}  // namespace swrnic::test
