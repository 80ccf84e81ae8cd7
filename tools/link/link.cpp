// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "link/link.h"

#include <errno.h>
#include <fmt/format.h>
#include <net/if.h>
#include <string.h>

#include <algorithm>
#include <iterator>

#include "host.h"
#include "link/rdma_netlink.h"
#include "run.h"

namespace swrnic::tools {

namespace {

constexpr const char* kUsage =
    R"(Usage: swrnic link [show [NAME]]
       swrnic link add NAME [type TYPE] netdev NETDEV
       swrnic link del NAME

Makes, removes and lists RDMA devices of the kernel, as `rdma link` does. TYPE is swrnic unless it is given.
The module swrnic must be there for `add` (package swrnic-dkms). Without it `swrnic run` gives programs a device.)";

constexpr const char* kType = "swrnic";

int fail(const std::string& why) {
    fmt::print(stderr, "swrnic: {}\n", why);
    return 1;
}

int usage(const std::string& what) {
    fmt::print(stderr, "swrnic: link: {}; see swrnic link --help\n", what);
    return kExitRefused;
}

bool no_rdma(int error) {
    return error == EPROTONOSUPPORT || error == ECONNREFUSED || error == ESOCKTNOSUPPORT || error == EAFNOSUPPORT;
}

std::string explain_open(int error) {
    if (no_rdma(error))
        return "this kernel has no RDMA: its module ib_core is not loaded, or was never built (try modprobe swrnic; "
               "programs do without by `swrnic run`)";
    return fmt::format("the kernel's RDMA netlink cannot be opened: {}", ::strerror(error));
}

std::string explain_add(int error, const std::string& name, const std::string& type, const std::string& netdev) {
    switch (error) {
        case EPERM:
        case EACCES:
            return "making an RDMA device needs root (CAP_NET_ADMIN)";
        case ENODEV:
            return fmt::format("there is no network device {} here; `ip link` lists them", netdev);
        case EEXIST:
        case ENFILE:
        case EBUSY:
            if (exists("/sys/class/infiniband/" + name))
                return fmt::format("the name {} is taken; `swrnic link` lists the devices", name);
            return fmt::format("{} has a device of this kind already; `swrnic link` lists them", netdev);
        case EINVAL:
            if (type == kType && exists("/sys/module/swrnic"))
                return fmt::format(
                    "the kernel refuses {} on {}: the name may be no device name, or {} is of no use "
                    "(it needs a MAC address); the kernel's log says which",
                    name, netdev, netdev);
            return fmt::format("the kernel knows no links of type {}: its module is not loaded{}", type,
                               type == kType ? " (modprobe swrnic; package swrnic-dkms)" : "");
        case ENAMETOOLONG:
        case ERANGE:
            return fmt::format("the name {} is too long", name);
        default:
            if (no_rdma(error)) return explain_open(error);
            return fmt::format("the kernel refuses {} on {}: {}", name, netdev, ::strerror(error));
    }
}

std::string explain_delete(int error, const std::string& name) {
    switch (error) {
        case EPERM:
        case EACCES:
            return "removing an RDMA device needs root (CAP_NET_ADMIN)";
        case ENODEV:
            return fmt::format("there is no RDMA device {}; `swrnic link` lists them", name);
        case EINVAL:
            return fmt::format("{} was not made by `link add`: it belongs to its hardware", name);
        default:
            return fmt::format("the kernel does not remove {}: {}", name, ::strerror(error));
    }
}

const char* state_text(int state) {
    constexpr const char* kStates[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
    return state >= 0 && state < static_cast<int>(std::size(kStates)) ? kStates[state] : "?";
}

const char* physical_text(int state) {
    constexpr const char* kStates[] = {"NOP",      "SLEEP",   "POLLING",        "DISABLED",
                                       "TRAINING", "LINK_UP", "ERROR_RECOVERY", "PHY_TEST"};
    return state >= 0 && state < static_cast<int>(std::size(kStates)) ? kStates[state] : "?";
}

int show(const std::string& name) {
    RdmaNetlink netlink;
    std::vector<RdmaPort> ports;
    int error = netlink.open();
    if (error == 0) error = netlink.ports(ports);
    if (error != 0) return fail(explain_open(error));
    bool any = false;
    for (const RdmaPort& port : ports) {
        if (!name.empty() && port.device != name) continue;
        any = true;
        const std::string netdev = port.netdev.empty() ? "" : fmt::format(" netdev {}", port.netdev);
        fmt::print("link {}/{} state {} physical_state {}{}\n", port.device, port.port, state_text(port.state),
                   physical_text(port.physical_state), netdev);
    }
    return any || name.empty() ? 0 : fail(explain_delete(ENODEV, name));
}

int add_link(const std::vector<std::string>& words) {
    if (words.size() % 2 != 1) return usage("add takes NAME [type TYPE] netdev NETDEV");
    std::string type = kType, netdev;
    for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
        if (words[i] == "type") {
            type = words[i + 1];
        } else if (words[i] == "netdev") {
            netdev = words[i + 1];
        } else {
            return usage(fmt::format("add: unknown word {}", words[i]));
        }
    }
    if (netdev.empty()) return usage("add: netdev NETDEV is missing");
    RdmaNetlink netlink;
    int error = netlink.open();
    if (error != 0) return fail(explain_open(error));
    // The kernel answers a missing module and a missing netdev in an order of its own.
    if (::if_nametoindex(netdev.c_str()) == 0) return fail(explain_add(ENODEV, words[0], type, netdev));
    error = netlink.add_link(words[0], type, netdev);
    return error == 0 ? 0 : fail(explain_add(error, words[0], type, netdev));
}

int remove(const std::string& name) {
    RdmaNetlink netlink;
    std::vector<RdmaPort> ports;
    int error = netlink.open();
    if (error == 0) error = netlink.ports(ports);
    if (error != 0) return fail(explain_open(error));
    const auto found =
        std::find_if(ports.begin(), ports.end(), [&](const RdmaPort& port) { return port.device == name; });
    if (found == ports.end()) return fail(explain_delete(ENODEV, name));
    error = netlink.delete_link(found->index);
    return error == 0 ? 0 : fail(explain_delete(error, name));
}

}  // namespace

int link(const std::vector<std::string>& words) {
    const std::string verb = words.empty() ? "show" : words[0];
    const std::vector<std::string> rest(words.begin() + (words.empty() ? 0 : 1), words.end());
    if (verb == "--help" || verb == "-h") {
        fmt::print("{}\n", kUsage);
        return 0;
    }
    if (verb == "show" || verb == "list")
        return rest.size() <= 1 ? show(rest.empty() ? "" : rest[0]) : usage("show takes one NAME");
    if (verb == "add") return add_link(rest);
    if (verb == "del" || verb == "delete") return rest.size() == 1 ? remove(rest[0]) : usage("del takes one NAME");
    return usage(fmt::format("unknown word {}", verb));
}

}  // namespace swrnic::tools
