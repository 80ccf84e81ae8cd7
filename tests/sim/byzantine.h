// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What can happen to octets between the two sides.
#pragma once

#include <array>
#include <memory>

#include "sim/link.h"
#include "wire/fpdu.h"

namespace swrnic::engine::sim {

class HonestWire final : public Tap {
  public:
    explicit HonestWire(Link& link) : link_(link) {}
    void sent(std::span<const std::byte> octets) override { link_.push(octets); }

  private:
    Link& link_;
};

// Flips one bit, at a chosen place of the stream.
class FlippingWire final : public Tap {
  public:
    FlippingWire(Link& link, std::uint64_t at, unsigned bit) : link_(link), at_(at), bit_(bit) {}
    void sent(std::span<const std::byte> octets) override {
        Bytes copy(octets.begin(), octets.end());
        if (at_ >= seen_ && at_ < seen_ + copy.size()) {
            copy[at_ - seen_] ^= std::byte(1 << bit_);
            flipped = true;
        }
        seen_ += copy.size();
        link_.push(copy);
    }
    bool flipped = false;

  private:
    Link& link_;
    const std::uint64_t at_;
    const unsigned bit_;
    std::uint64_t seen_ = 0;
};

// Ends the stream at a chosen place: whatever comes behind is lost, then FIN.
class CuttingWire final : public Tap {
  public:
    CuttingWire(Link& link, std::uint64_t at) : link_(link), left_(at) {}
    void sent(std::span<const std::byte> octets) override {
        const std::size_t part = std::min<std::size_t>(octets.size(), left_);
        link_.push(octets.first(part));
        left_ -= part;
        if (left_ == 0) link_.fin = cut = true;
    }
    bool cut = false;

  private:
    Link& link_;
    std::uint64_t left_;
};

// How often each field was lied about.
inline constexpr const char* kLiedAbout[] = {"ULPDU_Length",
                                             "PAD",
                                             "DDP control",
                                             "RDMAP control",
                                             "tagged STag",
                                             "TO",
                                             "invalidate",
                                             "QN",
                                             "MSN",
                                             "MO",
                                             "sink STag",
                                             "sink TO",
                                             "size",
                                             "source STag",
                                             "source TO",
                                             "atomic's opcode",
                                             "Request Identifier",
                                             "atomic's STag",
                                             "atomic's TO",
                                             "use of Immediate Data",
                                             "Terminate",
                                             "Terminate's length",
                                             "Terminate's header"};
using Lies = std::array<std::uint64_t, std::size(kLiedAbout)>;

// A peer with a good MPA and no manners: changes fields, repeats, leaves out and invents messages.
class ByzantineWire final : public Tap {
  public:
    struct Target {  // a region at the victim
        std::uint32_t stag;
        std::uint64_t to, length;
    };
    ByzantineWire(Link& link, Rng& rng, bool crc, bool markers, unsigned percent, std::vector<Target> targets,
                  Lies& lies)
        : link_(link),
          rng_(rng),
          crc_(crc),
          markers_(markers),
          percent_(percent),
          targets_(std::move(targets)),
          deframer_(std::make_unique<wire::FpduStream>(crc, markers)),
          lies_(lies),
          about_(rng.chance(70) ? rng.below(lies.size()) : lies.size()) {}
    void sent(std::span<const std::byte> octets) override;
    bool lied = false;

  private:
    void lie(Bytes& ulpdu);
    bool lie_about_a_field(Bytes& ulpdu);
    void lie_in_one_field(Bytes& ulpdu);
    Bytes terminate();
    void push(std::span<const std::byte> ulpdu);
    Bytes invented();
    const Target& target() { return targets_[rng_.below(targets_.size())]; }
    std::uint64_t near(const Target& region, std::size_t payload);

    Link& link_;
    Rng& rng_;
    const bool crc_, markers_;
    const unsigned percent_;
    const std::vector<Target> targets_;
    std::unique_ptr<wire::FpduStream> deframer_;
    Lies& lies_;
    const std::size_t about_;  // the only field that is lied about; lies_.size(): whatever comes
};

}  // namespace swrnic::engine::sim
