// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "machine.h"

#include <algorithm>
#include <cstring>
#include <ostream>
#include <sstream>
#include <stdexcept>

namespace swrnic::mpatest {

std::ostream& operator<<(std::ostream& out, const Outcome& o) {
    return out << swrnic_mpa_event_name(o.event) << " in " << swrnic_mpa_state_name(o.state) << ", "
               << swrnic_mpa_reason_name(o.reason) << (o.retry_rev1 ? ", retry with revision 1" : "") << "; peer "
               << o.peer << " private " << o.private_data << "; " << o.connected;
}

// Starts from noise: the machine may not rely on what was there.
End::End() {
    std::memset(&m_, 0xa5, sizeof(m_));
}

End End::initiator(const swrnic_mpa_params& params, std::span<const std::byte> private_data) {
    End end;
    const int rc = swrnic_mpa_initiate(&end.m_, &params, private_data.data(), static_cast<__u32>(private_data.size()));
    if (rc != 0) throw std::runtime_error("swrnic_mpa_initiate: " + std::to_string(rc));
    return end;
}

End End::responder(std::uint8_t max_rev) {
    End end;
    swrnic_mpa_respond_init(&end.m_, max_rev);
    return end;
}

void End::note(swrnic_mpa_event event) {
    if (event != SWRNIC_MPA_EV_NONE) event_ = event;
}

Bytes End::send(std::size_t piece) {
    Bytes sent;
    for (;;) {
        __u32 len = 0;
        const __u8* p = swrnic_mpa_out(&m_, &len);
        if (len == 0) return sent;
        if (p < m_.out || p + len > m_.out + sizeof(m_.out)) throw std::logic_error("output outside its buffer");
        const std::size_t n = std::min<std::size_t>(len, piece);
        const auto* begin = reinterpret_cast<const std::byte*>(p);
        sent.insert(sent.end(), begin, begin + n);
        note(swrnic_mpa_sent(&m_, static_cast<__u32>(n)));
    }
}

std::size_t End::feed(std::span<const std::byte> octets, std::size_t piece) {
    std::size_t done = 0;
    while (done < octets.size()) {
        const std::size_t want = swrnic_mpa_want(&m_);
        if (want == 0) break;
        __u8* to = swrnic_mpa_in(&m_);
        if (to < m_.in || to + want > m_.in + sizeof(m_.in)) throw std::logic_error("input outside its buffer");
        const std::size_t n = std::min({want, octets.size() - done, piece});
        std::memcpy(to, octets.data() + done, n);
        done += n;
        note(swrnic_mpa_received(&m_, static_cast<__u32>(n)));
    }
    return done;
}

Bytes End::peer_private() const {
    const auto* begin = reinterpret_cast<const std::byte*>(swrnic_mpa_peer_private(&m_));
    return {begin, begin + peer().private_len};
}

swrnic_connected End::connected() const {
    swrnic_connected c{};
    if (swrnic_mpa_connected(&m_, &c) != 0) throw std::logic_error("not in Full Operation");
    return c;
}

Outcome End::outcome() const {
    Outcome o;
    o.event = event_;
    o.state = swrnic_mpa_get_state(&m_);
    o.reason = swrnic_mpa_failure(&m_);
    o.retry_rev1 = swrnic_mpa_retry_rev1(&m_) != 0;
    std::ostringstream peer_text;
    peer_text << "rev " << +peer().rev << " enhanced " << +peer().enhanced << " C " << +peer().crc << " M "
              << +peer().markers << " R " << +peer().rejected << " large " << +peer().large_fpdu << " A " << +peer().p2p
              << " rtr " << +peer().rtr_kinds << " ird " << peer().ird << " ord " << peer().ord;
    o.peer = peer_text.str();
    o.private_data = golden::to_hex(peer_private());
    swrnic_connected c{};
    if (swrnic_mpa_connected(&m_, &c) == 0) {
        std::ostringstream text;
        text << "role " << +c.role << " rev " << +c.mpa_rev << " flags " << c.flags << " ird " << c.ird << " ord "
             << c.ord << " rtr " << +c.rtr << " terminate " << +c.terminate << " fd " << c.fd;
        o.connected = text.str();
    }
    return o;
}

swrnic_mpa_params default_params() {
    swrnic_mpa_params p{};
    p.rev = 2;
    p.crc_wanted = 1;
    p.large_fpdu = SWRNIC_MPA_LARGE_ACCEPT;
    p.p2p = 1;
    p.ird = 16;
    p.ord = 16;
    p.max_ird = 128;
    return p;
}

}  // namespace swrnic::mpatest
