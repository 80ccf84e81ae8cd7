// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "nldev.h"

#include <endian.h>
#include <fmt/core.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "device.h"
#include "device_limits.h"
#include "state.h"
#include "ucma.h"
#include "uverbs.h"
#include "wired.h"

namespace swrnic::shim {
namespace {

constexpr std::uint32_t kPort = 1;

// ---- what is asked

constexpr std::array kNumbers{RDMA_NLDEV_ATTR_DEV_INDEX,  RDMA_NLDEV_ATTR_PORT_INDEX, RDMA_NLDEV_ATTR_RES_LQPN,
                              RDMA_NLDEV_ATTR_RES_CM_IDN, RDMA_NLDEV_ATTR_RES_CQN,    RDMA_NLDEV_ATTR_RES_MRN,
                              RDMA_NLDEV_ATTR_RES_PDN,    RDMA_NLDEV_ATTR_RES_CTXN,   RDMA_NLDEV_ATTR_RES_SRQN};

class Asked {
  public:
    // False where a length is wrong; of kinds that are not known nothing is looked at.
    bool parse(std::span<const std::uint8_t> octets) {
        while (!octets.empty()) {
            nlattr header;
            if (octets.size() < sizeof(header)) return false;
            std::memcpy(&header, octets.data(), sizeof(header));
            if (header.nla_len < sizeof(header) || header.nla_len > octets.size()) return false;
            const std::size_t type = header.nla_type & NLA_TYPE_MASK;
            if (type < values_.size()) values_[type] = octets.subspan(sizeof(header), header.nla_len - sizeof(header));
            octets = octets.subspan(std::min<std::size_t>(NLA_ALIGN(header.nla_len), octets.size()));
        }
        return std::ranges::all_of(kNumbers, [this](auto type) {
            return values_[type].data() == nullptr || values_[type].size() == sizeof(std::uint32_t);
        });
    }
    std::optional<std::uint32_t> number(std::size_t type) const {
        std::uint32_t number = 0;
        if (values_[type].data() == nullptr) return std::nullopt;
        std::memcpy(&number, values_[type].data(), sizeof(number));
        return number;
    }
    // Of at most so many characters before its NUL.
    std::optional<std::string_view> text(std::size_t type, std::size_t most) const {
        const std::string_view all(reinterpret_cast<const char*>(values_[type].data()), values_[type].size());
        const std::size_t end = all.find('\0');
        if (end == std::string_view::npos || end > most) return std::nullopt;
        return all.substr(0, end);
    }
    std::optional<std::uint32_t> device() const {
        const auto index = number(RDMA_NLDEV_ATTR_DEV_INDEX);
        return index && *index < device_count() ? index : std::nullopt;
    }
    bool names_port() const { return number(RDMA_NLDEV_ATTR_PORT_INDEX).has_value(); }
    bool names_no_other_port() const { return number(RDMA_NLDEV_ATTR_PORT_INDEX).value_or(kPort) == kPort; }

  private:
    std::array<std::span<const std::uint8_t>, RDMA_NLDEV_ATTR_MAX> values_{};
};

// ---- devices and ports

NetlinkMessage message(std::uint16_t command, std::uint16_t flags = 0) {
    return {static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)), flags, {}};
}

void put_handle(NetlinkAttributes& out, std::uint32_t device) {
    out.u32(RDMA_NLDEV_ATTR_DEV_INDEX, device);
    out.text(RDMA_NLDEV_ATTR_DEV_NAME, device_name(device));
}

NetlinkMessage device_message(std::uint32_t device, std::uint16_t flags) {
    const ib_uverbs_query_device_resp shown = device_attributes(device);
    NetlinkMessage answer = message(RDMA_NLDEV_CMD_GET, flags);
    NetlinkAttributes& out = answer.attributes;
    put_handle(out, device);
    out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, shown.phys_port_cnt);  // the last port's
    out.u64(RDMA_NLDEV_ATTR_CAP_FLAGS, shown.device_cap_flags);
    out.text(RDMA_NLDEV_ATTR_FW_VERSION, kFirmware);
    out.u64(RDMA_NLDEV_ATTR_NODE_GUID, be64toh(shown.node_guid));
    out.u64(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, be64toh(shown.sys_image_guid));
    out.u8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, node_type());
    out.u8(RDMA_NLDEV_ATTR_DEV_DIM, 0);  // nothing moderates interrupts: there are none
    out.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, persona() == Persona::kRoce ? "roce" : "iw");
    return answer;
}

// A kernel's answer to one question of this kind calls itself RDMA_NLDEV_CMD_GET.
NetlinkMessage port_message(std::uint32_t device, std::uint16_t flags) {
    NetlinkMessage answer = message(flags == 0 ? RDMA_NLDEV_CMD_GET : RDMA_NLDEV_CMD_PORT_GET, flags);
    NetlinkAttributes& out = answer.attributes;
    const ib_uverbs_query_port_resp shown = port_attributes();
    put_handle(out, device);
    out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
    out.u8(RDMA_NLDEV_ATTR_PORT_STATE, shown.state);
    out.u8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, shown.phys_state);
    const std::string interface = gid_table().front().netdev;
    if (const unsigned index = if_nametoindex(interface.c_str()); index != 0) {
        out.u32(RDMA_NLDEV_ATTR_NDEV_INDEX, index);
        out.text(RDMA_NLDEV_ATTR_NDEV_NAME, interface);
    }
    return answer;
}

// As the kernel packs a device number: the upper bits of the minor stand above the major.
std::uint64_t huge_device(std::uint32_t major, std::uint32_t minor) {
    return (minor & 0xffu) | std::uint64_t{major} << 8 | std::uint64_t{minor & ~0xffu} << 12;
}

int get_character_device(const Asked& asked, std::vector<NetlinkMessage>& answers) {
    constexpr std::size_t kMaxType = 32;  // the kernel's
    const auto type = asked.text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, kMaxType);
    const auto device = asked.device();
    if (!type || (asked.number(RDMA_NLDEV_ATTR_DEV_INDEX) && !device) || (asked.names_port() && !device) ||
        !asked.names_no_other_port())
        return -EINVAL;
    NetlinkMessage answer = message(RDMA_NLDEV_CMD_GET_CHARDEV);
    NetlinkAttributes& out = answer.attributes;
    if (*type == "uverbs" && device) {
        out.u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, SWRNIC_DRIVER_ID);
        out.u64(RDMA_NLDEV_ATTR_CHARDEV, huge_device(kUverbsMajor, kUverbsMinor + *device));
        out.u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, SWRNIC_ABI_IN_SYSFS);
        out.text(RDMA_NLDEV_ATTR_CHARDEV_NAME, fmt::format("uverbs{}", *device));
    } else if (*type == "rdma_cm") {
        out.u64(RDMA_NLDEV_ATTR_CHARDEV, huge_device(kRdmaCmMajor, kRdmaCmMinor));
        out.u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, RDMA_USER_CM_ABI_VERSION);
        out.text(RDMA_NLDEV_ATTR_CHARDEV_NAME, "rdma_cm");
    } else {
        return -EOPNOTSUPP;  // umad: there is no management datagram to send; uverbs without a device
    }
    answers.push_back(std::move(answer));
    return 0;
}

void get_system(std::vector<NetlinkMessage>& answers) {
    NetlinkMessage answer = message(RDMA_NLDEV_CMD_SYS_GET);
    answer.attributes.u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);  // each namespace sees the device, with its own addresses
    answer.attributes.u8(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
    answers.push_back(std::move(answer));
}

// ---- resources

struct Entry {
    std::uint32_t number;
    bool on_port;
    NetlinkAttributes attributes;
};
using Entries = std::vector<Entry>;

void put_owner(NetlinkAttributes& out) {
    out.u32(RDMA_NLDEV_ATTR_RES_PID, static_cast<std::uint32_t>(sys::getpid()));
}

template <typename Object>
const Object& object_of(const std::unique_ptr<Object>& owner) {
    return *owner;
}
const Mr& object_of(const Mr& mr) {
    return mr;
}

// An entry for each of a context's objects, by its handle.
template <typename Map, typename Fill>
void add_each(Entries& entries, const Map& objects, const Fill& fill) {
    for (const auto& [handle, object] : objects) {
        Entry entry{handle, false, {}};
        fill(entry, object_of(object));
        put_owner(entry.attributes);
        entries.push_back(std::move(entry));
    }
}

void add_contexts(Entries& entries, const UverbsFile& context) {
    Entry entry{context.number(), false, {}};
    entry.attributes.u32(RDMA_NLDEV_ATTR_RES_CTXN, context.number());
    put_owner(entry.attributes);
    entries.push_back(std::move(entry));
}

void add_pds(Entries& entries, const UverbsFile& context) {
    add_each(entries, context.pds(), [&](Entry& entry, const Pd& pd) {
        entry.attributes.u64(RDMA_NLDEV_ATTR_RES_USECNT, pd.users);
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_PDN, entry.number);
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_CTXN, context.number());
    });
}

void add_mrs(Entries& entries, const UverbsFile& context) {
    add_each(entries, context.mrs(), [](Entry& entry, const Mr& mr) {
        entry.attributes.u64(RDMA_NLDEV_ATTR_RES_MRLEN, mr.length);
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_MRN, entry.number);
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_PDN, mr.pd->handle);
    });
}

void add_cqs(Entries& entries, const UverbsFile& context) {
    add_each(entries, context.cqs(), [&](Entry& entry, const Cq& cq) {
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_CQE, cq.cqe);
        entry.attributes.u64(RDMA_NLDEV_ATTR_RES_USECNT, cq.users);
        entry.attributes.u8(RDMA_NLDEV_ATTR_DEV_DIM, 0);
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_CQN, entry.number);
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_CTXN, context.number());
    });
}

// Numbers that follow each other are one entry.
NetlinkAttributes queue_pairs_of(const UverbsFile& context, const Srq& srq) {
    std::vector<std::uint32_t> numbers;
    for (const auto& [handle, qp] : context.qps()) {
        if (qp->srq == &srq) numbers.push_back(qp->qpn);
    }
    std::ranges::sort(numbers);
    NetlinkAttributes table;
    for (std::size_t i = 0; i < numbers.size();) {
        const std::uint32_t first = numbers[i];
        std::uint32_t last = first;
        while (++i < numbers.size() && numbers[i] == last + 1)
            ++last;
        NetlinkAttributes range;
        if (first == last) {
            range.u32(RDMA_NLDEV_ATTR_RES_LQPN, first);
        } else {
            range.u32(RDMA_NLDEV_ATTR_MIN_RANGE, first);
            range.u32(RDMA_NLDEV_ATTR_MAX_RANGE, last);
        }
        table.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, range);
    }
    return table;
}

void add_srqs(Entries& entries, const UverbsFile& context) {
    constexpr std::uint8_t kBasic = 0;                               // enum ib_srq_type
    constexpr std::size_t kMostOfThem = kMaxNetlinkMessage * 3 / 4;  // a longer list of its QPs is left out
    add_each(entries, context.srqs(), [&](Entry& entry, const Srq& srq) {
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_SRQN, entry.number);
        entry.attributes.u8(RDMA_NLDEV_ATTR_RES_TYPE, kBasic);
        entry.attributes.u32(RDMA_NLDEV_ATTR_RES_PDN, srq.pd->handle);
        const NetlinkAttributes queue_pairs = queue_pairs_of(context, srq);
        if (queue_pairs.size() <= kMostOfThem) entry.attributes.nest(RDMA_NLDEV_ATTR_RES_QP, queue_pairs);
    });
}

void put_on_port(Entry& entry, bool on_port) {
    entry.on_port = on_port;
    if (on_port) entry.attributes.u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
}

void add_qps(Entries& entries, const UverbsFile& context) {
    constexpr std::uint8_t kReset = 0, kMigrated = 0;  // enum ib_qp_state, ib_mig_state
    add_each(entries, context.qps(), [](Entry& entry, const Qp& qp) {
        const bool has_peer = qp.type != kQptUd;
        NetlinkAttributes& out = entry.attributes;
        entry.number = qp.qpn;
        put_on_port(entry, qp.state != kReset);
        out.u32(RDMA_NLDEV_ATTR_RES_LQPN, qp.qpn);
        out.u32(RDMA_NLDEV_ATTR_RES_PDN, qp.pd->handle);
        if (has_peer) {
            out.u32(RDMA_NLDEV_ATTR_RES_RQPN, qp.wired != nullptr ? qp.wired->peer_qpn() : 0);
            out.u32(RDMA_NLDEV_ATTR_RES_RQ_PSN, qp.rq_psn);
        }
        out.u32(RDMA_NLDEV_ATTR_RES_SQ_PSN, qp.sq_psn);
        if (has_peer) out.u8(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, kMigrated);
        out.u8(RDMA_NLDEV_ATTR_RES_TYPE, qp.type);
        out.u8(RDMA_NLDEV_ATTR_RES_STATE, qp.state);
    });
}

// enum rdma_cm_state, which is the kernel's own.
std::uint8_t state_of(const CmId& id) {
    enum : std::uint8_t { kIdle, kAddrResolved = 2, kRouteResolved = 4, kConnect, kDisconnect, kAddrBound, kListen };
    switch (id.state) {
        case CmState::kIdle:
            return kIdle;
        case CmState::kBound:
            return kAddrBound;
        case CmState::kAddrResolved:
            return kAddrResolved;
        case CmState::kRouteResolved:
            return kRouteResolved;
        case CmState::kListening:
            return kListen;
        case CmState::kConnecting:
        case CmState::kResponded:
        case CmState::kRequested:
        case CmState::kAccepting:
        case CmState::kEstablished:
            return kConnect;
        case CmState::kDisconnecting:
        case CmState::kOver:
            break;
    }
    return kDisconnect;
}

void put_address(NetlinkAttributes& out, std::uint16_t type, const Address& address) {
    if (address.empty()) return;
    sockaddr_storage storage{};
    std::memcpy(&storage, address.get(), address.size());
    out.put(type, &storage, sizeof(storage));
}

// Those that have chosen a device, which is the first one, or listen for all.
void add_cm_ids(Entries& entries, Locked& locked) {
    for (const auto& [handle, id] : locked->cm_ids) {
        if (!id->on_device && id->state != CmState::kListening) continue;
        Entry entry{handle, false, {}};
        NetlinkAttributes& out = entry.attributes;
        put_on_port(entry, id->on_device);
        if (id->qpn != 0) {
            out.u32(RDMA_NLDEV_ATTR_RES_LQPN, id->qpn);
            out.u8(RDMA_NLDEV_ATTR_RES_TYPE, id->is_for_datagrams() ? kQptUd : kQptRc);
        }
        out.u32(RDMA_NLDEV_ATTR_RES_PS, id->port_space);
        out.u8(RDMA_NLDEV_ATTR_RES_STATE, state_of(*id));
        put_address(out, RDMA_NLDEV_ATTR_RES_SRC_ADDR, id->local);
        put_address(out, RDMA_NLDEV_ATTR_RES_DST_ADDR, id->peer);
        out.u32(RDMA_NLDEV_ATTR_RES_CM_IDN, handle);
        put_owner(out);
        entries.push_back(std::move(entry));
    }
}

struct Kind {
    std::uint16_t command;
    std::string name;
    std::uint16_t table, entry, number;
    bool of_a_port;  // the kernel asks for one, where an entry is asked for by its number, or wants none
    void (*add)(Entries&, const UverbsFile&);  // null: ids of rdma_cm
};

// In the order of the summary, which is enum rdma_restrack_type's.
const std::array<Kind, 7>& kinds() {
    static const std::array<Kind, 7> all{{
        {RDMA_NLDEV_CMD_RES_PD_GET, "pd", RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY, RDMA_NLDEV_ATTR_RES_PDN,
         false, add_pds},
        {RDMA_NLDEV_CMD_RES_CQ_GET, "cq", RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY, RDMA_NLDEV_ATTR_RES_CQN,
         false, add_cqs},
        {RDMA_NLDEV_CMD_RES_QP_GET, "qp", RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
         RDMA_NLDEV_ATTR_RES_LQPN, true, add_qps},
        {RDMA_NLDEV_CMD_RES_CM_ID_GET, "cm_id", RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
         RDMA_NLDEV_ATTR_RES_CM_IDN, true, nullptr},
        {RDMA_NLDEV_CMD_RES_MR_GET, "mr", RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY, RDMA_NLDEV_ATTR_RES_MRN,
         false, add_mrs},
        {RDMA_NLDEV_CMD_RES_CTX_GET, "ctx", RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
         RDMA_NLDEV_ATTR_RES_CTXN, false, add_contexts},
        {RDMA_NLDEV_CMD_RES_SRQ_GET, "srq", RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
         RDMA_NLDEV_ATTR_RES_SRQN, false, add_srqs},
    }};
    return all;
}

Entries entries_of(Locked& locked, const Kind& kind, std::uint32_t device) {
    Entries entries;
    if (kind.add == nullptr) {
        if (device == 0) add_cm_ids(entries, locked);
    } else {
        for (const auto& file : locked->fds.all(locked)) {
            const auto* const context = dynamic_cast<const UverbsFile*>(file.get());
            if (context != nullptr && context->number() != 0 && context->device() == device)
                kind.add(entries, *context);
        }
    }
    std::ranges::sort(entries, {}, &Entry::number);
    return entries;
}

NetlinkMessage summary_message(Locked& locked, std::uint32_t device, std::uint16_t flags) {
    NetlinkMessage answer = message(RDMA_NLDEV_CMD_RES_GET, flags);
    put_handle(answer.attributes, device);
    NetlinkAttributes table;
    for (const Kind& kind : kinds()) {
        NetlinkAttributes entry;
        entry.text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kind.name);
        entry.u64(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, entries_of(locked, kind, device).size());
        table.nest(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, entry);
    }
    answer.attributes.nest(RDMA_NLDEV_ATTR_RES_SUMMARY, table);
    return answer;
}

int list_resources(Locked& locked, const Asked& asked, const Kind& kind, std::vector<NetlinkMessage>& answers) {
    const auto device = asked.device();
    if (!device || !asked.names_no_other_port()) return -EINVAL;
    NetlinkAttributes table;
    const auto send_table = [&] {
        NetlinkMessage answer = message(kind.command, NLM_F_MULTI);
        put_handle(answer.attributes, *device);
        answer.attributes.nest(kind.table, table);
        answers.push_back(std::move(answer));
        table = {};
    };
    constexpr std::size_t kHead = 64;  // of a message, before its table
    for (const Entry& entry : entries_of(locked, kind, *device)) {
        if (kind.of_a_port && asked.names_port() && !entry.on_port) continue;
        if (kHead + table.size() + NLA_HDRLEN + entry.attributes.size() > kMaxNetlinkMessage) send_table();
        table.nest(kind.entry, entry.attributes);
    }
    if (table.size() != 0) send_table();
    return 0;
}

int get_resource(Locked& locked, const Asked& asked, const Kind& kind, std::vector<NetlinkMessage>& answers) {
    const auto device = asked.device();
    const auto number = asked.number(kind.number);
    if (!device || !number || asked.names_port() != kind.of_a_port || !asked.names_no_other_port()) return -EINVAL;
    const Entries entries = entries_of(locked, kind, *device);
    const auto it = std::ranges::find(entries, *number, &Entry::number);
    if (it == entries.end()) return -ENOENT;
    if (kind.of_a_port && !it->on_port) return -EAGAIN;  // the kernel's word for it
    NetlinkMessage answer = message(kind.command);
    put_handle(answer.attributes, *device);
    answer.attributes.append(it->attributes);
    answers.push_back(std::move(answer));
    return 0;
}

// Of one device, or of all.
template <typename Make>
int for_devices(const Asked& asked, bool all, std::vector<NetlinkMessage>& answers, const Make& make) {
    if (!all) {
        const auto device = asked.device();
        if (!device) return -EINVAL;
        answers.push_back(make(*device, std::uint16_t{0}));
        return 0;
    }
    for (std::uint32_t device = 0; device < device_count(); ++device)
        answers.push_back(make(device, std::uint16_t{NLM_F_MULTI}));
    return 0;
}

int answer_command(Locked& locked, std::uint16_t command, bool list, const Asked& asked,
                   std::vector<NetlinkMessage>& answers) {
    switch (command) {
        case RDMA_NLDEV_CMD_GET:
            return for_devices(asked, list, answers, device_message);
        case RDMA_NLDEV_CMD_PORT_GET: {
            const auto device = asked.device();
            if (!device || (!list && !asked.names_port()) || !asked.names_no_other_port()) return -EINVAL;
            answers.push_back(port_message(*device, list ? NLM_F_MULTI : 0));
            return 0;
        }
        case RDMA_NLDEV_CMD_RES_GET:
            return for_devices(asked, list, answers, [&](std::uint32_t device, std::uint16_t flags) {
                return summary_message(locked, device, flags);
            });
        case RDMA_NLDEV_CMD_GET_CHARDEV:
            return list ? -EINVAL : get_character_device(asked, answers);
        case RDMA_NLDEV_CMD_SYS_GET:
            if (list) return -EINVAL;
            get_system(answers);
            return 0;
        case RDMA_NLDEV_CMD_SET:
        case RDMA_NLDEV_CMD_NEWLINK:
        case RDMA_NLDEV_CMD_DELLINK:
        case RDMA_NLDEV_CMD_SYS_SET:
        case RDMA_NLDEV_CMD_STAT_SET:
        case RDMA_NLDEV_CMD_STAT_DEL:
            return -EOPNOTSUPP;  // settings of ours are the environment's
        default:
            break;
    }
    const auto kind = std::ranges::find(kinds(), command, &Kind::command);
    if (kind == kinds().end()) return -EINVAL;
    return list ? list_resources(locked, asked, *kind, answers) : get_resource(locked, asked, *kind, answers);
}

}  // namespace

int answer_nldev(Locked& locked, const nlmsghdr& request, std::span<const std::uint8_t> attributes,
                 std::vector<NetlinkMessage>& answers) {
    Asked asked;
    if (RDMA_NL_GET_CLIENT(request.nlmsg_type) != RDMA_NL_NLDEV || !asked.parse(attributes)) return -EINVAL;
    const auto command = static_cast<std::uint16_t>(RDMA_NL_GET_OP(request.nlmsg_type));
    return answer_command(locked, command, (request.nlmsg_flags & NLM_F_DUMP) != 0, asked, answers);
}

}  // namespace swrnic::shim
