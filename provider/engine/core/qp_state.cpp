// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/qp_state.h"

namespace swrnic::engine {

namespace {

constexpr QpTransition no() {
    return {QpTransition::kRefused, QpState::kReset};
}
constexpr QpTransition stay() {
    return {QpTransition::kStays, QpState::kReset};
}
constexpr QpTransition go(QpState next) {
    return {QpTransition::kMoves, next};
}

using Row = std::array<QpTransition, kQpEvents>;

constexpr QpState kReset = QpState::kReset, kInit = QpState::kInit, kRtr = QpState::kRtr, kRts = QpState::kRts,
                  kSqd = QpState::kSqd, kSqe = QpState::kSqe, kErr = QpState::kErr;

// A graceful end that comes once more, or late, does no harm (VERBS-55). ERROR is what a closed QP shows until the user
// resets it (VERBS-56).
// clang-format off
constexpr std::array<Row, kQpStates> kTable{{
    //          ToReset     ToInit     ToRtr     ToRts   ToRtsWired ToSqdWired Connected  Disconnect PeerFin   Fault     Abort     Ended
    /* RESET */ {stay(),    go(kInit), no(),     no(),   no(),      no(),      no(),      no(),      no(),     no(),     go(kErr), no()},
    /* INIT  */ {go(kReset), stay(),   go(kRtr), no(),   no(),      no(),      go(kRts),  no(),      no(),     no(),     go(kErr), no()},
    /* RTR   */ {go(kReset), no(),     stay(),   no(),   go(kRts),  no(),      go(kRts),  no(),      no(),     go(kSqe), go(kErr), go(kErr)},
    /* RTS   */ {no(),      no(),      no(),     stay(), stay(),    go(kSqd),  no(),      go(kSqd),  go(kSqd), go(kSqe), go(kErr), go(kErr)},
    /* SQD   */ {no(),      no(),      no(),     no(),   go(kRts),  stay(),    no(),      stay(),    stay(),   go(kSqe), go(kErr), go(kErr)},
    /* SQE   */ {no(),      no(),      no(),     no(),   no(),      no(),      no(),      stay(),    stay(),   stay(),   go(kErr), go(kErr)},
    /* ERR   */ {go(kReset), no(),     no(),     no(),   no(),      no(),      no(),      stay(),    stay(),   stay(),   stay(),   stay()},
}};
// clang-format on

}  // namespace

QpTransition qp_transition(QpState state, QpEvent event) {
    return kTable[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

std::string_view name(QpState state) {
    constexpr std::array<std::string_view, kQpStates> kNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return kNames[static_cast<std::size_t>(state)];
}

std::string_view name(QpEvent event) {
    constexpr std::array<std::string_view, kQpEvents> kNames{"to-reset",     "to-init",      "to-rtr",    "to-rts",
                                                             "to-rts-wired", "to-sqd-wired", "connected", "disconnect",
                                                             "peer-fin",     "fault",        "abort",     "ended"};
    return kNames[static_cast<std::size_t>(event)];
}

}  // namespace swrnic::engine
