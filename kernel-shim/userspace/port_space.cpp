// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "port_space.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "file.h"
#include "real.h"

namespace swrnic::shim {
namespace {

// The lower two bits are ECN's.
constexpr int kOfRdmaCm = 3 << 2;

// Of sockets that share a port a filter chooses one for each SYN, by its place in the order in which they came to
// listen. Where there is no such place (any more) the kernel chooses by itself: the one that is left.
enum Place : std::uint32_t { kFirst, kSecond };

// `listener` is at that place, a plain socket at the other.
int attach(int listener, Place place) {
    constexpr auto kNetwork = static_cast<std::uint32_t>(SKF_NET_OFF);
    std::array whose{
        sock_filter BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kNetwork),
        sock_filter BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPVERSION, 0, 3),
        sock_filter BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kNetwork + 1),
        sock_filter BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfc),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kOfRdmaCm, 3, 4),
        // IPv6 has its traffic class between two fields of four bits and twenty.
        sock_filter BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kNetwork),
        sock_filter BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfc << 4),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kOfRdmaCm << 4, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, place),
        sock_filter BPF_STMT(BPF_RET | BPF_K, place == kFirst ? kSecond : kFirst),
    };
    const sock_fprog program{static_cast<unsigned short>(whose.size()), whose.data()};
    return sys::setsockopt(listener, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

}  // namespace

int mark_connect(int fd) {
    const int before = sys::get_option(fd, IPPROTO_IP, IP_TOS);
    set_traffic_class(fd, kOfRdmaCm);
    return before;
}

// A filter is a group's, and there is no group until a second socket listens. This one goes at once.
int share_port(int listener, const Address& local) {
    sys::set_option(listener, SOL_SOCKET, SO_REUSEPORT, 1);
    const int second = open_socket(local.family(), SOCK_STREAM, 0);
    if (second < 0) return second;
    sys::set_option(second, SOL_SOCKET, SO_REUSEPORT, 1);
    if (local.family() == AF_INET6)
        sys::set_option(second, IPPROTO_IPV6, IPV6_V6ONLY, sys::get_option(listener, IPPROTO_IPV6, IPV6_V6ONLY));
    int error = sys::bind(second, local.get(), local.size());
    if (error == 0) error = sys::listen(second, 1);
    if (error == 0) error = attach(listener, kFirst);
    sys::close(second);
    return error;
}

bool plain_socket_admits(const Address& local) {
    constexpr rlim_t kMost = 65536;  // descriptors; a program with more of them has its listeners among the first
    rlimit limit{};
    if (local.port() == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
    const auto end = static_cast<int>(std::min(limit.rlim_cur, kMost));
    for (int fd = 0; fd < end; ++fd) {
        if (!FdTable::is_foreign(fd) || sys::get_option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0 ||
            sys::get_option(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM || !(Address::local_of(fd) == local))
            continue;
        sys::set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
        return true;
    }
    return false;
}

int join_port(int listener) {
    return attach(listener, kSecond);
}

}  // namespace swrnic::shim
