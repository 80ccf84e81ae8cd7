// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Requests and responses of the uverbs commands with our driver data behind them (kernel-shim/abi/swrnic-abi.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "provider-abi.h"

namespace swrnic::verbs {

struct Nothing {};

template <typename T>
inline constexpr std::size_t kDriverSize = std::is_same_v<T, Nothing> ? 0 : sizeof(T);

// Core: the kernel's struct (ib_uverbs_*). Driver: what follows it. The ibv_cmd_* function fills all in front of the
// driver data.
template <typename Core, typename Driver = Nothing>
class Request {
  public:
    Request() = default;
    explicit Request(const Driver& driver) {
        static_assert(std::is_trivially_copyable_v<Driver>);
        std::memcpy(bytes_.data() + kCommandCoreSize<Core>, &driver, kDriverSize<Driver>);
    }
    void* data() { return bytes_.data(); }
    static constexpr std::size_t size() { return kCommandCoreSize<Core> + kDriverSize<Driver>; }

  private:
    alignas(8) std::array<std::byte, size()> bytes_{};
};

template <typename Core, typename Driver = Nothing>
class Response {
  public:
    Core* core() { return reinterpret_cast<Core*>(bytes_.data()); }
    static constexpr std::size_t size() { return sizeof(Core) + kDriverSize<Driver>; }
    Driver driver() const {
        Driver out;
        std::memcpy(&out, bytes_.data() + sizeof(Core), kDriverSize<Driver>);
        return out;
    }

  private:
    alignas(8) std::array<std::byte, size()> bytes_{};
};

}  // namespace swrnic::verbs
