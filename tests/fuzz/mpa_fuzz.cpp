// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Fuzzer of MPA startup. Input: 8 octets of configuration, then what the peer sends.
//   0  1 Initiator, 2 revision 2, 4 CRC, 8 markers, 16 peer-to-peer, 32 FIN at the end, 64 the ULP rejects, 128 max_rev
//   1 1  low 3 bits RTR kinds, next 2 large FPDU mode 2-3 IRD, 4-5 ORD (big endian), 6 max_ird, 7 size of the reads (0:
//   as much as is wanted)
// Any violated invariant traps, in every kind of build.
#include <swrnic_mpa.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kConfig = 8;

void require(bool holds) {
    if (!holds) __builtin_trap();
}

swrnic_mpa_params params_of(std::span<const std::uint8_t, kConfig> c) {
    swrnic_mpa_params p{};
    p.rev = c[0] & 2 ? 2 : 1;
    p.crc_wanted = c[0] & 4;
    p.markers_wanted = c[0] & 8;
    p.p2p = c[0] & 16;
    p.rtr_kinds = c[1] & SWRNIC_MPA_RTR_ALL;
    p.large_fpdu = static_cast<__u8>((c[1] >> 3 & 3) % 3);
    p.short_first = c[1] & 32;
    p.rfc7306 = c[1] & 64;
    p.ird = static_cast<__u16>((c[2] << 8 | c[3]) & SWRNIC_MPA_NO_DEPTH);
    p.ord = static_cast<__u16>((c[4] << 8 | c[5]) & SWRNIC_MPA_NO_DEPTH);
    p.max_ird = c[6];
    return p;
}

bool over(swrnic_mpa_event event) {
    return event != SWRNIC_MPA_EV_NONE && event != SWRNIC_MPA_EV_REQUEST;
}

// Writes all that is to be written, three octets at a time.
swrnic_mpa_event flush(swrnic_mpa* m) {
    swrnic_mpa_event event = SWRNIC_MPA_EV_NONE;
    __u32 len = 0;
    while (swrnic_mpa_out(m, &len), len > 0) {
        require(!over(event));
        event = swrnic_mpa_sent(m, std::min<__u32>(len, 3));
    }
    return event;
}

swrnic_mpa_event feed(swrnic_mpa* m, std::span<const std::uint8_t> octets, std::size_t piece) {
    swrnic_mpa_event event = SWRNIC_MPA_EV_NONE;
    while (!octets.empty()) {
        const std::size_t want = swrnic_mpa_want(m);
        if (want == 0) break;
        require(event == SWRNIC_MPA_EV_NONE);
        __u8* to = swrnic_mpa_in(m);
        require(to >= m->in && to + want <= m->in + sizeof(m->in));
        const std::size_t n = std::min({want, octets.size(), piece});
        std::memcpy(to, octets.data(), n);
        octets = octets.subspan(n);
        event = swrnic_mpa_received(m, static_cast<__u32>(n));
    }
    return event;
}

void check_connected(const swrnic_mpa* m, const swrnic_mpa_params& p) {
    const swrnic_mpa_peer_info& peer = *swrnic_mpa_peer(m);
    swrnic_connected c{};
    require(swrnic_mpa_connected(m, &c) == 0);
    require(((c.flags & SWRNIC_CONN_CRC) != 0) == (p.crc_wanted || peer.crc));
    require(((c.flags & SWRNIC_CONN_MARKERS_TX) != 0) == (peer.markers != 0));
    require(((c.flags & SWRNIC_CONN_MARKERS_RX) != 0) == (p.markers_wanted != 0));
    require(c.ird <= SWRNIC_MPA_NO_DEPTH && c.ord <= SWRNIC_MPA_NO_DEPTH);
    if (c.flags & SWRNIC_CONN_SHORT_FIRST)
        require(peer.short_first && p.short_first && (c.flags & SWRNIC_CONN_LARGE_FPDU));
    if (c.flags & SWRNIC_CONN_RFC7306) require(peer.rfc7306 && p.rfc7306);
    if (c.flags & SWRNIC_CONN_LARGE_FPDU) require(peer.large_fpdu && p.large_fpdu != SWRNIC_MPA_LARGE_NEVER);
    // RFC 6581 9.1: no end asks for more than the other one holds
    if (peer.enhanced && peer.ird != SWRNIC_MPA_NO_DEPTH && p.ord != SWRNIC_MPA_NO_DEPTH) require(c.ord <= peer.ird);
    if (c.flags & SWRNIC_CONN_P2P) require(peer.p2p && (c.rtr != 0 || c.terminate != 0));
}

swrnic_mpa_event run(swrnic_mpa* m, std::span<const std::uint8_t> data, std::size_t piece) {
    const auto config = data.first<kConfig>();
    const swrnic_mpa_params p = params_of(config);
    std::memset(m, 0x5a, sizeof(*m));
    if (config[0] & 1) {
        require(swrnic_mpa_initiate(m, &p, "abc", 3) == 0);
        flush(m);
    } else {
        swrnic_mpa_respond_init(m, config[0] & 128 ? 1 : 2);
    }
    swrnic_mpa_event event = feed(m, data.subspan(kConfig), piece);
    if (event == SWRNIC_MPA_EV_NONE && (config[0] & 32)) event = swrnic_mpa_eof(m);
    if (event == SWRNIC_MPA_EV_REQUEST) {
        const int rc = config[0] & 64 ? swrnic_mpa_reject(m, "xyz", 3) : swrnic_mpa_accept(m, &p, "xyz", 3);
        require(rc == 0);
        event = flush(m);
        require(event == SWRNIC_MPA_EV_ESTABLISHED || event == SWRNIC_MPA_EV_REJECT_SENT);
        require(m->out_len <= SWRNIC_MPA_MAX_FRAME_LEN && m->out[17] == swrnic_mpa_peer(m)->rev);
    }
    const swrnic_mpa_peer_info& peer = *swrnic_mpa_peer(m);
    require(peer.private_off + peer.private_len <= SWRNIC_MPA_MAX_FRAME_LEN);
    if (event == SWRNIC_MPA_EV_ESTABLISHED || event == SWRNIC_MPA_EV_TERMINATE) check_connected(m, p);
    require((event == SWRNIC_MPA_EV_FAILED || event == SWRNIC_MPA_EV_TERMINATE) ==
            (swrnic_mpa_failure(m) != SWRNIC_MPA_OK));
    require(swrnic_mpa_active(m) == !over(event));
    return event;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < kConfig) return 0;
    static swrnic_mpa whole, cut;
    const std::span<const std::uint8_t> input(data, size);
    const swrnic_mpa_event a = run(&whole, input, SIZE_MAX);
    const swrnic_mpa_event b = run(&cut, input, data[7] ? data[7] : 1);
    require(a == b && whole.reason == cut.reason && whole.state == cut.state);
    // Past the first wrong octet of the key nothing is read, so only what was parsed must agree.
    require(std::memcmp(&whole.peer, &cut.peer, sizeof(whole.peer)) == 0);
    return 0;
}
