// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/reads.h"

#include <algorithm>

#include "engine/core/stream.h"

namespace swrnic::engine {

void ReadState::start(const StreamParameters& parameters) {
    depth_ = std::max<std::uint32_t>(parameters.ird, (parameters.rtr & rtr::kRead) != 0 ? 1 : 0);
    irq.resize(depth_ * 2);
    responses_given = 0;
    answered = 0;
    orq.resize(std::max<std::uint32_t>(parameters.ord, 1));  // an RTR by Read is allowed one whatever the ORD (MPA-51)
}

MemoryError ReadState::check_source(const wire::ReadRequest& request) const {
    const MemoryError error =
        memory_.look_up(pd_, request.source_stag, request.source_to, request.size, access::kRemoteRead, qpn_).error;
    if (error == MemoryError::kForeign) return MemoryError::kNone;  // found out when it is sent, the QP's grant too
    if (error == MemoryError::kInvalidStag || error == MemoryError::kWrongPd) return error;
    return (status_.access() & access::kRemoteRead) == 0 ? MemoryError::kAccess : error;
}

MemoryView ReadState::find_target(const wire::AtomicRequest& request) const {
    MemoryView view =
        memory_.look_up(pd_, request.stag, request.to, sizeof(std::uint64_t), access::kRemoteAtomic, qpn_);
    if (view.error == MemoryError::kInvalidStag || view.error == MemoryError::kWrongPd) return view;
    if ((status_.access() & access::kRemoteAtomic) == 0) view.error = MemoryError::kAccess;
    // A region may lie elsewhere than its Tagged Offsets say.
    const bool aligned = reinterpret_cast<std::uintptr_t>(view.data) % sizeof(std::uint64_t) == 0;
    if (view.error == MemoryError::kNone && !aligned) view.error = MemoryError::kMisaligned;
    return view;
}

}  // namespace swrnic::engine
