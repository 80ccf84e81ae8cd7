// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Random requests, each with its own piece of memory, so that the outcome is known octet by octet.
#include "sim/world.h"

namespace swrnic::engine::sim {

std::uint32_t World::random_size() {
    const std::uint64_t dice = rng_.below(100);
    if (dice < 6) return 0;
    if (dice < 40) return static_cast<std::uint32_t>(rng_.between(1, 64));
    if (dice < 80) return static_cast<std::uint32_t>(rng_.between(1, std::min(max_size_, 3000u)));
    return static_cast<std::uint32_t>(rng_.between(1, max_size_));
}

// Source elements of odd sizes at odd places; the payload is what they hold.
void World::gather(Side& side, std::uint32_t size, Op& op, std::vector<Sge>& sges) {
    const auto most = static_cast<std::uint32_t>(rng_.below(side.limits.send_sge + 1));
    const std::uint32_t pieces = size == 0 ? most : std::max(most, 1u);
    std::uint32_t left = size;
    for (std::uint32_t i = 0; i < pieces; ++i) {
        const auto part = i + 1 == pieces ? left : static_cast<std::uint32_t>(rng_.below(left + 1));
        left -= part;
        Range range{0, 0};
        if (part != 0) {
            const Region* home;
            do {
                home = &side.regions[rng_.below(side.regions.size())];
            } while (home->rights != access::kRemoteRead || home->at.length < part);
            range = {home->at.offset + rng_.below(home->at.length - part + 1), part};
        }
        sges.push_back(side.sge(range));
        const auto from = side.arena.begin() + static_cast<std::ptrdiff_t>(range.offset);
        op.payload.insert(op.payload.end(), from, from + range.length);
    }
}

bool World::scatter(Side& side, std::uint32_t size, std::uint32_t pieces, std::vector<Range>& sink) {
    std::uint32_t left = size;
    for (std::uint32_t i = 0; i < pieces; ++i) {
        const auto part = i + 1 == pieces ? left : static_cast<std::uint32_t>(rng_.below(left + 1));
        left -= part;
        Range range{0, 0};
        if (part != 0 && !side.take(side.inbox, part, range)) return false;
        sink.push_back(range);
    }
    return left == 0;
}

bool World::build_write(Side& side, std::uint32_t size, Op& op, SendWr& wr, std::vector<Sge>& sges) {
    Range target{0, 0};
    if (size == 0) {  // neither is looked at (RFC 5041 5.2)
        wr.rkey = static_cast<std::uint32_t>(rng_.below(3));
        wr.remote_addr = rng_.next();
    } else {
        if (!side.peer->take(side.peer->target, size, target)) return false;
        const Region& region = side.peer->region_of(target.offset);
        wr.rkey = region.stag;
        wr.remote_addr = region.to_of(target.offset);
    }
    op.sink = {target};
    gather(side, size, op, sges);
    return true;
}

void World::plan_receive(Side& receiver, std::uint32_t at_least) {
    std::vector<Range> sink;
    const std::uint64_t most = at_least == 0 ? receiver.limits.recv_sge + 1 : receiver.limits.recv_sge;
    const std::uint32_t slack = rng_.chance(50) ? 0 : random_size();
    const auto pieces = static_cast<std::uint32_t>(at_least == 0 ? rng_.below(most) : rng_.between(1, most));
    if (!scatter(receiver, at_least + (pieces != 0 ? slack : 0), pieces, sink)) {
        sink.clear();
        if (at_least != 0) throw Failure("the simulation's inbox is too small");
    }
    planned_[receiver.number].push_back(std::move(sink));
}

// Up to `size` octets of room in the receive that is the sender's next one to take: it is there, or planned, or is
// planned now.
std::uint32_t World::room_to_receive(const Side& side, std::uint32_t size) {
    Side& receiver = *side.peer;
    const std::size_t number = receives_due_[side.number];
    const std::size_t posted = receiver.receives.size();
    std::uint32_t capacity = 0;
    if (number < posted) {
        capacity = receiver.receives[number].capacity;
    } else if (number - posted < planned_[receiver.number].size()) {
        for (const Range& range : planned_[receiver.number][number - posted])
            capacity += range.length;
    } else {
        if (receiver.inbox.length < reserve()) size = 0;
        plan_receive(receiver, size);
        capacity = size;
    }
    return std::min(size, capacity);
}

bool World::build_send(Side& side, std::uint32_t size, Op& op, SendWr& wr, std::vector<Sge>& sges) {
    Side& receiver = *side.peer;
    size = room_to_receive(side, size);
    if (op.opcode == WrOpcode::kSendInv) {
        Range range;
        if (!receiver.take(receiver.invalid, 64, range)) {
            op.opcode = wr.opcode = WrOpcode::kSend;
        } else {
            const std::uint64_t to = rng_.next() >> 1;
            wr.invalidate_stag = op.invalidated =
                receiver.memory.add(Side::kPd, receiver.arena.data() + range.offset, 64, to,
                                    rng_.chance(50) ? access::kRemoteRead : access::kRemoteWrite);
        }
    }
    gather(side, size, op, sges);
    return true;
}

bool World::build_read(Side& side, std::uint32_t size, Op& op, SendWr& wr, std::vector<Sge>& sges) {
    Side& source = *side.peer;
    if (side.inbox.length < reserve() + 4 * max_size_) size = 0;  // what is left is for receives
    if (size == 0) {
        wr.rkey = static_cast<std::uint32_t>(rng_.next());
        wr.remote_addr = rng_.next();
    } else {
        // Either octets that never change, or those of a Write before this Read (RDMAP-60).
        const Op* written = nullptr;
        for (std::uint64_t i = 0; i < side.ops.size() && rng_.chance(90); ++i) {
            const Op& op_before = side.ops[rng_.below(side.ops.size())];
            if (op_before.opcode == WrOpcode::kWrite && !op_before.payload.empty()) written = &op_before;
        }
        std::size_t offset;
        if (written != nullptr && rng_.chance(50)) {
            size = std::min(size, static_cast<std::uint32_t>(written->payload.size()));
            offset = written->sink[0].offset;
            op.payload.assign(written->payload.begin(), written->payload.begin() + size);
        } else {
            const Region* home;
            do {
                home = &source.regions[rng_.below(source.regions.size())];
            } while (home->rights != access::kRemoteRead || home->at.length < size);
            offset = home->at.offset + rng_.below(home->at.length - size + 1);
            const auto from = source.arena.begin() + static_cast<std::ptrdiff_t>(offset);
            op.payload.assign(from, from + size);
        }
        const Region& region = source.region_of(offset);
        wr.rkey = region.stag;
        wr.remote_addr = region.to_of(offset);
    }
    const auto pieces = static_cast<std::uint32_t>(size == 0 ? rng_.below(side.limits.send_sge + 1)
                                                             : rng_.between(1, side.limits.send_sge));
    if (!scatter(side, size, pieces, op.sink)) return false;
    for (const Range& range : op.sink)
        sges.push_back(side.sge(range));
    return true;
}

// Its result is what the word will be when all atomics before it are done.
bool World::build_atomic(Side& side, Op& op, SendWr& wr, std::vector<Sge>& sges) {
    Side& at = *side.peer;
    Range result;
    if (side.inbox.length < reserve() + 4 * max_size_ || !side.take(side.inbox, sizeof(std::uint64_t), result))
        return false;
    const std::size_t word = rng_.below(at.words.size());
    const std::uint64_t before = at.word_values[word].back();
    wr.rkey = at.words_stag;
    wr.remote_addr = reinterpret_cast<std::uintptr_t>(&at.words[word]);
    wr.atomic = {rng_.next(), rng_.next()};
    if (op.opcode == WrOpcode::kCmpSwap && rng_.chance(70)) wr.atomic.compare_add = before;
    const auto* const octets = reinterpret_cast<const std::byte*>(&before);
    op.payload.assign(octets, octets + sizeof before);
    op.sink = {result};
    sges.push_back(side.sge(result));
    return true;
}

// What an atomic that is posted makes of its word, in time.
void World::note_atomic(Side& at, const SendWr& wr) {
    const std::size_t word = (wr.remote_addr - reinterpret_cast<std::uintptr_t>(at.words.data())) / sizeof(at.words[0]);
    const std::uint64_t before = at.word_values[word].back(), operand = wr.atomic.compare_add;
    const std::uint64_t after = wr.opcode == WrOpcode::kFetchAdd ? before + operand
                                : before == operand              ? wr.atomic.swap
                                                                 : before;
    at.word_values[word].push_back(after);
}

bool World::build(Side& side, WrOpcode opcode, std::uint32_t size, Op& op, SendWr& wr, std::vector<Sge>& sges) {
    op.opcode = wr.opcode = opcode;
    switch (opcode) {
        case WrOpcode::kWrite:
        case WrOpcode::kWriteImm:
            if (has_immediate(opcode)) room_to_receive(side, 0);
            return build_write(side, size, op, wr, sges);
        case WrOpcode::kCmpSwap:
        case WrOpcode::kFetchAdd:
            return build_atomic(side, op, wr, sges);
        case WrOpcode::kRead:
            return build_read(side, size, op, wr, sges);
        default:
            return build_send(side, size, op, wr, sges);
    }
}

bool World::post_op(Side& side) {
    if (side.ops.size() >= ops_per_side_ || side.qp->state() != QpState::kRts) return true;
    const std::uint64_t dice = rng_.below(100);
    WrOpcode opcode = dice < 35   ? WrOpcode::kWrite
                      : dice < 65 ? WrOpcode::kSend
                      : dice < 75 ? WrOpcode::kSendInv
                                  : WrOpcode::kRead;
    const bool no_reads = parameters_[side.number].ord == 0;
    if (opcode == WrOpcode::kRead && no_reads) {
        check(side.qp->post_send({0, opcode, 0, {}, 0, 0, {0}}) == PostResult::kInvalid,
              "a Read with ORD 0");  // RDMAP-68
        opcode = WrOpcode::kWrite;
    }
    if (rng_.chance(30)) opcode = rfc7306_kin(side, opcode);
    // Whether there is room is found out by trying, with something that cannot be wrong.
    Op op{next_wr_id_++, opcode, false, {}, {}, 0, false, 0};
    SendWr wr{op.wr_id, opcode, 0, {}, 0, 0, {0}};
    std::vector<Sge> sges;
    if (!build(side, opcode, random_size(), op, wr, sges)) return false;
    if (has_immediate(op.opcode)) wr.imm_data = op.imm_data = static_cast<std::uint32_t>(rng_.next());
    if (rng_.chance(70)) wr.flags |= send_flag::kSignaled;
    if (rng_.chance(10)) wr.flags |= send_flag::kFence;
    if (rng_.chance(20)) wr.flags |= send_flag::kSolicited;
    op.signaled = side.limits.sig_all || (wr.flags & send_flag::kSignaled) != 0;

    Bytes copy;
    std::vector<Sge> inline_sges;
    if (!awaits_response(op.opcode) && op.payload.size() <= side.limits.max_inline && rng_.chance(30)) {
        wr.flags |= send_flag::kInline;
        copy = op.payload;
        std::size_t at = 0;
        for (const Sge& sge : sges) {
            inline_sges.push_back({reinterpret_cast<std::uintptr_t>(copy.data() + at), sge.length, 0xbad});
            at += sge.length;
        }
        wr.sges = inline_sges;
    } else {
        wr.sges = sges;
    }
    PostResult result = side.qp->post_send(wr);
    for (int tries = 0; result == PostResult::kFull && tries < 200 && side.connected(); ++tries) {
        step(side);
        if (rng_.chance(50)) step(*side.peer);
        if (rng_.chance(20)) post_receive(*side.peer);
        if (side.qp->state() == QpState::kErr) return false;
        result = side.qp->post_send(wr);
    }
    std::fill(copy.begin(), copy.end(), std::byte(0xee));  // VERBS-7: may be reused at once
    if (result == PostResult::kFull || result == PostResult::kBadState) return false;
    check(result == PostResult::kOk, "post_send");
    if (op.takes_receive()) ++receives_due_[side.number];
    if (is_atomic(op.opcode)) note_atomic(*side.peer, wr);
    announce(side, op, wr);
    side.ops.push_back(std::move(op));
    side.doorbell();
    return true;
}

// The same with Immediate Data, or an atomic instead of a Read; where the peer has not agreed, that is refused.
WrOpcode World::rfc7306_kin(Side& side, WrOpcode opcode) {
    const WrOpcode kin = opcode == WrOpcode::kRead ? rng_.pick({WrOpcode::kCmpSwap, WrOpcode::kFetchAdd})
                         : is_write(opcode)        ? WrOpcode::kWriteImm
                                                   : WrOpcode::kSendImm;
    if (parameters_[side.number].rfc7306) return kin;
    std::uint64_t result = 0;
    const Sge sge{reinterpret_cast<std::uintptr_t>(&result), sizeof result, 0};
    check(side.qp->post_send({0, kin, 0, {&sge, 1}, 0, 0, {0}}) == PostResult::kNotAgreed, "RFC 7306 without consent");
    return opcode;
}

void World::announce(const Side& side, const Op& op, const SendWr& wr) {
    auto& announced = truth_.halves[side.number].announced;
    const bool solicited = op.takes_receive() && (wr.flags & send_flag::kSolicited) != 0;
    const bool fenced = (wr.flags & send_flag::kFence) != 0;
    const bool invalidates = op.opcode == WrOpcode::kSendInv;
    Announced message{op.opcode,
                      solicited,
                      fenced,
                      static_cast<std::uint32_t>(op.payload.size()),
                      invalidates ? wr.invalidate_stag : wr.rkey,
                      wr.remote_addr};
    message.imm_data = op.imm_data;
    message.atomic = wr.atomic;
    if (op.opcode == WrOpcode::kWriteImm) {
        message.opcode = WrOpcode::kWrite;
        message.solicited = false;
        announced.push_back(message);
        message = {WrOpcode::kWriteImm, solicited, false, 0, 0, 0, op.imm_data, {}};
    } else if (op.opcode == WrOpcode::kSendImm) {
        announced.push_back({WrOpcode::kSendImm, false, fenced, 0, 0, 0, op.imm_data, {}});
        message.opcode = WrOpcode::kSend;
        message.fenced = false;
    }
    announced.push_back(message);
}

bool World::post_receive(Side& side) {
    if (receives_stopped_) return false;
    auto& planned = planned_[side.number];
    if (planned.empty()) {
        if (side.receives.size() > ops_per_side_ || side.inbox.length < reserve() + 4 * max_size_) return false;
        plan_receive(side, 0);
    }
    Receive receive{next_wr_id_++, planned.front(), 0, false};
    std::vector<Sge> sges;
    for (const Range& range : receive.sink) {
        sges.push_back(side.sge(range));
        receive.capacity += range.length;
    }
    const PostResult result = side.qp->post_recv({receive.wr_id, sges});
    if (result == PostResult::kFull) return false;
    check(result == PostResult::kOk, "post_recv");
    planned.pop_front();
    side.receives.push_back(std::move(receive));
    side.flush();
    return true;
}

}  // namespace swrnic::engine::sim
