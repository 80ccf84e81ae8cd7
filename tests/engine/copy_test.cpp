// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace swrnic::engine::test {

TEST(CopyTest, CopiesEveryOctetAndNoOther) {
    constexpr std::size_t kGuard = 3;
    std::vector<std::byte> from(3 * kCopiedByVectors + 1);
    for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<std::byte>(i * 167 + i / 251 + 1);
    for (std::size_t length = 0; length <= from.size(); ++length) {
        const std::vector<std::byte> empty(from.size() + 2 * kGuard, std::byte(0xee));
        std::vector<std::byte> to = empty, expected = empty;
        copy_octets(to.data() + kGuard, from.data(), length);
        std::copy_n(from.data(), length, expected.data() + kGuard);
        ASSERT_EQ(to, expected) << length << " octets";
    }
}

}  // namespace swrnic::engine::test
