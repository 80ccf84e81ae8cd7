// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections of rdma_cm without a stream (docs/PROTOCOL.md, "Control connections"): what the two ends tell each other.
// In the persona roce a program connects an id without a QP of librdmacm's, and wires its QPs itself.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "startup.h"

namespace swrnic::shim {

// What InfiniBand's REQ and REP hold beside the program's private data.
struct ControlHello {
    std::uint32_t qpn;
    std::uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, flow_control, srq;

    static ControlHello of(const rdma_ucm_conn_param& conn);
    // none: it is no frame of a control connection. said becomes the program's part.
    static std::optional<ControlHello> take(PrivateData& said);
    // The whole private data of the frame.
    std::vector<std::uint8_t> with(PrivateData said) const;
    // As the peer of whoever said it has them: what one end may have outstanding the other must hold.
    void show(rdma_ucm_conn_param& conn) const;
    // What the kernel's ib_cm tells for RTR and RTS of the QP that the program wires.
    void fill(ib_uverbs_qp_attr& attr, const Address& local, const Address& peer) const;
};

Startup::Terms control_terms(PrivateData said);

}  // namespace swrnic::shim
