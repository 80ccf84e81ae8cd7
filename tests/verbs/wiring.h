// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pairs wired by hand, and where programs differ as they do it.
#pragma once

#include <dirent.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device.h"

namespace swrnic::test {

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask =
    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// What a program chooses. A peer is given up after 4.096 us * 2^timeout * retry_count.
struct Wiring {
    int gid_index = 0;
    ibv_mtu path_mtu = IBV_MTU_1024;
    std::uint8_t rd_atomic = 16;
    std::uint8_t timeout = 14;
    std::uint8_t retry_count = 7;
    int access = kAllAccess;
    int rts_mask = kRtsMask;
};

// What a program tells its peer of a QP.
struct WiredEnd {
    ibv_gid gid;
    std::uint32_t qpn;
};

inline ibv_gid gid_at(ibv_context* context, int index) {
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(context, 1, index, &gid), 0);
    return gid;
}

inline bool is_ipv4(const ibv_gid& gid) {
    return IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(gid.raw)) != 0;
}

// The first IPv4 address behind index 0, as most programs choose.
inline int ipv4_index(ibv_context* context) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    int index = 1;
    while (index < port.gid_tbl_len && !is_ipv4(gid_at(context, index)))
        ++index;
    EXPECT_LT(index, port.gid_tbl_len) << "no GID of an IPv4 address";
    return index;
}

// The state, and what programs leave in all that is outside the mask.
inline ibv_qp_attr attributes(ibv_qp_state state) {
    ibv_qp_attr attr;
    std::memset(&attr, 0xa5, sizeof attr);
    attr.qp_state = state;
    return attr;
}

inline int to_reset(ibv_qp* qp) {
    ibv_qp_attr attr = attributes(IBV_QPS_RESET);
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

inline int to_init(ibv_qp* qp, const Wiring& chosen) {
    ibv_qp_attr attr = attributes(IBV_QPS_INIT);
    attr.pkey_index = 0;
    attr.port_num = 1;
    attr.qp_access_flags = static_cast<unsigned>(chosen.access);
    return ibv_modify_qp(qp, &attr, kInitMask);
}

inline int to_rtr(ibv_qp* qp, const Wiring& chosen, const WiredEnd& peer) {
    ibv_qp_attr attr = attributes(IBV_QPS_RTR);
    attr.path_mtu = chosen.path_mtu;
    attr.dest_qp_num = peer.qpn;
    attr.rq_psn = 7;
    attr.max_dest_rd_atomic = chosen.rd_atomic;
    attr.min_rnr_timer = 12;
    attr.ah_attr = {};
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(chosen.gid_index);
    attr.ah_attr.grh.hop_limit = 1;
    return ibv_modify_qp(qp, &attr, kRtrMask);
}

inline int to_rts(ibv_qp* qp, const Wiring& chosen) {
    ibv_qp_attr attr = attributes(IBV_QPS_RTS);
    if ((chosen.rts_mask & IBV_QP_TIMEOUT) != 0) attr.timeout = chosen.timeout;
    attr.retry_cnt = chosen.retry_count;
    attr.rnr_retry = 7;
    attr.sq_psn = 7;
    attr.max_rd_atomic = chosen.rd_atomic;
    return ibv_modify_qp(qp, &attr, chosen.rts_mask);
}

// From INIT; the error of the first step that fails.
inline int to_rtr_and_rts(ibv_qp* qp, const Wiring& chosen, const WiredEnd& peer) {
    const int error = to_rtr(qp, chosen, peer);
    return error != 0 ? error : to_rts(qp, chosen);
}

// From RESET.
inline int wire(ibv_qp* qp, const Wiring& chosen, const WiredEnd& peer) {
    const int error = to_init(qp, chosen);
    return error != 0 ? error : to_rtr_and_rts(qp, chosen, peer);
}

// What the end that calls says first (docs/PROTOCOL.md, "Wired queue pairs").
inline std::string wired_request(const WiredEnd& caller, const WiredEnd& called, char version = 1) {
    std::string said("SWQP", 4);
    said += version;
    said.append(3, '\0');
    for (const WiredEnd& end : {caller, called}) {
        said.append(reinterpret_cast<const char*>(end.gid.raw), sizeof end.gid.raw);
        const std::uint32_t in_order = htonl(end.qpn);
        said.append(reinterpret_cast<const char*>(&in_order), sizeof in_order);
    }
    const std::string head{'\0', '\1', '\0', static_cast<char>(said.size())};  // no flags, revision, length
    return "MPA ID Req Frame" + head + said;
}

inline std::size_t open_descriptors() {
    std::size_t count = 0;
    DIR* dir = opendir("/proc/self/fd");
    while (readdir(dir) != nullptr)
        ++count;
    closedir(dir);
    return count;
}

// What one process has of a wired connection.
struct Station {
    // Of memory that is the caller's.
    bool open(void* memory, std::size_t size) {
        context = open_device();
        if (!context) return false;
        pd.reset(ibv_alloc_pd(context.get()));
        cq.reset(ibv_create_cq(context.get(), 64, nullptr, nullptr, 0));
        region.reset(ibv_reg_mr(pd.get(), memory, size, kAllAccess));
        chosen.gid_index = ipv4_index(context.get());
        return region && make_qp();
    }
    bool make_qp() {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq.get();
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        qp.reset(ibv_create_qp(pd.get(), &attr));
        return qp != nullptr;
    }
    WiredEnd end() const { return {gid_at(context.get(), chosen.gid_index), qp->qp_num}; }

    ContextPtr context;
    PdPtr pd;
    CqPtr cq;
    MrPtr region;
    QpPtr qp;
    Wiring chosen{.timeout = 18};
};

// The long runs (scripts/test --full) take the second. ThreadSanitizer, under which a round takes ten times as long,
// sees a race though the rounds are few.
inline int rounds(int quick, int full) {
#ifdef __SANITIZE_THREAD__
    quick /= 10;
#endif
    return std::getenv("LONG_RUN") == nullptr ? quick : full;
}

}  // namespace swrnic::test
