// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every event in every state, against the table on record; and a real Qp, which must do what the table says.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engine/support.h"

namespace swrnic::engine::test {

namespace {

std::string outcome(QpState state, QpEvent event) {
    const QpTransition transition = qp_transition(state, event);
    switch (transition.kind) {
        case QpTransition::kRefused:
            return "refused";
        case QpTransition::kStays:
            return "stays";
        case QpTransition::kMoves:
            return std::string(name(transition.next));
    }
    return "?";
}

std::string qp_state_table() {
    std::string table;
    for (std::size_t state = 0; state < kQpStates; ++state) {
        for (std::size_t event = 0; event < kQpEvents; ++event) {
            table += std::string(name(QpState(state))) + " " + std::string(name(QpEvent(event))) + " -> " +
                     outcome(QpState(state), QpEvent(event)) + "\n";
        }
    }
    return table;
}

// A change of the table is a change of this file, and is to be seen in review.
TEST(QpStates, AreAsOnRecord) {
    std::ifstream file(SWRNIC_ENGINE_TEST_DIR "/qp-states.golden");
    ASSERT_TRUE(file);
    std::stringstream recorded;
    recorded << file.rdbuf();
    EXPECT_EQ(qp_state_table(), recorded.str());
}

// What holds whatever the table says.
TEST(QpStates, NeverLeaveTheRulesOfVerbs) {
    for (std::size_t i = 0; i < kQpStates; ++i) {
        const auto state = QpState(i);
        const auto next = [&](QpEvent event) {
            const QpTransition transition = qp_transition(state, event);
            return transition.kind == QpTransition::kMoves ? transition.next : state;
        };
        SCOPED_TRACE(name(state));
        EXPECT_EQ(next(QpEvent::kAbort), QpState::kErr) << "any state to ERR";
        EXPECT_NE(qp_transition(state, QpEvent::kToRts).kind, QpTransition::kMoves) << "only a connection brings RTS";
        const bool connected = state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe;
        EXPECT_EQ(next(QpEvent::kToReset), connected ? state : QpState::kReset) << "a stream must end first";
        for (std::size_t event = 0; event < kQpEvents; ++event) {
            if (next(QpEvent(event)) == QpState::kRts && state != QpState::kRts) {
                EXPECT_TRUE(
                    QpEvent(event) == QpEvent::kConnected ||
                    (QpEvent(event) == QpEvent::kToRtsWired && (state == QpState::kRtr || state == QpState::kSqd)));
            }
            if (state == QpState::kErr && QpEvent(event) != QpEvent::kToReset) {
                EXPECT_EQ(next(QpEvent(event)), QpState::kErr);
            }
        }
    }
}

void bring_to(Qp& qp, QpState state) {
    const std::vector<std::vector<QpEvent>> ways{
        {QpEvent::kToReset},
        {},
        {QpEvent::kToRtr},
        {QpEvent::kConnected},
        {QpEvent::kConnected, QpEvent::kDisconnect},
        {QpEvent::kConnected, QpEvent::kFault},
        {QpEvent::kAbort},
    };
    for (const QpEvent event : ways[std::size_t(state)])
        ASSERT_TRUE(qp.apply(event));
    ASSERT_EQ(qp.state(), state);
}

TEST(QpStates, QpFollowsTheTable) {
    for (std::size_t state = 0; state < kQpStates; ++state) {
        for (std::size_t event = 0; event < kQpEvents; ++event) {
            SCOPED_TRACE(std::string(name(QpState(state))) + " " + std::string(name(QpEvent(event))));
            Rig rig;  // in INIT
            ASSERT_NO_FATAL_FAILURE(bring_to(*rig.qp, QpState(state)));
            const QpTransition transition = qp_transition(QpState(state), QpEvent(event));
            EXPECT_EQ(rig.qp->apply(QpEvent(event)), transition.kind != QpTransition::kRefused);
            EXPECT_EQ(rig.qp->state(), transition.kind == QpTransition::kMoves ? transition.next : QpState(state));
        }
    }
}

// What may be posted in which state (docs/spec/verbs.md section 6).
TEST(QpStates, DecideWhatMayBePosted) {
    for (std::size_t state = 0; state < kQpStates; ++state) {
        SCOPED_TRACE(name(QpState(state)));
        Rig rig;
        ASSERT_NO_FATAL_FAILURE(bring_to(*rig.qp, QpState(state)));
        EXPECT_EQ(rig.qp->post_recv({1, {}}),
                  QpState(state) == QpState::kReset ? PostResult::kBadState : PostResult::kOk);
        EXPECT_EQ(rig.qp->post_send({1, WrOpcode::kSend, 0, {}, 0, 0, 0}),
                  QpState(state) < QpState::kRts ? PostResult::kBadState : PostResult::kOk);
    }
}

}  // namespace

}  // namespace swrnic::engine::test
