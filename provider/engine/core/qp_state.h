// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The QP's states and what moves it between them: one table (spec VERBS-20 to 26), one place that changes the state
// (Qp::apply).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/core/types.h"

namespace swrnic::engine {

inline constexpr std::size_t kQpStates = 7;

enum class QpEvent : std::uint8_t {
    kToReset,     // user: modify_qp(RESET)
    kToInit,      // user: modify_qp(INIT)
    kToRtr,       // user: modify_qp(RTR)
    kToRts,       // user: modify_qp(RTS): true only when it is so already (VERBS-21)
    kToRtsWired,  // the same of a QP that is wired by hand, from RTR or SQD
    kToSqdWired,  // user, of a wired QP: modify_qp(SQD)
    kConnected,   // MPA startup has finished
    kDisconnect,  // user or connection manager: end gracefully (modify_qp(SQD))
    kPeerFin,     // the peer has finished sending, at an FPDU boundary
    kFault,       // local or protocol error, Terminate received, modify_qp(SQE)
    kAbort,       // user: modify_qp(ERR); connection lost
    kEnded,       // the stream is gone
};
inline constexpr std::size_t kQpEvents = 12;

// What an event does in a state: the next state, nothing, or refusal.
struct QpTransition {
    enum Kind : std::uint8_t { kRefused, kStays, kMoves } kind;
    QpState next;
};

QpTransition qp_transition(QpState state, QpEvent event);

std::string_view name(QpState state);
std::string_view name(QpEvent event);

}  // namespace swrnic::engine
