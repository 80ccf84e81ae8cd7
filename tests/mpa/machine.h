// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One end of an MPA startup for tests: drives the C machine the way a shim does, with the stream cut as the test wants
// it.
#pragma once

#include <swrnic_mpa.h>

#include <cstddef>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "golden/vectors.h"

namespace swrnic::mpatest {

using golden::Bytes;

// Everything that a caller can see once the octets have been fed. Two ways to cut one stream must give equal outcomes.
struct Outcome {
    swrnic_mpa_event event = SWRNIC_MPA_EV_NONE;  // the last one that was not NONE
    swrnic_mpa_state state = SWRNIC_MPA_ST_IDLE;
    swrnic_mpa_reason reason = SWRNIC_MPA_OK;
    bool retry_rev1 = false;
    std::string peer;          // all fields, as text
    std::string private_data;  // hex
    std::string connected;     // all fields, as text; empty before Full Operation

    bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Outcome& outcome);

class End {
  public:
    static End initiator(const swrnic_mpa_params& params, std::span<const std::byte> private_data = {});
    static End responder(std::uint8_t max_rev = SWRNIC_MPA_MAX_REV);

    swrnic_mpa* raw() { return &m_; }
    const swrnic_mpa* raw() const { return &m_; }

    // The frame that waits to be sent, taken `piece` octets at a time. Keeps the event.
    Bytes send(std::size_t piece = SIZE_MAX);
    // Feeds from the front of `octets`, at most piece() octets per read, until the machine wants no more; the rest
    // stays "in the socket". Returns what was consumed.
    std::size_t feed(std::span<const std::byte> octets, std::size_t piece = SIZE_MAX);

    swrnic_mpa_event event() const { return event_; }
    void note(swrnic_mpa_event event);
    const swrnic_mpa_peer_info& peer() const { return *swrnic_mpa_peer(&m_); }
    Bytes peer_private() const;
    swrnic_connected connected() const;  // throws outside Full Operation
    Outcome outcome() const;

  private:
    End();
    swrnic_mpa m_;
    swrnic_mpa_event event_ = SWRNIC_MPA_EV_NONE;
};

// Rev 2, peer-to-peer, everything on: what a shim asks for by default.
swrnic_mpa_params default_params();

}  // namespace swrnic::mpatest
