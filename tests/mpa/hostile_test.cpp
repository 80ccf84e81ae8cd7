// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Hostile peers: every single-bit flip of valid frames, and random octets. Results may not depend on the cut, nothing
// may leave its buffer (End checks; the sanitizer builds check harder), and each flip must mean what its field means.
#include <gtest/gtest.h>

#include <random>

#include "machine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace swrnic::mpatest {
namespace {

constexpr std::size_t kFlags = 16 * 8, kRev = 17 * 8, kPdLength = 18 * 8, kData = 20 * 8;

std::vector<std::string> valid_frames(bool replies) {
    const std::string key = replies ? "4d504120494420526570204672616d65" : "4d504120494420526571204672616d65";
    return {key + "40010000", key + "0001000568656c6c6f", key + "500200048010c010",
            key + "d002000ac000c00068656c6c6f21"};
}

End start(bool replies, unsigned rev) {
    if (!replies) return End::responder();
    swrnic_mpa_params p = default_params();
    p.rev = static_cast<__u8>(rev);
    End end = End::initiator(p);
    end.send();
    return end;
}

Outcome feed_and_close(End end, const Bytes& frame, std::size_t piece) {
    end.feed(frame, piece);
    end.note(swrnic_mpa_eof(end.raw()));  // ignored in Full Operation, tells a missing octet elsewhere
    return end.outcome();
}

void check_meaning(const Outcome& o, std::size_t bit, bool replies) {
    if (bit < kFlags) {
        EXPECT_EQ(o.reason, SWRNIC_MPA_BAD_KEY);
    } else if (bit >= kData) {
        // the block and the ULP's data: never malformed
        EXPECT_NE(o.event, SWRNIC_MPA_EV_NONE);
        if (replies) {
            EXPECT_NE(o.state, SWRNIC_MPA_ST_FAILED);
        }
    } else if (bit >= kPdLength && bit < kPdLength + 6) {
        EXPECT_EQ(o.reason, SWRNIC_MPA_BAD_PD_LENGTH);  // 1024 and above
    } else if (bit >= kRev && bit < kRev + 6) {
        EXPECT_EQ(o.reason, SWRNIC_MPA_BAD_REV);
    }
}

TEST(MpaHostile, EveryBitFlipMeansWhatItsFieldMeans) {
    std::size_t flips = 0;
    for (const bool replies : {false, true}) {
        for (const std::string& hex : valid_frames(replies)) {
            const Bytes valid = golden::from_hex(hex);
            const auto rev = std::to_integer<unsigned>(valid.at(17));
            for (std::size_t bit = 0; bit < valid.size() * 8; ++bit, ++flips) {
                SCOPED_TRACE(hex + " bit " + std::to_string(bit));
                Bytes frame = valid;
                frame[bit / 8] ^= std::byte{static_cast<unsigned char>(0x80u >> (bit % 8))};
                const Outcome whole = feed_and_close(start(replies, rev), frame, SIZE_MAX);
                for (std::size_t piece : {1, 2, 5, 20})
                    EXPECT_EQ(feed_and_close(start(replies, rev), frame, piece), whole);
                check_meaning(whole, bit, replies);
                if (HasFailure()) return;
            }
        }
    }
    EXPECT_GT(flips, 1500u);
}

// Configuration and octets at random, half of them behind a valid key, through the fuzzer's invariants.
TEST(MpaHostile, RandomOctetsBreakNoInvariant) {
    const unsigned seed = 20231;
    std::mt19937 random(seed);
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::uint8_t> input(8 + random() % 64);
        for (auto& octet : input)
            octet = static_cast<std::uint8_t>(random());
        if (round % 2 == 0 && input.size() >= 28) {
            const Bytes key = golden::from_hex((input[0] & 1) ? "4d504120494420526570204672616d65"
                                                              : "4d504120494420526571204672616d65");
            std::transform(key.begin(), key.end(), input.begin() + 8,
                           [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
            input[25] = static_cast<std::uint8_t>(random() % 4);
            input[26] = static_cast<std::uint8_t>(random() % 3);
        }
        ASSERT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0) << "seed " << seed << " round " << round;
    }
}

}  // namespace
}  // namespace swrnic::mpatest
