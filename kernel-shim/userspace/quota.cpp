// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "quota.h"

#include <array>
#include <atomic>

#include "device_limits.h"
#include "log.h"

namespace swrnic::shim {
namespace {

struct Row {
    const char* name;
    std::uint32_t most;
};

constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::kKinds);
constexpr std::array<Row, kKinds> kRows{{
    {"protection domains", SWR_MAX_PD},
    {"memory regions", SWR_MAX_MR},
    {"memory windows", SWR_MAX_MW},
    {"address handles", SWR_MAX_AH},
    {"completion queues", SWR_MAX_CQ},
    {"shared receive queues", SWR_MAX_SRQ},
    {"queue pairs", SWR_MAX_QP},
}};

// Not in the state: objects may go without its lock, when the last reference to their context does.
constinit std::array<std::atomic<std::uint32_t>, kKinds> g_made{};

}  // namespace

Share Share::take(Kind kind) {
    const auto at = static_cast<std::size_t>(kind);
    Share share;
    if (g_made[at].fetch_add(1, std::memory_order_relaxed) < kRows[at].most) {
        share.kind_ = kind;
    } else {
        g_made[at].fetch_sub(1, std::memory_order_relaxed);
        log(LogLevel::kWarn, "refused: this process has {} {}, the most that the device allows", kRows[at].most,
            kRows[at].name);
    }
    return share;
}

Share::~Share() {
    if (*this) g_made[static_cast<std::size_t>(kind_)].fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace swrnic::shim
