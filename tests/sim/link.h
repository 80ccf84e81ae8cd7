// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A byte stream in memory that behaves like TCP at its worst: it splits, coalesces, stalls, ends and breaks, by seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/core/transport.h"
#include "sim/allocation_failures.h"

namespace swrnic::engine::sim {

using Bytes = std::vector<std::byte>;

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
inline void check(bool good, const char* what) {
    if (!good) throw Failure(what);
}
inline void check(bool good, const char* what, std::uint64_t a, std::uint64_t b = 0) {
    if (!good) throw Failure(std::string(what) + " (" + std::to_string(a) + ", " + std::to_string(b) + ")");
}

class Rng {
  public:
    explicit Rng(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
    std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
    bool chance(unsigned percent) { return below(100) < percent; }
    template <typename T>
    T pick(std::initializer_list<T> from) {
        return from.begin()[below(from.size())];
    }

  private:
    std::uint64_t state_;
};

// Looks at, or changes, what one side sends, before it is under way.
class Tap {
  public:
    virtual ~Tap() = default;
    virtual void sent(std::span<const std::byte> octets) = 0;
};

// One direction.
struct Link {
    Bytes data;
    std::size_t head = 0;
    std::size_t window = 1 << 20;
    bool fin = false;          // behind data
    bool broken = false;       // both ends see it once they look
    bool reader_gone = false;  // what is sent is swallowed
    std::uint64_t total = 0;   // octets ever

    std::size_t size() const { return data.size() - head; }
    void push(std::span<const std::byte> octets) {
        if (reader_gone) return;
        if (head != 0 && head * 2 > data.size()) {
            data.erase(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(head));
            head = 0;
        }
        data.insert(data.end(), octets.begin(), octets.end());
        total += octets.size();
    }
};

struct Weather {
    unsigned rx_again = 10, tx_again = 10;  // percent
    bool storms = false;                    // now and then nothing moves for long
    unsigned cut_style = 0;                 // 0: as much as there is; 1: octets; 2: small; 3: any
    std::uint32_t emss = 1460, emss_max = 1460;
    bool emss_moves = false;
};

class SimTransport final : public Transport {
  public:
    SimTransport(Rng& rng, Link& out, Link& in, Weather& weather, Tap& observer, Tap& wire)
        : rng_(rng), out_(out), in_(in), weather_(weather), observer_(observer), wire_(wire) {}
    ~SimTransport() override {
        out_.fin = true;
        in_.reader_gone = true;
        in_.data.clear();
        in_.head = 0;
    }

    IoResult receive(const IoSlice* slices, std::size_t count) override {
        const Plenty here;
        if (in_.broken) return {IoStatus::kBroken, 0};
        if (in_.size() == 0) return {in_.fin ? IoStatus::kEof : IoStatus::kAgain, 0};
        if (storm() || rng_.chance(weather_.rx_again)) return {IoStatus::kAgain, 0};
        std::size_t left = cut(in_.size());
        std::size_t moved = 0;
        for (std::size_t i = 0; i < count && left != 0; ++i) {
            const std::size_t part = std::min(slices[i].length, left);
            std::memcpy(slices[i].base, in_.data.data() + in_.head, part);
            in_.head += part;
            moved += part;
            left -= part;
        }
        check(moved != 0, "receive into no room");
        return {IoStatus::kOk, moved};
    }

    IoResult send(const IoSlice* slices, std::size_t count) override {
        const Plenty here;
        check(count <= 1024, "more slices than IOV_MAX");
        if (out_.broken || finished_) return {IoStatus::kBroken, 0};  // EPIPE behind our own FIN
        if (out_.size() >= out_.window || storm() || rng_.chance(weather_.tx_again)) return {IoStatus::kAgain, 0};
        std::size_t left = cut(out_.window - out_.size());
        Bytes taken;
        for (std::size_t i = 0; i < count && left != 0; ++i) {
            check(slices[i].length != 0, "an empty slice");
            const std::size_t part = std::min(slices[i].length, left);
            taken.insert(taken.end(), slices[i].base, slices[i].base + part);
            left -= part;
        }
        check(!taken.empty(), "nothing to send");
        observer_.sent(taken);
        wire_.sent(taken);
        return {IoStatus::kOk, taken.size()};
    }

    void finish_sending() override { out_.fin = finished_ = true; }
    std::uint32_t emss() const override {
        if (weather_.emss_moves && rng_.chance(5))
            weather_.emss = static_cast<std::uint32_t>(rng_.between(128, weather_.emss_max));
        return weather_.emss;
    }

  private:
    bool storm() {
        if (storm_ == 0 && weather_.storms && rng_.chance(2)) storm_ = rng_.between(1, 100);
        if (storm_ == 0) return false;
        --storm_;
        return true;
    }
    std::size_t cut(std::size_t most) {
        switch (weather_.cut_style) {
            case 0:
                return most;
            case 1:
                return std::min<std::size_t>(most, rng_.between(1, 3));
            case 2:
                return std::min<std::size_t>(most, rng_.between(1, 200));
            default:
                return rng_.chance(30) ? most : std::min<std::size_t>(most, rng_.between(1, 1ull << rng_.below(17)));
        }
    }

    Rng& rng_;
    Link& out_;
    Link& in_;
    Weather& weather_;
    Tap& observer_;
    Tap& wire_;
    bool finished_ = false;
    std::uint64_t storm_ = 0;  // calls that it lasts
};

}  // namespace swrnic::engine::sim
