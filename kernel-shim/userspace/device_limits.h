// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the userspace shim's device claims beside what both shims do (swrnic_policy.h).
#pragma once

#include <cstdint>

#include "swrnic_policy.h"

namespace swrnic::shim {

inline constexpr std::uint32_t kUverbsMajor = 231, kUverbsMinor = 192;  // as a kernel numbers its first uverbs device
inline constexpr std::uint32_t kRdmaCmMajor = 10, kRdmaCmMinor = 119;

inline constexpr const char* kFirmware = "0.0.0";  // there is none, and tools want a version

inline constexpr std::uint32_t kMaxMessage = 0xffffffff;  // VERBS-42
inline constexpr std::uint32_t kMaxGroups = 1024;         // of a QP; each takes a descriptor
inline constexpr int kMaxBacklog = 1024;                  // undelivered CONNECT_REQUESTs of a listener, as in rdma_cm

}  // namespace swrnic::shim
