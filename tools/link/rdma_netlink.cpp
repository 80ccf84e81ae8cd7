// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "link/rdma_netlink.h"

#include <errno.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

namespace swrnic::tools {

namespace {

// RDMA_NL_GET_TYPE shifts a signed number.
constexpr int type_of(unsigned command) {
    return static_cast<int>(unsigned{RDMA_NL_NLDEV} << 10 | command);
}

struct FreeMessage {
    void operator()(nl_msg* message) const { ::nlmsg_free(message); }
};
using Message = std::unique_ptr<nl_msg, FreeMessage>;

Message make(unsigned command, int flags) {
    return Message(::nlmsg_alloc_simple(type_of(command), flags));
}

std::string text_of(nlattr* attribute) {
    return attribute != nullptr ? std::string(::nla_get_string(attribute)) : std::string();
}

std::uint32_t number_of(nlattr* attribute) {
    return attribute != nullptr ? ::nla_get_u32(attribute) : 0;
}

bool parse(nl_msg* message, nlattr** table) {
    static nla_policy policy[RDMA_NLDEV_ATTR_MAX] = {};
    policy[RDMA_NLDEV_ATTR_DEV_INDEX].type = NLA_U32;
    policy[RDMA_NLDEV_ATTR_DEV_NAME].type = NLA_NUL_STRING;
    policy[RDMA_NLDEV_ATTR_PORT_INDEX].type = NLA_U32;
    policy[RDMA_NLDEV_ATTR_PORT_STATE].type = NLA_U8;
    policy[RDMA_NLDEV_ATTR_PORT_PHYS_STATE].type = NLA_U8;
    policy[RDMA_NLDEV_ATTR_NDEV_NAME].type = NLA_NUL_STRING;
    return ::nlmsg_parse(::nlmsg_hdr(message), 0, table, RDMA_NLDEV_ATTR_MAX - 1, policy) == 0;
}

int take_device(nl_msg* message, void* argument) {
    nlattr* table[RDMA_NLDEV_ATTR_MAX] = {};
    if (!parse(message, table) || table[RDMA_NLDEV_ATTR_DEV_INDEX] == nullptr) return NL_SKIP;
    RdmaPort device;
    device.device = text_of(table[RDMA_NLDEV_ATTR_DEV_NAME]);
    device.index = number_of(table[RDMA_NLDEV_ATTR_DEV_INDEX]);
    static_cast<std::vector<RdmaPort>*>(argument)->push_back(std::move(device));
    return NL_OK;
}

int take_port(nl_msg* message, void* argument) {
    nlattr* table[RDMA_NLDEV_ATTR_MAX] = {};
    if (!parse(message, table) || table[RDMA_NLDEV_ATTR_PORT_INDEX] == nullptr) return NL_SKIP;
    RdmaPort port;
    port.device = text_of(table[RDMA_NLDEV_ATTR_DEV_NAME]);
    port.index = number_of(table[RDMA_NLDEV_ATTR_DEV_INDEX]);
    port.port = number_of(table[RDMA_NLDEV_ATTR_PORT_INDEX]);
    if (nlattr* state = table[RDMA_NLDEV_ATTR_PORT_STATE]) port.state = ::nla_get_u8(state);
    if (nlattr* state = table[RDMA_NLDEV_ATTR_PORT_PHYS_STATE]) port.physical_state = ::nla_get_u8(state);
    port.netdev = text_of(table[RDMA_NLDEV_ATTR_NDEV_NAME]);
    static_cast<std::vector<RdmaPort>*>(argument)->push_back(std::move(port));
    return NL_OK;
}

}  // namespace

void RdmaNetlink::Free::operator()(nl_sock* socket) const {
    ::nl_socket_free(socket);
}

int RdmaNetlink::open() {
    socket_.reset(::nl_socket_alloc());
    if (!socket_) return ENOMEM;
    errno = 0;
    if (::nl_connect(socket_.get(), NETLINK_RDMA) == 0) return 0;
    return errno != 0 ? errno : EPROTONOSUPPORT;
}

// Sends, and takes answers until the acknowledgement or the end of the dump.
int RdmaNetlink::ask(nl_msg* message, int (*take)(nl_msg*, void*), void* argument) {
    struct State {
        int error = 0;
        bool done = false;
    } state;
    std::unique_ptr<nl_cb, void (*)(nl_cb*)> callbacks(::nl_cb_alloc(NL_CB_DEFAULT), ::nl_cb_put);
    if (!callbacks) return ENOMEM;
    const auto finish = [](nl_msg*, void* of) -> int {
        static_cast<State*>(of)->done = true;
        return NL_STOP;
    };
    // libnl's own codes would lose the kernel's.
    ::nl_cb_err(
        callbacks.get(), NL_CB_CUSTOM,
        [](sockaddr_nl*, nlmsgerr* error, void* of) -> int {
            static_cast<State*>(of)->error = -error->error;
            static_cast<State*>(of)->done = true;
            return NL_STOP;
        },
        &state);
    ::nl_cb_set(callbacks.get(), NL_CB_ACK, NL_CB_CUSTOM, finish, &state);
    ::nl_cb_set(callbacks.get(), NL_CB_FINISH, NL_CB_CUSTOM, finish, &state);
    if (take != nullptr) ::nl_cb_set(callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM, take, argument);
    errno = 0;
    if (::nl_send_auto(socket_.get(), message) < 0) return errno != 0 ? errno : EIO;
    while (!state.done) {
        errno = 0;
        if (::nl_recvmsgs(socket_.get(), callbacks.get()) < 0 && !state.done) return errno != 0 ? errno : EIO;
    }
    return state.error;
}

int RdmaNetlink::add_link(const std::string& name, const std::string& type, const std::string& netdev) {
    const Message message = make(RDMA_NLDEV_CMD_NEWLINK, NLM_F_REQUEST | NLM_F_ACK);
    if (!message || ::nla_put_string(message.get(), RDMA_NLDEV_ATTR_DEV_NAME, name.c_str()) < 0 ||
        ::nla_put_string(message.get(), RDMA_NLDEV_ATTR_LINK_TYPE, type.c_str()) < 0 ||
        ::nla_put_string(message.get(), RDMA_NLDEV_ATTR_NDEV_NAME, netdev.c_str()) < 0)
        return ENOMEM;
    return ask(message.get(), nullptr, nullptr);
}

int RdmaNetlink::delete_link(std::uint32_t index) {
    const Message message = make(RDMA_NLDEV_CMD_DELLINK, NLM_F_REQUEST | NLM_F_ACK);
    if (!message || ::nla_put_u32(message.get(), RDMA_NLDEV_ATTR_DEV_INDEX, index) < 0) return ENOMEM;
    return ask(message.get(), nullptr, nullptr);
}

int RdmaNetlink::ports(std::vector<RdmaPort>& out) {
    std::vector<RdmaPort> devices;
    const Message list = make(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST | NLM_F_DUMP);
    if (!list) return ENOMEM;
    if (const int error = ask(list.get(), take_device, &devices); error != 0) return error;
    for (const RdmaPort& device : devices) {
        const Message message = make(RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST | NLM_F_DUMP);
        if (!message || ::nla_put_u32(message.get(), RDMA_NLDEV_ATTR_DEV_INDEX, device.index) < 0) return ENOMEM;
        const int error = ask(message.get(), take_port, &out);
        if (error != 0 && error != EINVAL && error != ENODEV) return error;  // it may have gone meanwhile
    }
    return 0;
}

}  // namespace swrnic::tools
