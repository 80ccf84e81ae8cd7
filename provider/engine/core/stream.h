// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What RX and TX share of the stream that they receive from and send to.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/core/transport.h"
#include "engine/core/types.h"

namespace swrnic::engine {

// What a wired QP says in front of its Sends: how often it would come again where there is no receive (ibv_qp_attr's
// rnr_retry). An empty Write, which places nothing at whoever does not know it: this STag, and the number for a TO.
namespace rnr_notice {
inline constexpr std::uint32_t kStag = 0x53574e52;  // "SWNR"
inline constexpr std::uint8_t kForEver = 7;
}  // namespace rnr_notice

namespace rtr {  // SWRNIC_RTR_*
inline constexpr std::uint8_t kSend = 1, kWrite = 2, kRead = 4;
}

struct Stream {
    StreamParameters parameters{};
    std::unique_ptr<Transport> transport;  // while there is a stream
    std::atomic<bool> fenced{false};       // Responder before the first valid FPDU (MPA-25)
    bool unreliable = false;               // of the QP, for good: QpInit
};

}  // namespace swrnic::engine
