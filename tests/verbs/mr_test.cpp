// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <set>

#include "device.h"

namespace swrnic::test {
namespace {

class Pages {
  public:
    Pages(std::size_t size, int protection)
        : size_(size), data_(::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
    ~Pages() { ::munmap(data_, size_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    char* data() const { return static_cast<char*>(data_); }

  private:
    std::size_t size_;
    void* data_;
};

class Mr : public DeviceTest {
  protected:
    MrPtr reg(void* addr, std::size_t length, int access) {
        errno = 0;
        return MrPtr(ibv_reg_mr(pd_.get(), addr, length, access));
    }
    const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    Pages pages_{4 * page_, PROT_READ | PROT_WRITE};
};

TEST_F(Mr, every_flag_combination) {  // VERBS-31
    for (int access = 0; access < 32; ++access) {
        const bool needs_local = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
        const bool good = !needs_local || (access & IBV_ACCESS_LOCAL_WRITE);
        const MrPtr mr = reg(pages_.data(), 100, access);
        EXPECT_EQ(static_cast<bool>(mr), good) << "access " << access;
        if (!good) {
            EXPECT_EQ(errno, EINVAL) << "access " << access;
        }
    }
}

TEST_F(Mr, keys_are_one_and_unique) {  // VERBS-28
    std::set<std::uint32_t> indices;
    std::vector<MrPtr> regions;
    for (int i = 0; i < 256; ++i) {
        regions.push_back(reg(pages_.data(), 16, IBV_ACCESS_LOCAL_WRITE));
        ASSERT_TRUE(regions.back());
        EXPECT_EQ(regions.back()->lkey, regions.back()->rkey);
        EXPECT_TRUE(indices.insert(regions.back()->lkey >> 8).second);
        EXPECT_EQ(indices.count(0), 0u);
    }
}

TEST_F(Mr, optional_and_harmless_flags) {
    EXPECT_TRUE(reg(pages_.data(), 16, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
    EXPECT_TRUE(reg(pages_.data(), 16, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB));
    EXPECT_TRUE(reg(pages_.data(), 16, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
}

TEST_F(Mr, unknown_flags_are_refused) {
    EXPECT_FALSE(reg(pages_.data(), 16, 1 << 15));
    EXPECT_EQ(errno, EINVAL);
    EXPECT_FALSE(reg(pages_.data(), 16, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Mr, length_zero_is_refused) {  // VERBS-36
    EXPECT_FALSE(reg(pages_.data(), 0, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Mr, range_that_wraps_is_refused) {
    EXPECT_FALSE(reg(pages_.data(), SIZE_MAX, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_TRUE(errno == EINVAL || errno == EFAULT) << errno;
}

TEST_F(Mr, unmapped_memory_is_refused) {  // SEC-17
    ASSERT_EQ(::munmap(pages_.data() + 2 * page_, page_), 0);
    EXPECT_FALSE(reg(pages_.data(), 3 * page_, 0));
    EXPECT_EQ(errno, EFAULT);
    EXPECT_FALSE(reg(pages_.data(), 3 * page_, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_EQ(errno, EFAULT);
    EXPECT_FALSE(reg(pages_.data() + page_ + 1, page_, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_EQ(errno, EFAULT);
    EXPECT_TRUE(reg(pages_.data(), 2 * page_, IBV_ACCESS_LOCAL_WRITE));
}

TEST_F(Mr, read_only_memory_is_for_reading) {  // SEC-17
    const Pages constant(page_, PROT_READ);
    EXPECT_TRUE(reg(constant.data(), page_, IBV_ACCESS_REMOTE_READ));
    EXPECT_FALSE(reg(constant.data(), page_, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_EQ(errno, EFAULT);
    const Pages closed(page_, PROT_NONE);
    EXPECT_FALSE(reg(closed.data(), page_, 0));
    EXPECT_EQ(errno, EFAULT);
}

TEST_F(Mr, iova_needs_no_alignment_with_the_range) {  // VERBS-30
    errno = 0;
    const MrPtr mr(ibv_reg_mr_iova(pd_.get(), pages_.data() + 3, 64, 0x1000, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_TRUE(mr) << errno;
    const MrPtr wraps(ibv_reg_mr_iova(pd_.get(), pages_.data(), 64, UINT64_MAX - 3, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_FALSE(wraps);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Mr, a_domain_in_use_stays) {
    const MrPtr mr = reg(pages_.data(), 16, 0);
    ASSERT_TRUE(mr);
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

}  // namespace
}  // namespace swrnic::test
