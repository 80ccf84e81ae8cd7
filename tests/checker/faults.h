// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The common end of all error cases: who must see which completions, events and states.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "endpoint.h"
#include "session.h"

namespace checker {

// Status of the completion of one request: one of several that the specification allows.
void expect_status(const ibv_wc& wc, std::uint64_t wr_id, std::initializer_list<ibv_wc_status> allowed,
                   std::string_view what);

// The next `count` completions are those of wr_id first, first + 1, … with WR_FLUSH_ERR.
void expect_flushed(Endpoint& ep, ibv_cq* cq, std::uint64_t first, std::uint64_t count, std::string_view what);
// The same for requests that may have been completed before the connection broke: successes, then only flushes. The
// first that fails may have the status `blamed` instead: the peer quotes it in its Terminate.
void expect_done_then_flushed(Endpoint& ep, ibv_cq* cq, std::uint64_t first, std::uint64_t count, std::string_view what,
                              ibv_wc_status blamed = IBV_WC_WR_FLUSH_ERR);

// DISCONNECTED comes, the QP is in ERROR, and what is posted now is flushed at once.
void expect_dead(Endpoint& ep, std::string_view what);

}  // namespace checker
