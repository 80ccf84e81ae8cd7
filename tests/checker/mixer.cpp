// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mixer.h"

#include <algorithm>
#include <array>

#include "failure.h"

namespace checker {

namespace {
constexpr std::size_t kSourceSize = 1U << 20;
constexpr std::size_t kTargetSize = 1U << 22;
constexpr std::uint64_t kSourceSalt = 0x736f75726365U;
constexpr std::uint64_t kTargetSalt = 0x746172676574U;

std::uint64_t send_seed(std::uint64_t seed, std::uint64_t number) {
    return mix(seed + number);
}

// A request's own memory: one or two elements.
std::vector<std::size_t> parts(std::size_t size, Rng& rng) {
    if (rng.one_in(2)) return {size};
    const std::size_t first = rng.below(static_cast<std::uint32_t>(size) + 1);
    return {first, size - first};
}
}  // namespace

Mixer::Mixer(Endpoint& ep, std::uint64_t seed, bool active, std::size_t largest, std::uint32_t requests)
    : ep_(ep),
      seed_mine_(mix(seed + (active ? 1 : 2))),
      seed_theirs_(mix(seed + (active ? 2 : 1))),
      largest_(std::min(largest, kSourceSize)),
      requests_(requests),
      rng_(mix(seed_mine_)),
      plan_(make_plan(seed_mine_)),
      peer_plan_(make_plan(seed_theirs_)),
      source_(ep.pd(), kSourceSize, kRemote, rng_),
      target_(ep.pd(), kTargetSize, kRemote, rng_) {
    source_.fill(seed_mine_ ^ kSourceSalt);
    for (const Plan& plan : peer_plan_) {
        if (plan.kind != Kind::kSend) continue;
        const std::size_t room = plan.size + rng_.below(2) * 11;
        receives_.push_back(std::make_unique<Sg>(ep.pd(), parts(room, rng_), kLocal, rng_));
        receive_sizes_.push_back(plan.size);
        ep.recv(sends_to_come_++, receives_.back()->list());
    }
}

std::vector<Mixer::Plan> Mixer::make_plan(std::uint64_t seed) const {
    Rng rng(seed);
    std::vector<Plan> plan;
    std::uint64_t sends = 0;
    std::uint64_t target_used = 0;
    for (std::uint32_t i = 0; i < requests_; ++i) {
        std::size_t size = rng.below(static_cast<std::uint32_t>(largest_) + 1);
        if (rng.one_in(3)) size = rng.below(100);
        auto kind = static_cast<Kind>(rng.below(3));
        if (i + 1 == requests_) kind = Kind::kSend;  // its receive tells the peer that all Writes are placed
        if (kind == Kind::kWrite && target_used + size > kTargetSize) kind = Kind::kRead;
        std::uint64_t place = 0;
        if (kind == Kind::kSend) place = sends++;
        if (kind == Kind::kWrite) place = target_used;
        if (kind == Kind::kRead) place = rng.below(static_cast<std::uint32_t>(kSourceSize - size) + 1);
        if (kind == Kind::kWrite) target_used += size;
        plan.push_back({kind, size, place, !rng.one_in(3)});
    }
    plan.back().signalled = true;
    return plan;
}

Mixer::Remote Mixer::mine() {
    return {source_.address(), target_.address(), source_.rkey(), target_.rkey()};
}

void Mixer::post_next() {
    const std::uint32_t id = posted_++;
    const Plan& plan = plan_[id];
    const int access = plan.kind == Kind::kRead ? kSink : 0;
    const bool split = plan.kind != Kind::kRead;  // several elements of a Read are for the group "sge"
    auto memory = split ? std::make_unique<Sg>(ep_.pd(), parts(plan.size, rng_), access, rng_)
                        : std::make_unique<Sg>(ep_.pd(), plan.size, access, rng_);
    const unsigned flags = flag_if(plan.signalled, IBV_SEND_SIGNALED) | flag_if(rng_.one_in(7), IBV_SEND_FENCE);
    switch (plan.kind) {
        case Kind::kSend:
            memory->fill(send_seed(seed_mine_, plan.place));
            ep_.send(id, memory->list(), flags);
            break;
        case Kind::kWrite:
            for (std::size_t i = 0, offset = 0; i < memory->list().size(); ++i) {
                memory->buffer(i).fill(seed_mine_ ^ kTargetSalt, plan.place + offset);
                offset += memory->buffer(i).size();
            }
            ep_.write(id, memory->list(), remote_.target + plan.place, remote_.target_key, flags);
            break;
        case Kind::kRead:
            ep_.read(id, memory->list(), remote_.source + plan.place, remote_.source_key, flags);
            break;
    }
    flight_.push_back({id, plan, std::move(memory)});
}

bool Mixer::reap_send() {
    ibv_wc wc{};
    if (ibv_poll_cq(ep_.send_cq(), 1, &wc) != 1) return false;
    expect(wc.status == IBV_WC_SUCCESS, "mixed traffic, request {}: {}", wc.wr_id, status_text(wc));
    for (bool found = false; !found;) {
        expect(!flight_.empty(), "mixed traffic: completion of request {}, which is not outstanding", wc.wr_id);
        const Flight& flight = flight_.front();
        found = flight.id == wc.wr_id;
        expect(found || !flight.plan.signalled, "mixed traffic: request {} completed before {}", wc.wr_id, flight.id);
        if (flight.plan.kind == Kind::kRead) {
            flight.memory->expect_message(seed_theirs_ ^ kSourceSalt, flight.plan.size,
                                          fmt::format("mixed traffic, Read {}", flight.id), flight.plan.place);
        }
        octets_ += flight.plan.size;
        ++completed_;
        flight_.pop_front();
    }
    return true;
}

bool Mixer::reap_recv() {
    ibv_wc wc{};
    if (ibv_poll_cq(ep_.recv_cq(), 1, &wc) != 1) return false;
    expect(wc.status == IBV_WC_SUCCESS, "mixed traffic, receive {}: {}", wc.wr_id, status_text(wc));
    expect(wc.wr_id == received_, "mixed traffic: receive {} completed, expected {}", wc.wr_id, received_);
    const std::size_t size = receive_sizes_[received_];
    expect(wc.byte_len == size, "mixed traffic, receive {}: byte_len {}, expected {}", wc.wr_id, wc.byte_len, size);
    receives_[received_]->expect_message(send_seed(seed_theirs_, received_), size,
                                         fmt::format("mixed traffic, receive {}", received_));
    receives_[received_].reset();
    ++received_;
    return true;
}

bool Mixer::step() {
    bool moved = false;
    const std::size_t depth = ep_.cap().max_send_wr < 32 ? ep_.cap().max_send_wr : 32;
    while (posted_ < requests_ && flight_.size() < depth) {
        post_next();
        moved = true;
    }
    moved = reap_send() || moved;
    moved = (received_ < sends_to_come_ && reap_recv()) || moved;
    return moved;
}

void Mixer::verify_end() {
    std::uint64_t written = 0;
    for (const Plan& plan : peer_plan_)
        written += plan.kind == Kind::kWrite ? plan.size : 0;
    target_.expect_message(seed_theirs_ ^ kTargetSalt, written, "mixed traffic, the Writes' target");
    source_.expect_message(seed_mine_ ^ kSourceSalt, kSourceSize, "mixed traffic, the Reads' source");
}

std::string Mixer::where() const {
    return fmt::format("{} of {} requests posted, {} complete, {} of {} receives", posted_, requests_, completed_,
                       received_, sends_to_come_);
}

}  // namespace checker
