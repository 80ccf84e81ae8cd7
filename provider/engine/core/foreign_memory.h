// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory that is not ours to touch: the requests and STags of consumers in the kernel, which another one keeps and
// checks. With it the core has names where it otherwise has addresses, and every payload passes through staging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/core/types.h"

namespace swrnic::engine {

// An element of a request stands for its length alone. Not a canonical address: whoever touches it by mistake is ended.
inline constexpr std::uint64_t kForeignAddress = std::uint64_t{1} << 63;

struct ForeignName {
    enum class Kind : std::uint8_t { kSend, kRecv, kTagged };
    Kind kind;
    std::uint64_t id;      // kSend, kRecv: the request's wr_id; kTagged: the STag
    std::uint64_t offset;  // octets into the request's memory; kTagged: TO
};

// Every name is checked anew at each call; what a call has accepted may be gone before the next. Called under the RX or
// the TX lock of the QP, inside a pass; does not wait for the network, and must not call the engine. Lengths are not 0.
class ForeignMemory {
  public:
    enum class Use : std::uint8_t { kSource, kSink };

    virtual MemoryError check(std::uint32_t qpn, const ForeignName& name, std::uint64_t length, Use use) = 0;
    // From the name to our memory. After an error `to` holds anything.
    virtual MemoryError copy_in(std::uint32_t qpn, const ForeignName& name, std::span<std::byte> to) = 0;
    // From our memory to the name. After an error some octets may be there.
    virtual MemoryError copy_out(std::uint32_t qpn, const ForeignName& name, std::span<const std::byte> from) = 0;
    // For a Send that has come and found no receive: the next one that was not posted to the QP yet, of its own or of a
    // queue that QPs share; its wr_id and length. Nothing: there is none at present.
    struct Receive {
        std::uint64_t wr_id;
        std::uint32_t length;
    };
    virtual std::optional<Receive> take_receive(std::uint32_t qpn) = 0;
    // A local request (is_local()) in its turn. False: it failed.
    virtual bool execute(std::uint32_t qpn, std::uint64_t wr_id) = 0;
    // A Send with Invalidate of the peer's has come whole.
    virtual MemoryError invalidate(std::uint32_t qpn, std::uint32_t stag) = 0;

  protected:
    ~ForeignMemory() = default;
};

}  // namespace swrnic::engine
