// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "port_space.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/ip.h>

#include <array>
#include <iterator>

#include "real.h"

namespace swrnic::shim {
namespace {

// The lower two bits are ECN's.
constexpr int kOfRdmaCm = 3 << 2;

// Of sockets that share a port this chooses one, by its place in the order in which they came to listen, for each SYN.
// Where there is no such place (any more) the kernel chooses by itself: the one that is left.
constexpr std::uint32_t kFirst = 0, kSecond = 1;
constexpr auto kNetwork = static_cast<std::uint32_t>(SKF_NET_OFF);
std::array kWhose{
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
    sock_filter BPF_STMT(BPF_RET | BPF_K, kFirst),
    sock_filter BPF_STMT(BPF_RET | BPF_K, kSecond),
};

// Whichever the socket's family has no use for fails; one for both is asked for both.
void set_traffic_class(int fd, int value) {
    sys::set_option(fd, IPPROTO_IP, IP_TOS, value);
    sys::set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, value);
}

int option(int fd, int level, int name) {
    int value = 0;
    socklen_t size = sizeof(value);
    return sys::getsockopt(fd, level, name, &value, &size) == 0 ? value : 0;
}

}  // namespace

int mark_connect(int fd) {
    const int before = option(fd, IPPROTO_IP, IP_TOS);
    set_traffic_class(fd, kOfRdmaCm);
    return before;
}

void unmark_connect(int fd, int traffic_class) {
    set_traffic_class(fd, traffic_class);
}

// A filter is a group's, and there is no group until a second socket listens. This one goes at once.
int share_port(int listener, const Address& local) {
    sys::set_option(listener, SOL_SOCKET, SO_REUSEPORT, 1);
    const int second = open_socket(local.family(), SOCK_STREAM, 0);
    if (second < 0) return second;
    sys::set_option(second, SOL_SOCKET, SO_REUSEPORT, 1);
    if (local.family() == AF_INET6)
        sys::set_option(second, IPPROTO_IPV6, IPV6_V6ONLY, option(listener, IPPROTO_IPV6, IPV6_V6ONLY));
    int error = sys::bind(second, local.get(), local.size());
    if (error == 0) error = sys::listen(second, 1);
    const sock_fprog program{static_cast<unsigned short>(kWhose.size()), kWhose.data()};
    if (error == 0) error = sys::setsockopt(listener, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
    sys::close(second);
    return error;
}

}  // namespace swrnic::shim
