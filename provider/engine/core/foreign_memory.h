// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory that is not ours to touch: the requests and STags of consumers in the kernel, which another one keeps and
// checks. With it the core has names where it otherwise has addresses; its owner moves payload between the stream and
// what is named, or between that and staging.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/core/transport.h"
#include "engine/core/types.h"
#include "wire/fpdu.h"
#include "wire/terminate.h"

namespace swrnic::engine {

// An element of a request stands for its length alone. Not a canonical address: whoever touches it by mistake is ended.
inline constexpr std::uint64_t kForeignAddress = std::uint64_t{1} << 63;

struct ForeignName {
    enum class Kind : std::uint8_t { kSend, kRecv, kTagged };
    Kind kind;
    std::uint64_t id;      // kSend, kRecv: the request's wr_id; kTagged: the STag
    std::uint64_t offset;  // octets into the request's memory; kTagged: TO
    // Not 0: so many octets from there on have to be good, though only the first of them are moved. Of a Read's source
    // (RDMAP-13).
    std::uint32_t whole = 0;
};

// Every name is checked anew at each call; what a call has accepted may be gone before the next. Called under the RX or
// the TX lock of the QP, inside a pass; does not wait for the network, and must not call the engine. Lengths are not 0.
class ForeignMemory {
  public:
    // From the name to our memory. After an error `to` holds anything.
    virtual MemoryError copy_in(std::uint32_t qpn, const ForeignName& name, std::span<std::byte> to) = 0;
    // What is complete with the end of a message: the receive or the Read that is named. Its owner may complete it in
    // the call that places the last octet, and then no completion of it is reported.
    struct Ending {
        bool solicited;
        std::optional<std::uint32_t> invalidated;  // STag: the peer's message says so, and its owner sees to it
        bool done = false;                         // out: it is complete
    };
    // From our memory to the name. After an error some octets may be there. ending: null unless they are a message's
    // last.
    virtual MemoryError copy_out(std::uint32_t qpn, const ForeignName& name, std::span<const std::byte> from,
                                 Ending* ending) = 0;
    // The two below move whole FPDUs, CRC included, between the QP's stream and what is named, past its transport,
    // which has to allow it.
    //
    // The FPDU that has begun to come, and with `more` those behind it, each of which continues the one before: the
    // same header but for length, L and offset. Behind L a Write may go on with the next one; a Response with L is one
    // that ends its Read. Their payload goes to its place if all is well with them. What cannot be placed goes to
    // `rest`, which is not full when the stream is empty. Behind what was placed the stream keeps its octets from the
    // first longer FPDU on, but for its first ones, unless the end of what has come cuts it: its payload can be placed
    // by the next call.
    struct Begun {
        std::span<const std::byte> octets;  // the whole header at least, and not the whole FPDU
        std::size_t header;                 // octets before the payload, ULPDU_Length among them
        ForeignName name;                   // of the payload
        std::uint32_t payload;
        bool more;
        Ending* ending;  // if the last that is placed has L; null: nothing is complete then
    };
    struct Arrival {
        IoStatus status;
        std::size_t taken = 0;     // from the stream
        std::size_t staged = 0;    // of them, in `rest`
        std::uint32_t placed = 0;  // FPDUs; not 0: the one that had begun is the first of them
        std::uint32_t octets = 0;  // of their payload
        std::uint32_t last = 0;    // of the payload of the last of them
        std::uint32_t ended = 0;   // of them, those with L
        bool whole = false;        // the last of them is one of those
        bool remains = false;      // the stream is not empty
    };
    virtual Arrival receive(std::uint32_t qpn, const Begun& fpdu, std::span<std::byte> rest) = 0;

    // One FPDU after another, up to the first whose name is not good. What is left of one that the stream took in part
    // goes to `rest`.
    struct Outgoing {
        std::array<std::byte, wire::kFpduHeaderLen + wire::kMaxTerminateUlpdu> header;  // ULPDU_Length, and all headers
        std::uint32_t header_len;
        std::uint32_t payload;
        bool ends;         // with all of it sent the request that is named is complete
        ForeignName name;  // unless payload is 0, and nothing ends
    };
    struct Departure {
        IoStatus status;         // of the stream; kOk also if it takes nothing now
        std::size_t sent;        // octets
        std::uint32_t laid_out;  // FPDUs
        MemoryError error;       // of the one behind them, if any
        std::size_t left;        // octets in `rest`
        std::uint32_t done = 0;  // requests that its owner has completed: the first of those that end. None is reported
    };
    static constexpr std::size_t kMostOutgoing = 256;           // FPDUs of one call
    static constexpr std::size_t kMostOctets = 160 * 1024;      // of them; and of what has begun and `rest`, together
    static constexpr std::size_t kLongestFpdu = 64 * 1024 + 8;  // whatever a peer says
    virtual Departure transmit(std::uint32_t qpn, std::span<const Outgoing> fpdus, std::span<std::byte> rest) = 0;

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
