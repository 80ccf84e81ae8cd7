// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The event file of the contract (swrnic-abi.h): streams and orders go down to the provider, completions and reports
// come up.
#pragma once

#include "uverbs.h"

namespace swrnic::shim {

class EventFile : public Queue<swrnic_down> {
  public:
    EventFile(std::weak_ptr<UverbsFile> context, unsigned device) : context_(std::move(context)), device_(device) {}

    ssize_t read(int fd, void* buffer, std::size_t size) override;         // whole records; never blocks
    ssize_t write(int fd, const void* buffer, std::size_t size) override;  // whole records; stops at the first refused
    void closed(Locked& locked) override;
    void forked() override;

    // QP_CONNECTED: from now on the socket is the queue's, then the reader's.
    void hand_over(Locked& locked, Qp& qp, const swrnic_connected& connected);
    // QP_DATAGRAMS: the same of a UDP socket; null: of the QP's own port.
    void hand_over(Locked& locked, const Qp& qp, int socket, const Gid* group);
    void order(Locked& locked, std::uint32_t qpn, swrnic_down_type type);  // QP_DISCONNECT, QP_ERROR
    void forget(Locked& locked, std::uint32_t qpn);                        // unread records of a QP that is gone

  private:
    int take(Locked& locked, const swrnic_up& up);
    int raise(Locked& locked, UverbsFile& context, const swrnic_up& up);
    int keep(Locked& locked, const swrnic_up& up);
    Qp* own_qp(Locked& locked, std::uint32_t qpn);
    void close_queued_sockets();

    const std::weak_ptr<UverbsFile> context_;
    const unsigned device_;
    std::vector<int> kept_;  // by SWRNIC_UP_KEEP
};

// QP_ERROR to whoever drives it.
void order_error(Locked& locked, const Qp& qp);

}  // namespace swrnic::shim
