// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "stat/snapshot.h"

namespace swrnic::tools {

const std::array<const char*, kStatSums> kSumNames = {
    "tx_bytes",         "tx_fpdus",          "tx_sends",      "tx_writes", "tx_read_requests", "tx_read_responses",
    "tx_terminates",    "tx_calls",          "rx_bytes",      "rx_fpdus",  "rx_sends",         "rx_writes",
    "rx_read_requests", "rx_read_responses", "rx_terminates", "rx_calls",  "rx_crc_errors",    "rx_stalls",
    "rx_stall_ns",      "retransmits",       "rx_drops",
};

std::string state_name(std::uint64_t state) {
    constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state < std::size(kNames) ? kNames[state] : fmt::format("{}", state);
}

std::string code_name(std::uint32_t code) {
    return fmt::format("{}/{}/{}", code >> 12 & 0xf, code >> 8 & 0xf, code & 0xff);
}

std::string code_meaning(std::uint32_t code) {
    struct Meaning {
        std::uint32_t code;
        const char* text;
    };
    static constexpr Meaning kMeanings[] = {
        // RFC 5040 4.8
        {0x0000, "RDMAP: local catastrophic error"},
        {0x0100, "RDMAP: invalid STag"},
        {0x0101, "RDMAP: base or bounds violation"},
        {0x0102, "RDMAP: access rights violation"},
        {0x0103, "RDMAP: STag of another stream"},
        {0x0104, "RDMAP: TO wrap"},
        {0x0109, "RDMAP: STag cannot be invalidated"},
        {0x01ff, "RDMAP: protection error"},
        {0x0205, "RDMAP: invalid version"},
        {0x0206, "RDMAP: unexpected opcode"},
        {0x0207, "RDMAP: catastrophic error of the stream"},
        {0x0208, "RDMAP: catastrophic error"},
        {0x0209, "RDMAP: STag cannot be invalidated"},
        {0x02ff, "RDMAP: operation error"},
        // RFC 5041 7.2
        {0x1000, "DDP: local catastrophic error"},
        {0x1100, "DDP: invalid STag"},
        {0x1101, "DDP: base or bounds violation"},
        {0x1102, "DDP: STag of another stream"},
        {0x1103, "DDP: TO wrap"},
        {0x1104, "DDP: invalid version"},
        {0x1201, "DDP: invalid queue number"},
        {0x1202, "DDP: no receive was posted"},
        {0x1203, "DDP: invalid MSN"},
        {0x1204, "DDP: invalid MO"},
        {0x1205, "DDP: message longer than the receive"},
        {0x1206, "DDP: invalid version"},
        // RFC 5044 8, RFC 6581
        {0x2001, "MPA: TCP connection lost"},
        {0x2002, "MPA: CRC error"},
        {0x2003, "MPA: marker and length disagree"},
        {0x2004, "MPA: invalid startup frame"},
        {0x2005, "MPA: local catastrophic error"},
        {0x2006, "MPA: insufficient IRD"},
        {0x2007, "MPA: no matching RTR"},
    };
    const auto* const found =
        std::find_if(std::begin(kMeanings), std::end(kMeanings), [=](const Meaning& m) { return m.code == code; });
    return found != std::end(kMeanings) ? found->text : "";
}

}  // namespace swrnic::tools
