// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What stands behind the ibv_* pointers of this provider: libibverbs' struct first, our own part after it.
//
// An object is made and freed by its verbs; libibverbs and the application only borrow it. Calls on one object may come
// from several threads; destruction races with nothing (the verbs API's rule).
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "fork.h"
#include "provider-abi.h"

namespace swrnic::verbs {

class ContextState;

// The end of what libibverbs calloc()s, and free() frees: in front of it lies the rest of a verbs_context. Hence the
// pointer to all that has a constructor.
struct Context {
    ibv_context base;
    ContextState* state;
};

struct Td {
    ibv_td base;
    std::atomic<std::uint32_t> users;  // parent domains
};

struct Pd {
    ibv_pd base;
    std::atomic<std::uint32_t> users;  // parent domains of this one
    Pd* parent_of;                     // a parent domain's protection domain, whose handle it bears
    Td* thread_domain;                 // of a parent domain; may be null
};

struct Mr {
    verbs_mr base;
    std::uint64_t hca_va;
    unsigned access;
};

struct CqEx {
    std::mutex mutex;  // from start_poll() to end_poll()
    engine::WorkCompletion current;
    std::optional<ExtendedObject> in_child;
};

struct Cq {
    verbs_cq base;
    engine::Engine* engine;
    engine::Cq* impl;
    std::unique_ptr<CqEx> ex;  // of ibv_create_cq_ex() alone
};

struct Ah {
    ibv_ah base;
    engine::DatagramPath path;
};

struct Srq {
    ibv_srq base;
    engine::Engine* engine;
    engine::Srq* impl;
    std::uint32_t max_sge;  // as granted
};

// What a request of a UD QP has beyond the others.
struct DatagramTo {
    ibv_ah* ah;
    std::uint32_t qpn, q_key;
    std::uint32_t imm_data;
    bool has_imm;
};

// What ibv_wr_start() begins and ibv_wr_complete() posts.
struct QpEx {
    struct Request {
        engine::SendWr wr;
        std::size_t first_sge, sges;
        DatagramTo to{};  // of a UD QP
    };
    std::mutex mutex;  // from start to complete or abort
    int error;
    std::vector<Request> requests;
    std::vector<engine::Sge> sges;  // with inline data: addr is the offset in data
    std::vector<std::byte> data;
    std::vector<engine::SendWr> posted;
    std::optional<ExtendedObject> in_child;
};

struct Qp {
    abi::QueuePair base;
    engine::Engine* engine;
    engine::Qp* impl;               // null: a UD QP
    engine::DatagramQp* datagrams;  // of a UD QP, else null
    ibv_qp_cap cap;                 // as granted
    bool sq_sig_all;
    std::atomic<std::uint8_t> ird, ord;  // asked for by modify_qp
    std::atomic<unsigned> access;        // the same
    ibv_qp_attr wiring;                  // of one that is wired by hand, or UD: what modify_qp set, for query_qp
    std::unique_ptr<QpEx> ex;            // with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS alone
};

inline Context& to_context(ibv_context* context) {
    return *reinterpret_cast<Context*>(context);
}
inline ContextState& to_state(ibv_context* context) {
    return *to_context(context).state;
}
inline Pd& to_pd(ibv_pd* pd) {
    return *reinterpret_cast<Pd*>(pd);
}
inline bool is_parent_domain(ibv_pd* pd) {
    return pd != nullptr && to_pd(pd).parent_of != nullptr;
}
inline Mr& to_mr(verbs_mr* mr) {
    return *reinterpret_cast<Mr*>(mr);
}
inline Cq& to_cq(ibv_cq* cq) {
    return *reinterpret_cast<Cq*>(cq);
}
inline Ah& to_ah(ibv_ah* ah) {
    return *reinterpret_cast<Ah*>(ah);
}
inline Srq& to_srq(ibv_srq* srq) {
    return *reinterpret_cast<Srq*>(srq);
}
inline Qp& to_qp(ibv_qp* qp) {
    return *reinterpret_cast<Qp*>(qp);
}

constexpr unsigned kSendFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

inline int to_errno(engine::PostResult result) {
    switch (result) {
        case engine::PostResult::kOk:
            return 0;
        case engine::PostResult::kFull:
            return ENOMEM;
        case engine::PostResult::kBadState:
        case engine::PostResult::kInvalid:
            return EINVAL;
        case engine::PostResult::kNotAgreed:
            return EOPNOTSUPP;
    }
    return EINVAL;
}

// Two regions and a QP share a domain if these numbers are equal; never 0 (engine.h).
inline std::uint32_t domain_of(const ibv_pd& pd) {
    return pd.handle + 1;
}

}  // namespace swrnic::verbs
