// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory of the kernel's consumers, by name: the module checks each name and moves the octets.
#pragma once

#include "calls.h"
#include "engine/core/foreign_memory.h"

namespace swrnic::daemon {

class KernelMemory final : public engine::ForeignMemory {
  public:
    // Borrowed.
    explicit KernelMemory(Calls& calls) : calls_(calls) {}

    engine::MemoryError check(std::uint32_t qpn, const engine::ForeignName& name, std::uint64_t length,
                              Use use) override;
    engine::MemoryError copy_in(std::uint32_t qpn, const engine::ForeignName& name, std::span<std::byte> to) override;
    engine::MemoryError copy_out(std::uint32_t qpn, const engine::ForeignName& name,
                                 std::span<const std::byte> from) override;
    std::optional<Receive> take_receive(std::uint32_t qpn) override;
    bool execute(std::uint32_t qpn, std::uint64_t wr_id) override;
    engine::MemoryError invalidate(std::uint32_t qpn, std::uint32_t stag) override;

  private:
    engine::MemoryError copy(std::uint32_t qpn, const engine::ForeignName& name, std::uint32_t direction,
                             const std::byte* memory, std::size_t length);

    Calls& calls_;
};

}  // namespace swrnic::daemon
