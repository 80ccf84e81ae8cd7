// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "uverbs.h"

#include <dirent.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <swrnic-abi.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>

namespace swrnic::daemon {

namespace {

constexpr const char* kClass = "/sys/class/infiniband_verbs";

ib_uverbs_attr attribute(unsigned id, void* data, std::size_t length) {
    ib_uverbs_attr attr{};
    attr.attr_id = static_cast<std::uint16_t>(id);
    attr.len = static_cast<std::uint16_t>(length);
    attr.flags = UVERBS_ATTR_F_MANDATORY;
    attr.data = reinterpret_cast<std::uintptr_t>(data);
    return attr;
}

// A device of another driver refuses our driver_id before it looks at anything else.
int get_context(int uverbs, int& event_fd) {
    swrnic_alloc_ucontext_req request{};
    request.abi_version = SWRNIC_ABI_NEWEST;
    swrnic_alloc_ucontext_resp response{};
    response.event_fd = -1;
    std::uint32_t vectors = 0;
    std::uint64_t support = 0;
    const std::array attributes = {
        attribute(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof vectors),
        attribute(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support, sizeof support),
        attribute(UVERBS_ATTR_UHW_IN, &request, sizeof request),
        attribute(UVERBS_ATTR_UHW_OUT, &response, sizeof response),
    };
    alignas(ib_uverbs_ioctl_hdr) std::array<std::byte, sizeof(ib_uverbs_ioctl_hdr) + sizeof attributes> call{};
    ib_uverbs_ioctl_hdr header{};
    header.length = sizeof call;
    header.object_id = UVERBS_OBJECT_DEVICE;
    header.method_id = UVERBS_METHOD_GET_CONTEXT;
    header.num_attrs = attributes.size();
    header.driver_id = SWRNIC_DRIVER_ID;
    std::memcpy(call.data(), &header, sizeof header);
    std::memcpy(call.data() + sizeof header, attributes.data(), sizeof attributes);
    if (::ioctl(uverbs, RDMA_VERBS_IOCTL, call.data()) != 0) return errno == EINVAL ? EPROTONOSUPPORT : errno;
    event_fd = response.event_fd;
    return swrnic_abi_speaks(response.abi_version) != 0 && event_fd >= 0 ? 0 : EPROTO;
}

}  // namespace

std::vector<UverbsNode> list_uverbs() {
    std::vector<UverbsNode> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(kClass), &::closedir);
    if (!directory) return found;
    while (const dirent* entry = ::readdir(directory.get())) {
        UverbsNode node{entry->d_name, {}};
        if (node.node.rfind("uverbs", 0) != 0) continue;
        std::ifstream file(std::string(kClass) + "/" + node.node + "/ibdev");
        if (std::getline(file, node.device) && !node.device.empty()) found.push_back(std::move(node));
    }
    std::sort(found.begin(), found.end());
    return found;
}

int open_context(const std::string& node, Context& out) {
    Context made;
    made.uverbs = Fd(::open(("/dev/infiniband/" + node).c_str(), O_RDWR | O_CLOEXEC));
    if (made.uverbs.get() < 0) return errno;
    int event_fd = -1;
    const int error = get_context(made.uverbs.get(), event_fd);
    made.events = Fd(event_fd);
    if (error != 0) return error;
    out = std::move(made);
    return 0;
}

}  // namespace swrnic::daemon
