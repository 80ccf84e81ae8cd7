// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The course of one simulated life of a stream. The requests are made in workload.cpp.
#include "sim/world.h"

namespace swrnic::engine::sim {

const char* name(Mode mode) {
    constexpr const char* kNames[kModes] = {"clean", "disconnect", "abort",  "break",      "cut",      "flip-checked",
                                            "flip",  "byzantine",  "revoke", "no-receive", "no-memory"};
    return kNames[static_cast<int>(mode)];
}

World::World(std::uint64_t seed, std::optional<Mode> mode) : rng_(seed) {
    const std::uint64_t dice = rng_.below(20);
    mode_ = mode ? *mode : dice < 9 ? Mode::kClean : Mode(dice < 19 ? dice - 8 : rng_.between(1, kModes - 1));
    const bool tiny = rng_.chance(20);  // octet by octet
    max_size_ =
        tiny ? 300
             : static_cast<std::uint32_t>(rng_.pick<std::uint64_t>({64, 2000, 2000, 20000, 20000, 70000, 256 * 1024}));
    ops_per_side_ = static_cast<std::uint32_t>(rng_.between(1, max_size_ > 20000 ? 20 : 60));
    zone_ = std::max<std::uint32_t>(16 * 1024, std::min<std::uint32_t>(max_size_ * 24, 4096 * 1024));
    weather_.cut_style =
        tiny ? 1 : static_cast<unsigned>(rng_.pick<std::uint64_t>({0, 3, 3, max_size_ <= 2000 ? 2u : 0u}));
    weather_.rx_again = static_cast<unsigned>(rng_.pick<std::uint64_t>({0, 10, 60}));
    weather_.tx_again = static_cast<unsigned>(rng_.pick<std::uint64_t>({0, 10, 60}));
    weather_.storms = rng_.chance(15);
    weather_.emss_max = static_cast<std::uint32_t>(
        rng_.pick<std::uint64_t>({128, 536, 1448, 1460, 8948, 65483, rng_.between(128, 65483)}));
    weather_.emss = weather_.emss_max;
    weather_.emss_moves = rng_.chance(20);
    const bool narrow = max_size_ <= 20000 && rng_.chance(40);
    for (Link& link : links_)
        link.window = narrow ? rng_.between(1, 4000) : rng_.between(4000, 1 << 20);
    make_sides();
}

void World::make_sides() {
    for (int i = 0; i < 2; ++i) {
        Limits limits{};
        limits.sq = static_cast<std::uint32_t>(rng_.pick<std::uint64_t>({1, 2, 5, 16, 64}));
        limits.rq = static_cast<std::uint32_t>(rng_.pick<std::uint64_t>({1, 2, 5, 16, 64}));
        limits.send_sge = static_cast<std::uint32_t>(rng_.pick<std::uint64_t>({1, 2, 8, 32}));
        limits.recv_sge = static_cast<std::uint32_t>(rng_.pick<std::uint64_t>({1, 2, 8, 32}));
        limits.max_inline = static_cast<std::uint32_t>(rng_.pick<std::uint64_t>({0, 16, 256}));
        limits.cq = 1024;
        limits.sig_all = rng_.chance(20);
        sides_[i] = std::make_unique<Side>(i, rng_, zone_, limits);
        sides_[i]->strict = strict();
        sides_[i]->only_flush = strict() && mode_ != Mode::kRevoke && mode_ != Mode::kNoReceive;
    }
    sides_[0]->peer = sides_[1].get();
    sides_[1]->peer = sides_[0].get();
}

void World::connect() {
    const bool crc = mode_ == Mode::kFlipChecked || (mode_ != Mode::kFlip && rng_.chance(40));
    for (int i = 0; i < 2; ++i) {
        StreamParameters& mine = parameters_[i];
        mine = {};
        mine.initiator = i == 0;
        mine.crc = crc;
        mine.markers_tx = rng_.chance(25);
        mine.large_fpdu = rng_.chance(25);
        mine.p2p = rng_.chance(60);
        mine.ird = static_cast<std::uint16_t>(rng_.pick<std::uint64_t>({0, 1, 2, 4, 16}));
    }
    parameters_[1].large_fpdu = parameters_[0].large_fpdu;
    parameters_[0].short_first = parameters_[1].short_first = parameters_[0].large_fpdu && rng_.chance(50);
    parameters_[1].p2p = parameters_[0].p2p;
    parameters_[0].rfc7306 = parameters_[1].rfc7306 = rng_.chance(60);
    if (parameters_[0].p2p) {
        parameters_[0].rtr = rng_.pick<std::uint8_t>({rtr::kSend, rtr::kWrite, rtr::kRead});
        parameters_[1].rtr = static_cast<std::uint8_t>(parameters_[0].rtr | (rng_.chance(50) ? rng_.below(8) : 0));
    }
    truth_ = {};
    for (int i = 0; i < 2; ++i) {
        StreamParameters& mine = parameters_[i];
        mine.markers_rx = parameters_[1 - i].markers_tx;
        mine.ord = static_cast<std::uint16_t>(rng_.below(parameters_[1 - i].ird + 1u));
        truth_.halves[i].ord = mine.ord;
        links_[i] = Link{{}, 0, links_[i].window, false, false, false, 0};
        receives_due_[i] = 0;
        const std::uint32_t mulpdu = wire::mulpdu(weather_.emss_max, mine.markers_tx);
        observers_[i] = std::make_unique<Observer>(
            truth_, i,
            Observer::Rules{crc, mine.markers_tx, mine.initiator, mine.initiator ? mine.rtr : std::uint8_t{0},
                            mine.large_fpdu ? wire::kMaxUlpdu : mulpdu, strict(), mode_ == Mode::kRevoke});
        wires_[i] = std::make_unique<HonestWire>(links_[i]);
    }
    const int bad = static_cast<int>(rng_.below(2));
    const std::uint64_t volume = std::uint64_t{max_size_} * rng_.between(1, 10);
    const std::uint64_t where = rng_.chance(30) ? rng_.below(200) : rng_.below(volume);
    if (mode_ == Mode::kFlip || mode_ == Mode::kFlipChecked)
        wires_[bad] = std::make_unique<FlippingWire>(links_[bad], where, static_cast<unsigned>(rng_.below(8)));
    if (mode_ == Mode::kCut) wires_[bad] = std::make_unique<CuttingWire>(links_[bad], where);
    if (mode_ == Mode::kByzantine) {
        std::vector<ByzantineWire::Target> targets{{0, 0, 1}};
        for (const Region& region : sides_[1 - bad]->regions)
            targets.push_back({region.stag, region.to, region.at.length});
        wires_[bad] = std::make_unique<ByzantineWire>(links_[bad], rng_, crc, parameters_[bad].markers_tx,
                                                      static_cast<unsigned>(rng_.pick<std::uint64_t>({1, 5, 20, 100})),
                                                      targets, lies_);
    }
    for (int i = 0; i < 2; ++i) {
        sides_[i]->truth = &truth_;
        sides_[i]->connect(parameters_[i], std::make_unique<SimTransport>(rng_, links_[i], links_[1 - i], weather_,
                                                                          *observers_[i], *wires_[i]));
    }
}

void World::run() {
    const int lives = mode_ == Mode::kRevoke ? 1 : static_cast<int>(rng_.between(1, 2));
    for (int i = 0; i < lives; ++i)
        life(i + 1 == lives);
}

void World::life(bool last) {
    for (auto& side : sides_)  // receives before the stream is there
        for (std::uint64_t n = rng_.below(4); n != 0; --n)
            post_receive(*side);
    connect();
    if (mode_ == Mode::kNoMemory && rng_.chance(70)) misfortune();
    work();
    if (mode_ == Mode::kClean) {
        drain();
        for (int i = 0; i < 2; ++i) {
            check(sides_[i]->outbox.events.empty(), "an event in good weather");
            check(!sides_[i]->qp->has_fault(), "a fault in good weather");
        }
        sides_[rng_.below(2)]->disconnect();
        if (rng_.chance(20)) sides_[rng_.below(2)]->disconnect();
    } else {
        misfortune();
    }
    until_over();
    end_of_life(last);
}

// One random turn of whoever drives: the application or the engine's thread.
void World::step(Side& side) {
    side.let_time_pass();
    switch (rng_.below(4)) {
        case 0:
            side.drive_from_poll();
            break;
        case 1:
            side.drive_from_thread();
            break;
        case 2:
            side.poll();
            break;
        default:
            side.drive_from_poll();
            side.drive_from_thread();
            side.poll();
            break;
    }
}

void World::act(Side& side) {
    if (rng_.chance(25)) post_op(side);
    if (rng_.chance(25)) post_receive(side);
    step(side);
}

void World::work() {
    // Without RTR the Responder waits for the Initiator's first message.
    while (!post_op(*sides_[0])) {
    }
    const std::uint64_t most = mode_ == Mode::kClean ? 100000 : rng_.between(1, 8u * ops_per_side_);
    for (std::uint64_t i = 0; i < most; ++i) {
        if (mode_ == Mode::kClean && sides_[0]->ops.size() >= ops_per_side_ && sides_[1]->ops.size() >= ops_per_side_)
            break;
        act(*sides_[rng_.below(2)]);
    }
}

bool World::all_done() {
    for (int i = 0; i < 2; ++i) {
        Side& side = *sides_[i];
        if (side.qp->send_queue_busy() || links_[i].size() != 0) return false;
        if (side.receives_done < receives_due_[1 - i]) return false;
        TxGuard guard(side.qp->tx_lock());
        if (!side.qp->tx().is_done(guard)) return false;
    }
    return true;
}

std::uint64_t World::progress() const {
    std::uint64_t sum = links_[0].total + links_[1].total;
    for (int i = 0; i < 2; ++i)
        sum += links_[i].head + sides_[i]->ops_done + sides_[i]->receives_done + sides_[i]->receives.size();
    return sum;
}

void World::drain() {
    std::uint64_t seen = progress();
    for (int idle = 0; !all_done();) {
        for (auto& side : sides_) {
            check(side->connected(), "the stream ended in good weather");
            post_receive(*side);
            step(*side);
        }
        idle = progress() == seen ? idle + 1 : 0;
        seen = progress();
        check(idle < 5000, "nothing moves any more");
    }
}

void World::misfortune() {
    Side& side = *sides_[rng_.below(2)];
    switch (mode_) {
        case Mode::kDisconnect:
            side.disconnect();
            if (rng_.chance(30)) side.peer->disconnect();
            break;
        case Mode::kAbort:
            side.abort();
            if (rng_.chance(50)) links_[side.number].broken = true;
            break;
        case Mode::kBreak:
            links_[0].broken = links_[1].broken = true;
            break;
        case Mode::kRevoke: {
            const Region region = side.regions[rng_.below(side.regions.size())];
            check(side.memory.remove(region.stag), "remove");
            const auto from = side.arena.begin() + static_cast<std::ptrdiff_t>(region.at.offset);
            revoked_.push_back({&side, region, Bytes(from, from + region.at.length)});
            break;
        }
        case Mode::kNoReceive:
            receives_stopped_ = true;
            break;
        case Mode::kNoMemory:
            for (auto& each : sides_)
                each->failing_allocations = static_cast<unsigned>(rng_.pick<std::uint64_t>({5, 50, 100}));
            break;
        default:
            break;
    }
}

// The stream comes to its end, with the deadlines that the engine has around the core.
void World::until_over() {
    std::uint64_t seen = progress();
    int idle = 0;
    for (int rounds = 0; sides_[0]->connected() || sides_[1]->connected(); ++rounds) {
        check(rounds < 3000000, "no end");
        const bool traffic = mode_ != Mode::kClean && idle < 50;
        for (auto& side : sides_) {
            if (traffic && rng_.chance(20)) post_op(*side);
            if (traffic || mode_ == Mode::kClean) post_receive(*side);
            step(*side);
        }
        idle = progress() == seen ? idle + 1 : 0;
        seen = progress();
        if (idle < 3000) continue;
        check(mode_ != Mode::kClean, "the end does not come");
        bool waited = false;
        for (auto& side : sides_) {
            if (!side->connected() || side->stalls < 100) continue;
            side->give_up_waiting();
            side->stalls = 0;
            waited = true;
        }
        if (!waited) {
            // the user's turn
            Side& side = *sides_[rng_.below(2)];
            if (side.connected() && side.qp->state() != QpState::kRts) {
                side.finish(CloseReason::kGraceful);
            } else if (rng_.chance(50)) {
                side.disconnect();
            } else {
                side.abort();
            }
        }
        idle = 0;
    }
}

void World::end_of_life(bool last) {
    for (int i = 0; i < 2; ++i) {
        Side& side = *sides_[i];
        check(side.qp->state() == QpState::kErr, "ERR at the end");
        side.expect_all_completed();
        check(side.outbox.closed.size() == 1, "one report of the end", side.outbox.closed.size());
        if (mode_ == Mode::kClean) {
            check(side.outbox.closed[0].reason == CloseReason::kGraceful, "a graceful end");
            check(side.outbox.events.empty(), "an event in good weather");
            observers_[i]->expect_boundary();
            check(!observers_[i]->inside_message(), "the stream ends inside a message");
        }
        const bool due = i == 1 && parameters_[1].p2p;
        check(side.outbox.ready.size() <= (due ? 1 : 0), "told ready for nothing");
        check(!due || mode_ != Mode::kClean || side.outbox.ready.size() == 1, "not told ready");
        check(side.outbox.events.size() <= 1, "more than one event");
        // What is posted now is flushed at once.
        if (rng_.chance(50)) {
            check(side.qp->post_send({7777, WrOpcode::kSend, 0, {}, 0, 0, 0}) == PostResult::kOk, "post in ERR");
            side.flush();
            int flushed = 0;
            side.send_cq.poll(2, [&](const WorkCompletion& completion) {
                flushed += completion.wr_id == 7777 && completion.status == WcStatus::kWrFlushErr;
            });
            check(flushed == 1, "flush in ERR");
        }
    }
    for (auto& side : sides_)
        verify(*side);
    for (auto& side : sides_) {
        side->outbox = Outbox{};
        side->failing_allocations = 0;
        side->receives.clear();
        side->receives_done = 0;
        side->ops.clear();
        side->ops_done = 0;
        side->initial = side->arena;
        side->begin_words();
        if (last) continue;
        check(side->qp->apply(QpEvent::kToReset), "to RESET");
        RxGuard rx(side->qp->rx_lock());
        TxGuard tx(side->qp->tx_lock());
        side->qp->reset(rx, tx);
        check(side->qp->apply(QpEvent::kToInit), "to INIT");
    }
    receives_stopped_ = false;
    planned_[0].clear();
    planned_[1].clear();
}

// ---- memory ----

void World::verify(Side& side) {
    Bytes image = side.initial;
    strict() ? verify_strict(side, image) : verify_contained(side, image);
    if (strict()) verify_words(side);
    if (std::memcmp(image.data(), side.arena.data(), image.size()) != 0) {
        const auto wrong = std::mismatch(image.begin(), image.end(), side.arena.begin()).first;
        check(false, "an octet that nobody may have written", static_cast<std::uint64_t>(side.number),
              static_cast<std::uint64_t>(wrong - image.begin()));
    }
    for (const Revoked& revoked : revoked_) {
        if (revoked.side != &side) continue;
        check(std::memcmp(side.arena.data() + revoked.region.at.offset, revoked.content.data(),
                          revoked.content.size()) == 0,
              "an octet was placed behind deregistration");
    }
}

// What is certain must be there; of the rest each octet is what it was or what it was to become.
void World::verify_strict(const Side& side, Bytes& image) const {
    const auto place = [&](const Bytes& payload, const std::vector<Range>& sink, bool certain) {
        std::size_t at = 0;
        for (const Range& range : sink) {
            for (std::size_t i = 0; i < range.length && at < payload.size(); ++i, ++at) {
                std::byte& octet = image[range.offset + i];
                const std::byte now = side.arena[range.offset + i];
                check(now == payload[at] || (!certain && now == octet), "an octet that was never sent",
                      range.offset + i);
                octet = now;
            }
        }
    };
    const bool clean = mode_ == Mode::kClean;
    for (const Op& op : side.ops)
        if (awaits_response(op.opcode)) place(op.payload, op.sink, clean || op.certain);
    std::size_t sends = 0;
    for (const Op& op : side.peer->ops) {
        if (awaits_response(op.opcode)) continue;
        if (is_write(op.opcode)) place(op.payload, op.sink, clean || op.certain);
        if (!op.takes_receive() || sends == side.receives.size()) continue;
        const Receive& receive = side.receives[sends++];
        if (!is_write(op.opcode)) place(op.payload, receive.sink, clean || op.certain);
    }
}

// The atomics of the peer were done in their order, and once each, up to some of them.
void World::verify_words(const Side& side) const {
    for (std::size_t i = 0; i < side.words.size(); ++i) {
        const std::vector<std::uint64_t>& values = side.word_values[i];
        check(mode_ == Mode::kClean ? side.words[i] == values.back()
                                    : std::find(values.begin(), values.end(), side.words[i]) != values.end(),
              "what atomics made of a word", i);
    }
}

// A peer that lies writes where it may: regions with remote write, posted receives, sinks of Reads.
void World::verify_contained(const Side& side, Bytes& image) const {
    const auto allow = [&](const Range& range) {
        std::memcpy(image.data() + range.offset, side.arena.data() + range.offset, range.length);
    };
    allow(side.target_zone);
    allow(side.invalid_zone);
    for (const Receive& receive : side.receives)
        for (const Range& range : receive.sink)
            allow(range);
    for (const Op& op : side.ops)
        if (awaits_response(op.opcode))
            for (const Range& range : op.sink)
                allow(range);
}

}  // namespace swrnic::engine::sim
