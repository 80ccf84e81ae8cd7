// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Where the core's unpredictable numbers come from: the system's CSPRNG in the engine, a seeded generator in
// simulation.
#pragma once

#include <cstdint>

namespace swrnic::engine {

class RandomSource {
  public:
    virtual std::uint32_t next32() = 0;  // thread-safe

  protected:
    ~RandomSource() = default;
};

}  // namespace swrnic::engine
