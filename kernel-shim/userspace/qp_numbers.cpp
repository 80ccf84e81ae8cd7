// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "qp_numbers.h"

#include <errno.h>
#include <netinet/tcp.h>

#include <algorithm>

#include "config.h"
#include "log.h"
#include "net.h"
#include "startup.h"
#include "state.h"

namespace swrnic::shim {
namespace {

// Bound to the port at all of the host's addresses, IPv4 and IPv6; port 0: one that the kernel chooses. -errno.
int bind_everywhere(int type, std::uint16_t port) {
    for (const int family : {AF_INET6, AF_INET}) {  // a host may have no IPv6
        const int fd = open_socket(family, type | SOCK_NONBLOCK, 0);
        if (fd == -EAFNOSUPPORT) continue;
        if (fd < 0) return fd;
        if (type == SOCK_STREAM) sys::set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // what it accepts inherits it
        if (family == AF_INET6) sys::set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        Address any = Address::any(family);
        any.set_port(port);
        const int error = sys::bind(fd, any.get(), any.size());
        if (error == 0) return fd;
        sys::close(fd);
        if (error != -EADDRNOTAVAIL) return error;
    }
    return -EADDRNOTAVAIL;
}

// Within SWRNIC_PORTS, beginning anywhere, so that processes do not try the same ones.
int bind_within(Locked& locked, int type, const PortRange& range) {
    const std::uint32_t count = range.last - range.first + 1u;
    const std::uint32_t start = locked->random.next() % count;
    int fd = -EADDRINUSE;
    for (std::uint32_t i = 0; i < count && fd == -EADDRINUSE; ++i)
        fd = bind_everywhere(type, static_cast<std::uint16_t>(range.first + (start + i) % count));
    return fd;
}

// Kept from the program; or negative, and a line in the log.
int bind_any(Locked& locked, int type) {
    const std::optional<PortRange>& range = locked->config.ports;
    const int fd = range ? bind_within(locked, type, *range) : bind_everywhere(type, 0);
    if (fd >= 0) {
        locked->fds.keep(locked, fd);
    } else {
        log(LogLevel::kWarn, "no {} port for the numbers of QPs{}: error {}", type == SOCK_STREAM ? "TCP" : "UDP",
            range ? fmt::format(" in SWRNIC_PORTS={}-{}", range->first, range->last) : "", -fd);
    }
    return fd;
}

}  // namespace

std::map<std::uint16_t, QpNumbers::Port>::iterator QpNumbers::reserve(Locked& locked) {
    const int fd = bind_any(locked, SOCK_STREAM);
    if (fd < 0) return ports_.end();
    const auto [at, is_new] = ports_.emplace(Address::local_of(fd).port(), Port{});
    at->second.socket = fd;
    return at;
}

std::uint32_t QpNumbers::take(Locked& locked) {
    auto at = std::find_if(ports_.begin(), ports_.end(), [](const auto& entry) { return !entry.second.taken.all(); });
    if (at == ports_.end()) at = reserve(locked);
    if (at == ports_.end()) return 0;
    std::uint32_t slot = locked->random.next() % SWR_QPN_SLOTS;
    while (at->second.taken[slot])
        slot = (slot + 1) % SWR_QPN_SLOTS;
    at->second.taken.set(slot);
    return swrnic_qpn_of(at->first, slot);
}

// TCP's ports and UDP's are not the same: another QP may have the port, but not the number.
std::optional<QpNumbers::Datagrams> QpNumbers::take_datagrams(Locked& locked) {
    const int fd = bind_any(locked, SOCK_DGRAM);
    if (fd < 0) return std::nullopt;
    const std::uint16_t port = Address::local_of(fd).port();
    std::uint32_t qpn = swrnic_qpn_of(port, locked->random.next());
    while (locked->qps.contains(qpn))
        qpn = swrnic_qpn_of(port, qpn + 1);
    return Datagrams{qpn, fd};
}

void QpNumbers::give_back(Locked& locked, std::uint32_t qpn) {
    const auto at = ports_.find(swrnic_qpn_port(qpn));
    if (at == ports_.end()) return;
    Port& port = at->second;
    port.taken.reset(qpn % SWR_QPN_SLOTS);
    if (port.taken.any()) return;
    if (port.key != 0 && locked->startup != nullptr) locked->startup->cancel(locked, port.key);
    if (port.socket >= 0) {
        locked->fds.let_go(locked, port.socket);
        sys::close(port.socket);
    }
    ports_.erase(at);
}

int QpNumbers::listen(Locked& locked, std::uint32_t qpn, const std::shared_ptr<StartupListener>& listener) {
    const auto at = ports_.find(swrnic_qpn_port(qpn));
    if (at == ports_.end()) return -EADDRNOTAVAIL;
    Port& port = at->second;
    if (port.key != 0) return 0;
    Startup* startup = Startup::get(locked);
    if (startup == nullptr) return -ENOMEM;
    const int error = startup->listen(locked, listener, port.socket, SWR_TCP_BACKLOG, port.key);
    if (error != 0) return error;
    port.socket = -1;
    port.listener = listener;
    return 0;
}

void QpNumbers::forked() {
    for (const auto& [number, port] : ports_) {
        if (port.socket >= 0) sys::close(port.socket);
    }
    ports_.clear();
}

}  // namespace swrnic::shim
