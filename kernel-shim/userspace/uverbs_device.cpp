// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device and port attributes, protection domains, memory regions, address handles.

#include <algorithm>
#include <optional>
#include <vector>

#include "device.h"
#include "device_limits.h"
#include "state.h"
#include "swrnic_wiring.h"
#include "uverbs.h"

namespace swrnic::shim {
namespace {

// enum ib_device_cap_flags
constexpr std::uint32_t kMemWindow = 1u << 17, kMemWindowType2B = 1u << 24;

constexpr std::uint8_t kAtomicGlob = 2;  // enum ib_atomic_cap: with the processor's own

}  // namespace

ib_uverbs_query_device_resp device_attributes(unsigned device) {
    ib_uverbs_query_device_resp a{};
    a.node_guid = node_guid_be(device);
    a.sys_image_guid = a.node_guid;
    a.vendor_id = SWRNIC_VENDOR_ID;
    a.vendor_part_id = SWRNIC_VENDOR_PART_ID;
    a.max_mr_size = SWR_MAX_MR_SIZE;
    a.page_size_cap = 0xfffff000;  // any page size from 4 KiB on: nothing is pinned
    a.max_qp = SWR_MAX_QP;
    a.max_qp_wr = SWR_MAX_QP_WR;
    a.max_sge = SWR_MAX_SGE;
    a.max_sge_rd = SWR_MAX_SGE;
    a.max_cq = SWR_MAX_CQ;
    a.max_cqe = SWR_MAX_CQE;
    a.device_cap_flags = kMemWindow | kMemWindowType2B;
    a.atomic_cap = kAtomicGlob;
    a.max_mr = SWR_MAX_MR;
    a.max_mw = SWR_MAX_MW;
    a.max_ah = SWR_MAX_AH;
    a.max_mcast_grp = kMaxGroups;
    a.max_mcast_qp_attach = SWR_MAX_QP;
    a.max_total_mcast_qp_attach = SWR_MAX_QP;
    a.max_srq = SWR_MAX_SRQ;
    a.max_srq_wr = SWR_MAX_SRQ_WR;
    a.max_srq_sge = SWR_MAX_SGE;
    a.max_pd = SWR_MAX_PD;
    a.max_qp_rd_atom = SWR_MAX_READS;
    a.max_qp_init_rd_atom = SWR_MAX_READS;
    a.max_res_rd_atom = SWR_MAX_READS;
    a.max_pkeys = 1;
    a.phys_port_cnt = 1;
    return a;
}

ib_uverbs_query_port_resp port_attributes() {
    ib_uverbs_query_port_resp port{};
    port.max_msg_sz = kMaxMessage;
    port.gid_tbl_len = static_cast<std::uint32_t>(gid_table().size());
    port.pkey_tbl_len = 1;
    port.state = 4;    // ACTIVE
    port.max_mtu = 5;  // 4096
    port.active_mtu = active_mtu();
    port.active_width = 1;  // 1X
    port.active_speed = 4;  // 10 Gb/s: a number must be named; TCP goes as fast as it goes
    port.phys_state = 5;    // LINK_UP
    port.link_layer = 2;    // Ethernet
    return port;
}

namespace {

// Only what a region may be asked for (VERBS-31), plus bits without a protocol effect.
constexpr std::uint32_t kLocalWrite = 1, kRemoteWrite = 2, kRemoteAtomic = 8;
constexpr std::uint32_t kKnownAccess = 0xff | 0x3ff00000;  // basic flags; IB_UVERBS_ACCESS_OPTIONAL_RANGE

constexpr std::uint8_t kWindowType1 = 1, kWindowType2 = 2;  // enum ib_mw_type

// The way of this host to what the GID names, from the entry of the table that is to be the source.
std::optional<swrnic_create_ah_resp> find_way(const ib_uverbs_ah_attr& attr) {
    if (attr.is_global == 0 || attr.port_num != 1) return std::nullopt;
    Gid gid;
    std::copy_n(attr.grh.dgid, gid.size(), gid.begin());
    const bool is_group = !group_of(gid).empty();
    const auto path = is_group ? find_group_path(attr.grh.sgid_index, gid) : find_path(attr.grh.sgid_index, gid);
    if (!path) return std::nullopt;
    swrnic_create_ah_resp way{};
    std::ranges::copy(path->source.as_gid(), way.source);
    std::ranges::copy(path->peer.as_gid(), way.peer);
    way.interface = path->interface;
    way.group_port = is_group ? SWR_GROUP_PORT : 0;
    return way;
}

}  // namespace

int UverbsFile::query_device(UverbsRequest& request) {
    ib_uverbs_query_device core;
    if (!request.take(core)) return -EINVAL;
    const ib_uverbs_query_device_resp attributes = device_attributes(device_);
    if (const int error = request.room(sizeof(attributes)); error != 0) return error;
    request.reply(attributes);
    return 0;
}

int UverbsFile::query_device_ex(UverbsRequest& request) {
    ib_uverbs_ex_query_device core;
    if (!request.take(core)) return -EINVAL;
    if (core.comp_mask != 0 || core.reserved != 0) return -EINVAL;
    ib_uverbs_ex_query_device_resp attributes{};
    constexpr std::size_t kMinimum = offsetof(ib_uverbs_ex_query_device_resp, odp_caps);
    const std::size_t size = std::min(request.response_size, sizeof(attributes));
    if (const int error = request.room(std::max(size, kMinimum)); error != 0) return error;
    attributes.base = device_attributes(device_);
    attributes.response_length = static_cast<std::uint32_t>(size);
    request.put(&attributes, size);
    return 0;
}

int UverbsFile::query_port(UverbsRequest& request) {
    ib_uverbs_query_port core;
    if (!request.take(core)) return -EINVAL;
    if (core.port_num != 1) return -EINVAL;
    if (const int error = request.room(sizeof(ib_uverbs_query_port_resp)); error != 0) return error;
    request.reply(port_attributes());
    return 0;
}

int UverbsFile::alloc_pd(UverbsRequest& request) {
    ib_uverbs_alloc_pd core;
    if (!request.take(core)) return -EINVAL;
    ib_uverbs_alloc_pd_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    Share share = Share::take(Kind::kPd);
    if (!share) return -ENOMEM;
    auto pd = std::make_unique<Pd>();
    pd->share = std::move(share);
    pd->handle = made.pd_handle = new_handle();
    pds_.emplace(made.pd_handle, std::move(pd));
    request.reply(made);
    return 0;
}

int UverbsFile::dealloc_pd(UverbsRequest& request) {
    ib_uverbs_dealloc_pd core;
    if (!request.take(core)) return -EINVAL;
    const Pd* pd = find_object(pds_, core.pd_handle);
    if (pd == nullptr) return -EINVAL;
    if (pd->users != 0) return -EBUSY;
    pds_.erase(core.pd_handle);
    return 0;
}

int UverbsFile::reg_mr(UverbsRequest& request) {
    ib_uverbs_reg_mr core;
    swrnic_reg_mr_req driver;
    if (!request.take(core) || !request.take_driver(driver)) return -EINVAL;
    Pd* pd = find_object(pds_, core.pd_handle);
    if (pd == nullptr || driver.stag == 0 || driver.reserved != 0) return -EINVAL;
    if (core.length == 0 || core.length > SWR_MAX_MR_SIZE || core.start + core.length < core.start) return -EINVAL;
    if ((core.access_flags & ~kKnownAccess) != 0) return -EINVAL;
    const bool remote_change = (core.access_flags & (kRemoteWrite | kRemoteAtomic)) != 0;
    if (remote_change && (core.access_flags & kLocalWrite) == 0) return -EINVAL;
    ib_uverbs_reg_mr_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    Share share = Share::take(Kind::kMr);
    if (!share) return -ENOMEM;
    made.mr_handle = new_handle();
    made.lkey = driver.stag;
    made.rkey = driver.stag;
    mrs_.emplace(made.mr_handle, Mr{std::move(share), pd, core.length});
    ++pd->users;
    request.reply(made);
    return 0;
}

int UverbsFile::dereg_mr(UverbsRequest& request) {
    ib_uverbs_dereg_mr core;
    if (!request.take(core)) return -EINVAL;
    const auto it = mrs_.find(core.mr_handle);
    if (it == mrs_.end()) return -EINVAL;
    --it->second.pd->users;
    mrs_.erase(it);
    return 0;
}

// Binding is the provider's business, which no command tells of.
int UverbsFile::alloc_mw(UverbsRequest& request) {
    ib_uverbs_alloc_mw core;
    swrnic_alloc_mw_req driver;
    if (!request.take(core) || !request.take_driver(driver)) return -EINVAL;
    Pd* pd = find_object(pds_, core.pd_handle);
    if (pd == nullptr || driver.stag == 0 || driver.reserved != 0) return -EINVAL;
    if (core.mw_type != kWindowType1 && core.mw_type != kWindowType2) return -EINVAL;
    ib_uverbs_alloc_mw_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    Share share = Share::take(Kind::kMw);
    if (!share) return -ENOMEM;
    made.mw_handle = new_handle();
    made.rkey = driver.stag;
    mws_.emplace(made.mw_handle, Mw{std::move(share), pd});
    ++pd->users;
    request.reply(made);
    return 0;
}

int UverbsFile::dealloc_mw(UverbsRequest& request) {
    ib_uverbs_dealloc_mw core;
    if (!request.take(core)) return -EINVAL;
    const auto it = mws_.find(core.mw_handle);
    if (it == mws_.end()) return -EINVAL;
    --it->second.pd->users;
    mws_.erase(it);
    return 0;
}

int UverbsFile::create_ah(UverbsRequest& request) {
    ib_uverbs_create_ah core;
    if (!request.take(core)) return -EINVAL;
    Pd* pd = find_object(pds_, core.pd_handle);
    const auto way = find_way(core.attr);
    if (pd == nullptr || !way) return -EINVAL;
    ib_uverbs_create_ah_resp made{};
    const bool asks = request.response_size >= sizeof(made) + sizeof(*way);  // a provider that knows no UD does not
    if (const int error = request.room(sizeof(made) + (asks ? sizeof(*way) : 0)); error != 0) return error;
    Share share = Share::take(Kind::kAh);
    if (!share) return -ENOMEM;
    made.ah_handle = new_handle();
    ahs_.emplace(made.ah_handle, Ah{std::move(share), pd});
    ++pd->users;
    request.reply(made);
    if (asks) request.put(&*way, sizeof(*way), sizeof(made));
    return 0;
}

int UverbsFile::destroy_ah(UverbsRequest& request) {
    ib_uverbs_destroy_ah core;
    if (!request.take(core)) return -EINVAL;
    const auto it = ahs_.find(core.ah_handle);
    if (it == ahs_.end()) return -EINVAL;
    --it->second.pd->users;
    ahs_.erase(it);
    return 0;
}

}  // namespace swrnic::shim
