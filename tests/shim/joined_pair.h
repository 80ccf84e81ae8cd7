// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two sides of a connection in one process: an id, a context and a QP each. The tests play the provider.
#pragma once

#include <unistd.h>

#include <utility>

#include "raw.h"

namespace swrnic::test {

struct Side {
    Cm cm;
    Context context;
    Context::Qp qp;
    std::uint32_t id = 0;
    Fd stream;
    swrnic_connected connected{};
};

class JoinedPair {
  public:
    explicit JoinedPair(const swrnic_create_qp_req& startup = default_startup()) : startup_(startup) {}

    static constexpr std::uint64_t kActiveUid = 0xaaaa, kListenerUid = 0x1111, kPassiveUid = 0xbbbb;

    // A listener, and an active id that has resolved its address and has a QP in INIT.
    bool ready() {
        listener = passive.cm.create_id(kListenerUid);
        port = passive.cm.listen_on_loopback(listener);
        const auto mine = active.context.ready_qp(startup_);
        const auto theirs = passive.context.ready_qp(startup_);
        if (!mine || !theirs || port == 0) return false;
        active.qp = *mine;
        passive.qp = *theirs;
        active.id = active.cm.create_id(kActiveUid);
        return active.cm.resolve_to_loopback(active.id, port);
    }

    bool request(std::string_view private_data = {}, std::uint8_t ird = 1, std::uint8_t ord = 1) {
        if (active.cm.connect(active.id, active.qp.qpn, private_data, ird, ord) != 0) return false;
        const auto event = passive.cm.event();
        if (!event || event->event != kConnectRequest) return false;
        asked = *event;
        passive.id = event->id;
        return true;
    }

    bool request_and_accept(std::string_view answer = {}) {
        return request() && passive.cm.accept(passive.id, kPassiveUid, passive.qp.qpn, answer) == 0;
    }

    bool take_streams() { return take(active) && take(passive); }

    bool take(Side& side) {
        const auto order = side.context.next_order();
        if (!order || order->type != SWRNIC_DOWN_QP_CONNECTED || order->qpn != side.qp.qpn) return false;
        side.connected = order->u.connected;
        side.stream = Fd(order->u.connected.fd);
        return true;
    }

    bool establish() {
        if (!request_and_accept() || !take_streams()) return false;
        for (Side* side : {&active, &passive}) {
            if (side->context.report(SWRNIC_UP_QP_READY, side->qp.qpn) != 0) return false;
            const auto event = side->cm.event();
            if (!event || event->event != kEstablished) return false;
        }
        return true;
    }

    Side active, passive;
    std::uint32_t listener = 0;
    std::uint16_t port = 0;
    rdma_ucm_event_resp asked{};

  private:
    const swrnic_create_qp_req startup_;
};

}  // namespace swrnic::test
