// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The first error of a stream: what goes out, and which request it hits. Everything else is flushed (VERBS-19).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/core/types.h"
#include "wire/terminate.h"

namespace swrnic::engine {

struct Fault {
    std::optional<wire::TerminateCode> code;  // of the Terminate sent or received; shown as vendor_err
    std::array<std::byte, wire::kMaxTerminateUlpdu> terminate{};  // ULPDU to send
    std::size_t terminate_len = 0;                                // 0: none to send
    bool received = false;                                        // the peer's, not ours
    std::optional<std::uint64_t> send_index;                      // the request of the send queue that failed
    WcStatus send_status = WcStatus::kWrFlushErr;
    WcStatus recv_status = WcStatus::kWrFlushErr;  // of the oldest receive
    std::optional<AsyncEvent> event;
    bool spares_qp = false;  // the peer's to suffer from: the stream ends, and the QP stays in its state

    std::uint32_t vendor_err() const { return code ? code->packed() : 0; }

    // A fault that is answered with a Terminate, which quotes `offending` as far as the code's rule wants it.
    static Fault answered(wire::TerminateCode code, AsyncEvent event, std::span<const std::byte> offending = {},
                          std::size_t segment_len = 0) {
        Fault fault;
        fault.code = code;
        fault.event = event;
        fault.terminate_len = wire::build_terminate(code, offending, segment_len, fault.terminate);
        return fault;
    }
};

}  // namespace swrnic::engine
