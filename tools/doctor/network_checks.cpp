// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "doctor/report.h"

namespace swrnic::tools {

namespace {

struct Addresses {
    std::vector<std::string> v4;
    std::vector<std::string> v6;
    bool beyond_loopback = false;
};

std::string text_of(const ifaddrs& entry) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* raw = nullptr;
    if (entry.ifa_addr->sa_family == AF_INET)
        raw = &reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr;
    else
        raw = &reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
    ::inet_ntop(entry.ifa_addr->sa_family, raw, text.data(), static_cast<socklen_t>(text.size()));
    return fmt::format("{} ({})", text.data(), entry.ifa_name);
}

Addresses addresses() {
    Addresses found;
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return found;
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{list, ::freeifaddrs};
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
        const bool v4 = entry->ifa_addr->sa_family == AF_INET, v6 = entry->ifa_addr->sa_family == AF_INET6;
        if (v4) found.v4.push_back(text_of(*entry));
        if (v6) found.v6.push_back(text_of(*entry));
        if ((v4 || v6) && (entry->ifa_flags & IFF_LOOPBACK) == 0) found.beyond_loopback = true;
    }
    return found;
}

// What every connection here begins with: a TCP listener on the loopback address.
Finding check_listener() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool listening =
        fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(fd, 1) == 0;
    const int why = errno;
    if (fd >= 0) ::close(fd);
    if (listening) return ok("TCP can listen on 127.0.0.1");
    return fail(fmt::format("TCP cannot listen on 127.0.0.1: {}", ::strerror(why)),
                "bring the loopback interface up (ip link set lo up), or look at the sandbox's rules");
}

std::string tcp_setting(const char* name) {
    std::string value = first_line(std::string{"/proc/sys/net/ipv4/"} + name);
    for (char& c : value) {
        if (c == '\t') c = ' ';
    }
    return value.empty() ? "?" : value;
}

}  // namespace

Findings check_network() {
    Findings findings;
    const Addresses found = addresses();
    if (found.v4.empty() && found.v6.empty())
        findings.push_back(
            fail("no interface that is up has an address", "ip link set lo up; ip address shows the interfaces"));
    else if (found.v4.empty())
        findings.push_back(note("no IPv4 address; perftest's -R is IPv4 only"));
    else
        findings.push_back(ok(fmt::format("IPv4: {}", fmt::join(found.v4, ", "))));
    if (found.v6.empty())
        findings.push_back(note("no IPv6 address: IPv6 peers cannot be reached"));
    else
        findings.push_back(ok(fmt::format("IPv6: {}", fmt::join(found.v6, ", "))));
    if (!found.beyond_loopback)
        findings.push_back(note("no address but loopback's: libfabric and Open MPI leave those out, and find no device",
                                "for them, give an interface an address of its own: ip link add dummy0 up type dummy, "
                                "ip address add 192.0.2.1/24 dev dummy0"));
    findings.push_back(check_listener());
    findings.push_back(
        ok(fmt::format("TCP: congestion control {}; buffers (min default max) send {}, receive {}",
                       tcp_setting("tcp_congestion_control"), tcp_setting("tcp_wmem"), tcp_setting("tcp_rmem"))));
    return findings;
}

}  // namespace swrnic::tools
