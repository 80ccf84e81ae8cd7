// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The numbers of this process's QPs, and the TCP ports that they name (swrnic_wiring.h).
//
// A port is bound, so that nobody else gets it, for each 256 QPs; it listens only when the first of them is wired. The
// descriptors are kept from programs that close what they do not know.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "swrnic_wiring.h"

namespace swrnic::shim {

class Locked;
class StartupListener;

class QpNumbers {
  public:
    // A number that no QP of this process has; 0: there is no descriptor or port left.
    std::uint32_t take(Locked& locked);
    void give_back(Locked& locked, std::uint32_t qpn);
    // The same for a QP of datagrams, with the bound UDP socket whose port it names, which is the caller's.
    struct Datagrams {
        std::uint32_t qpn;
        int socket;
    };
    std::optional<Datagrams> take_datagrams(Locked& locked);
    // The number's port listens from now on, for `listener` where nobody did before. 0 or -errno.
    int listen(Locked& locked, std::uint32_t qpn, const std::shared_ptr<StartupListener>& listener);
    // In a forked child: its copies of the sockets go; the numbers are the parent's.
    void forked();

  private:
    struct Port {
        int socket = -1;        // bound; -1: startup has it, and it listens
        std::uint64_t key = 0;  // of the listener; 0: none
        std::bitset<SWR_QPN_SLOTS> taken;
        std::shared_ptr<StartupListener> listener;
    };

    std::map<std::uint16_t, Port>::iterator reserve(Locked& locked);

    std::map<std::uint16_t, Port> ports_;
};

}  // namespace swrnic::shim
