// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory of the kernel's consumers, by name: the module checks each name and moves the octets. For one thread, the
// engine's own.
#pragma once

#include <vector>

#include "calls.h"
#include "engine/core/foreign_memory.h"

namespace swrnic::daemon {

class KernelMemory final : public engine::ForeignMemory {
  public:
    // Borrowed.
    explicit KernelMemory(Calls& calls) : calls_(calls), fpdus_(SWRNIC_TRANSMIT_FPDUS) {}

    engine::MemoryError copy_in(std::uint32_t qpn, const engine::ForeignName& name, std::span<std::byte> to) override;
    engine::MemoryError copy_out(std::uint32_t qpn, const engine::ForeignName& name, std::span<const std::byte> from,
                                 Ending* ending) override;
    Arrival receive(std::uint32_t qpn, const Begun& fpdu, std::span<std::byte> rest) override;
    Departure transmit(std::uint32_t qpn, std::span<const Outgoing> fpdus, std::span<std::byte> rest) override;
    std::optional<Receive> take_receive(std::uint32_t qpn) override;
    bool execute(std::uint32_t qpn, std::uint64_t wr_id) override;
    engine::MemoryError invalidate(std::uint32_t qpn, std::uint32_t stag) override;

  private:
    engine::MemoryError copy(std::uint32_t qpn, const engine::ForeignName& name, std::uint32_t direction,
                             const std::byte* memory, std::size_t length, Ending* ending);

    Calls& calls_;
    std::vector<swrnic_fpdu> fpdus_;  // of the TRANSMIT that is being made; as large as can be from the beginning
};

}  // namespace swrnic::daemon
