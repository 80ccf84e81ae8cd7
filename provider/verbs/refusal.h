// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a program asks of the device in vain. Many programs go on, and fail somewhere else; so the first refusal of each
// kind in a process is a warning that says what is missing and what to do.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <utility>

#include "log.h"
#include "objects.h"

namespace swrnic::verbs {

enum class Refusal : unsigned {
    kOpcode,
    kFlags,
    kElements,
    kInline,
    kNotConnected,
    kOtherPost,
    kNotAgreed,
    kQpType,
    kQpSize,
    kSrqSize,
    kConnectByHand,
    kOtherModify,
};

namespace detail {
// Bits of what has been said. Constant-initialised, as the log's threshold, and the process's for the same reason.
inline constinit std::atomic<unsigned> refusals_told{0};
}  // namespace detail

// Later ones are told at info. Any thread.
template <class... Args>
void tell(Refusal kind, fmt::format_string<Args...> format, Args&&... args) noexcept {
    const unsigned bit = 1u << static_cast<unsigned>(kind);
    const bool first = (detail::refusals_told.fetch_or(bit) & bit) == 0;
    log(first ? LogLevel::kWarn : LogLevel::kInfo, format, std::forward<Args>(args)...);
}

// Immediate data or an atomic, refused with EOPNOTSUPP.
void tell_not_agreed(const char* call) noexcept;

// Posts that were refused. A full queue is no fault, and programs reckon with it.
void tell_of(const Qp& qp, const ibv_send_wr& wr, int error) noexcept;
void tell_of(const Qp& qp, const ibv_recv_wr& wr, int error) noexcept;
void tell_of(const Srq& srq, const ibv_recv_wr& wr, int error) noexcept;

}  // namespace swrnic::verbs
