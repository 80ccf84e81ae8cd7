// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How many objects of each kind a process may have: what the device announces, whichever contexts they are made in.
#pragma once

#include <cstdint>
#include <utility>

namespace swrnic::shim {

enum class Kind : std::uint8_t { kPd, kMr, kMw, kAh, kCq, kSrq, kQp, kKinds };

// One of the allowed number; given back when it goes.
class Share {
  public:
    Share() = default;
    Share(Share&& other) noexcept : kind_(std::exchange(other.kind_, Kind::kKinds)) {}
    Share& operator=(Share&& other) noexcept {
        std::swap(kind_, other.kind_);
        return *this;
    }
    ~Share();
    // None is left: an empty share, and a line in the log.
    static Share take(Kind kind);
    explicit operator bool() const { return kind_ != Kind::kKinds; }

  private:
    Kind kind_ = Kind::kKinds;
};

}  // namespace swrnic::shim
