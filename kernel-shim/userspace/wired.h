// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A QP that is wired by hand: modify_qp(RTR) with the peer's GID and number, instead of rdma_cm.
//
// From RTR on it has its stream set up, as the end that connects or the end that is called (swrnic_wiring.h says
// which), and goes on trying for as long as it stays wired: the peer may be wired at any later time, and how long a
// request waits for it is the engine's business. It has one stream at most between two RESETs. What becomes of that is
// no event for the program: it hears from its requests.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstdint>
#include <memory>

#include "startup.h"
#include "swrnic_wiring.h"

namespace swrnic::shim {

class Wired final : public StartupOwner, public std::enable_shared_from_this<Wired> {
  public:
    // 0, or -errno: the GID is not to be reached, or the index is none of ours. `qp` is in the tables.
    static int wire(Locked& locked, Qp& qp, const ib_uverbs_qp_dest& to, std::uint32_t dest_qpn);
    // RESET, ERROR (which the engine may be the first to know of), or the QP is gone: nobody connects it any more.
    void stop(Locked& locked);

    // ---- what the engine reports of the stream
    void ready(Locked& locked);                   // QP_READY
    void closed(Locked& locked, bool was_ready);  // QP_CLOSED

    // ---- StartupOwner
    void connected_from(const Address&) override {}
    int new_socket(Locked& locked, const Address& local) override;
    void full_operation(Locked& locked, const swrnic_connected& agreed, PrivateData said, bool terminated) override;
    void failed(Locked& locked, int error, PrivateData said) override;
    void decide(Locked& locked, std::uint64_t key) override;
    void try_again(Locked& locked) override;

    std::uint32_t peer_qpn() const { return there_.qpn; }

    // Whether it waits for this Request.
    bool awaits(const swrnic_wired_end& caller, const swrnic_wired_end& called,
                const StartupListener::Request& request) const;

  private:
    Wired() = default;
    bool calls() const { return swrnic_wired_order(&here_, &there_) < 0; }
    Startup::Terms terms(const Qp& qp, PrivateData said) const;
    int begin(Locked& locked, Qp& qp);
    void call(Locked& locked);
    void call_later(Locked& locked);
    int talk_to_itself(Locked& locked, Qp& qp);

    swrnic_wired_end here_{}, there_{};
    Address local_, peer_;           // local_ without a port, peer_ with the one that its number names
    bool peer_is_any_here_ = false;  // its GID is this host's own, of no address
    std::uint64_t key_ = 0;          // of startup: what is under way, or the next try; 0: nothing
    bool has_stream_ = false;        // it has been handed over, and may have ended
    std::uint32_t pause_ms_ = 0;     // before the next try; 0: there was none yet
};

}  // namespace swrnic::shim
