// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Single messages of the peer, and short ways to post and to look at what went out.
#pragma once

#include <span>

#include "engine/support.h"

namespace swrnic::engine::test {

using wire::Opcode;

inline Bytes tagged(Opcode opcode, std::uint32_t stag, std::uint64_t to, std::size_t payload, bool last = true) {
    Bytes ulpdu(wire::kTaggedHeaderLen + payload, std::byte(0x5a));
    wire::TaggedHeader{last, wire::rdmap_control(opcode), stag, to}.emit(ulpdu.data());
    return ulpdu;
}

inline Bytes send_of(std::uint32_t msn, std::size_t payload) {
    Bytes ulpdu(wire::kUntaggedHeaderLen + payload, std::byte(0x5a));
    wire::UntaggedHeader{true, wire::rdmap_control(Opcode::kSend), 0, wire::kSendQueue, msn, 0}.emit(ulpdu.data());
    return ulpdu;
}

inline Bytes read_request(const wire::ReadRequest& request, std::uint32_t msn) {
    Bytes ulpdu(wire::kReadRequestSegmentLen);
    wire::emit_read_request_segment(request, msn, ulpdu.data());
    return ulpdu;
}

inline Sge sge_of(std::vector<std::byte>& data, std::uint32_t lkey) {
    return {reinterpret_cast<std::uintptr_t>(data.data()), static_cast<std::uint32_t>(data.size()), lkey};
}

inline PostResult post(Rig& rig, std::uint64_t wr_id, WrOpcode opcode, std::span<const Sge> sges = {}) {
    return rig.qp->post_send({wr_id, opcode, send_flag::kSignaled, sges, 0x4000, 0x2000, 0});
}

inline Opcode opcode_of(const Bytes& ulpdu) {
    return wire::opcode_of(std::to_integer<std::uint8_t>(ulpdu.at(1)));
}

inline std::uint32_t sink_of(const Bytes& request) {
    return wire::ReadRequest::parse(request.data() + wire::kUntaggedHeaderLen).sink_stag;
}

}  // namespace swrnic::engine::test
