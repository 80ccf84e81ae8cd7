// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The write() side of uverbs: framing, dispatch, and the end of a context.
#include "uverbs.h"

#include <fmt/core.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "event_file.h"
#include "log.h"
#include "state.h"
#include "sysfs.h"
#include "ucma.h"

namespace swrnic::shim {

std::uint32_t UverbsFile::new_handle() {
    static constinit std::uint32_t last = 0;
    return ++last;
}

int UverbsRequest::parse(const void* buffer, std::size_t size, UverbsRequest& request) {
    ib_uverbs_cmd_hdr header;
    if (size < sizeof(header)) return -EINVAL;
    if (!readable(buffer, sizeof(header))) return -EFAULT;
    std::memcpy(&header, buffer, sizeof(header));
    const auto* bytes = static_cast<const std::uint8_t*>(buffer);
    request.extended = (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
    request.command = header.command & IB_USER_VERBS_CMD_COMMAND_MASK;
    if ((header.command & ~(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK)) != 0) return -EINVAL;
    if (!request.extended) {
        if (std::size_t{header.in_words} * 4 != size) return -EINVAL;
        if (!readable(bytes, size, sizeof(header))) return -EFAULT;
        request.core = {bytes + sizeof(header), size - sizeof(header)};
        request.response_size = std::size_t{header.out_words} * 4;
        return 0;
    }
    ib_uverbs_ex_cmd_hdr more;
    constexpr std::size_t kHeaders = sizeof(header) + sizeof(more);
    if (size < kHeaders) return -EINVAL;
    if (!readable(bytes, kHeaders, sizeof(header))) return -EFAULT;
    std::memcpy(&more, bytes + sizeof(header), sizeof(more));
    const std::size_t core = std::size_t{header.in_words} * 8;
    const std::size_t driver = std::size_t{more.provider_in_words} * 8;
    if (kHeaders + core + driver != size || more.cmd_hdr_reserved != 0) return -EINVAL;
    if (more.response == 0 && (header.out_words != 0 || more.provider_out_words != 0)) return -EINVAL;
    if (!readable(bytes, size, kHeaders)) return -EFAULT;
    request.core = {bytes + kHeaders, core};
    request.driver = {bytes + kHeaders + core, driver};
    request.response = more.response;
    request.response_size = std::size_t{header.out_words} * 8;
    return 0;
}

ssize_t UverbsFile::write(int, const void* buffer, std::size_t size) {
    UverbsRequest request;
    if (const int error = UverbsRequest::parse(buffer, size, request); error != 0) return error;
    Locked locked;
    if (any_fd() < 0) return -EBADF;  // another thread was faster with the close
    const int error = request.extended ? dispatch_extended(locked, request) : dispatch(locked, request);
    if (error != 0) {
        log(LogLevel::kDebug, "uverbs command {}{}: error {}", request.command, request.extended ? " (extended)" : "",
            -error);
    }
    return error == 0 ? static_cast<ssize_t>(size) : error;
}

int UverbsFile::dispatch(Locked& locked, UverbsRequest& request) {
    if (request.command == IB_USER_VERBS_CMD_GET_CONTEXT) return get_context(locked, request);
    if (number_ == 0) return -EINVAL;
    switch (request.command) {
        case IB_USER_VERBS_CMD_QUERY_DEVICE:
            return query_device(request);
        case IB_USER_VERBS_CMD_QUERY_PORT:
            return query_port(request);
        case IB_USER_VERBS_CMD_ALLOC_PD:
            return alloc_pd(request);
        case IB_USER_VERBS_CMD_DEALLOC_PD:
            return dealloc_pd(request);
        case IB_USER_VERBS_CMD_REG_MR:
            return reg_mr(request);
        case IB_USER_VERBS_CMD_DEREG_MR:
            return dereg_mr(request);
        case IB_USER_VERBS_CMD_ALLOC_MW:
            return alloc_mw(request);
        case IB_USER_VERBS_CMD_DEALLOC_MW:
            return dealloc_mw(request);
        case IB_USER_VERBS_CMD_CREATE_AH:
            return create_ah(request);
        case IB_USER_VERBS_CMD_DESTROY_AH:
            return destroy_ah(request);
        case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
            return create_comp_channel(locked, request);
        case IB_USER_VERBS_CMD_CREATE_CQ:
            return create_cq(locked, request);
        case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
            return req_notify_cq(request);
        case IB_USER_VERBS_CMD_DESTROY_CQ:
            return destroy_cq(locked, request);
        case IB_USER_VERBS_CMD_CREATE_SRQ:
            return create_srq(request);
        case IB_USER_VERBS_CMD_MODIFY_SRQ:
            return modify_srq(request);
        case IB_USER_VERBS_CMD_QUERY_SRQ:
            return query_srq(request);
        case IB_USER_VERBS_CMD_DESTROY_SRQ:
            return destroy_srq(locked, request);
        case IB_USER_VERBS_CMD_CREATE_QP:
            return create_qp(locked, request);
        case IB_USER_VERBS_CMD_MODIFY_QP:
            return modify_qp(locked, request);
        case IB_USER_VERBS_CMD_QUERY_QP:
            return query_qp(request);
        case IB_USER_VERBS_CMD_DESTROY_QP:
            return destroy_qp(locked, request);
        case IB_USER_VERBS_CMD_ATTACH_MCAST:
            return attach_mcast(locked, request);
        case IB_USER_VERBS_CMD_DETACH_MCAST:
            return detach_mcast(request);
        default:
            break;
    }
    return request.command <= IB_USER_VERBS_CMD_OPEN_QP ? -EOPNOTSUPP : -EINVAL;
}

int UverbsFile::dispatch_extended(Locked& locked, UverbsRequest& request) {
    if (number_ == 0) return -EINVAL;
    switch (request.command) {
        case IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
            return query_device_ex(request);
        case IB_USER_VERBS_EX_CMD_CREATE_CQ:
            return create_cq_ex(locked, request);
        case IB_USER_VERBS_EX_CMD_CREATE_QP:
            return create_qp_ex(locked, request);
        case IB_USER_VERBS_EX_CMD_MODIFY_QP:
            return modify_qp_ex(locked, request);
        default:
            return -EOPNOTSUPP;
    }
}

bool UverbsFile::fake_stat(struct stat& out) const {
    fill_stat(fmt::format("/dev/infiniband/uverbs{}", device_), Node{Node::Kind::kUverbs, {}, device_}, out);
    return true;
}

int UverbsFile::get_context(Locked& locked, UverbsRequest& request) {
    ib_uverbs_get_context core;
    swrnic_alloc_ucontext_req asked;
    if (number_ != 0) return -EINVAL;
    if (!request.take(core) || !request.take_driver(asked)) return -EINVAL;
    if (asked.reserved[0] != 0 || asked.reserved[1] != 0 || asked.reserved[2] != 0) return -EINVAL;
    ib_uverbs_get_context_resp made{};
    swrnic_alloc_ucontext_resp driver{};
    driver.abi_version = swrnic_abi_common(asked.abi_version);
    if (driver.abi_version == 0) return -EPROTO;
    if (const int error = request.room(sizeof(made) + sizeof(driver)); error != 0) return error;

    const auto self = std::static_pointer_cast<UverbsFile>(locked->fds.find(locked, any_fd()));
    const auto async_file = std::make_shared<AsyncFile>();
    const auto event_file = std::make_shared<EventFile>(self, device_);
    const int async_fd = locked->fds.install_new(locked, async_file, EFD_CLOEXEC);
    if (async_fd < 0) return async_fd;
    driver.event_fd = locked->fds.install_new(locked, event_file, EFD_CLOEXEC | EFD_NONBLOCK);
    if (driver.event_fd < 0) {
        locked->fds.remove(locked, async_fd);
        sys::close(async_fd);
        return driver.event_fd;
    }
    async_file_ = async_file;
    event_file_ = event_file;
    number_ = new_handle();
    made.async_fd = static_cast<std::uint32_t>(async_fd);
    made.num_comp_vectors = static_cast<std::uint32_t>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, 64L));
    request.put(&made, sizeof(made));
    request.put(&driver, sizeof(driver), sizeof(made));
    return 0;
}

// The last descriptor of the context has gone: so do its objects, whoever still refers to them.
void UverbsFile::closed(Locked& locked) {
    while (!qps_.empty()) {
        drop_qp(locked, *qps_.begin()->second);
        qps_.erase(qps_.begin());
    }
    for (const auto& channel : channels_) {
        if (const auto alive = channel.lock()) {
            alive->remove_if(locked, [](const CompEvent&) { return true; });
            alive->shut(locked);
        }
    }
    if (const auto alive = async_file_.lock()) {
        alive->remove_if(locked, [](const AsyncEvent&) { return true; });
        alive->shut(locked);
    }
    if (const auto alive = event_file_.lock()) alive->shut(locked);
    srqs_.clear();
    cqs_.clear();
    mrs_.clear();
    mws_.clear();
    ahs_.clear();
    pds_.clear();
}

}  // namespace swrnic::shim
