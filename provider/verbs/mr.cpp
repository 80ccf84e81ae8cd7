// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory regions: the engine's table decides, the shim keeps the account.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>

#include "command.h"
#include "context.h"
#include "verbs.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace swrnic::verbs {
namespace {

static_assert(IBV_ACCESS_LOCAL_WRITE == engine::access::kLocalWrite);
static_assert(IBV_ACCESS_REMOTE_WRITE == engine::access::kRemoteWrite);
static_assert(IBV_ACCESS_REMOTE_READ == engine::access::kRemoteRead);
static_assert(IBV_ACCESS_REMOTE_ATOMIC == engine::access::kRemoteAtomic);
static_assert(IBV_ACCESS_MW_BIND == engine::access::kMwBind);
static_assert(IBV_ACCESS_ZERO_BASED == engine::access::kZeroBased);

constexpr unsigned kEngineAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
constexpr unsigned kKnownAccess = kEngineAccess | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;

int check_access(unsigned access) {
    if (access & IBV_ACCESS_ON_DEMAND) return EOPNOTSUPP;
    if (access & ~kKnownAccess) return EINVAL;
    // VERBS-31
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    return 0;
}

std::uintptr_t page_size() {
    return static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
}

// Kernels before 5.14 cannot populate; there mincore() at least tells a hole.
bool range_is_mapped(std::uintptr_t first, std::uintptr_t length) {
    constexpr std::size_t kPagesAtOnce = 4096;
    unsigned char resident[kPagesAtOnce];
    const std::uintptr_t step = kPagesAtOnce * page_size();
    for (std::uintptr_t done = 0; done < length; done += step) {
        const std::uintptr_t part = length - done < step ? length - done : step;
        if (::mincore(reinterpret_cast<void*>(first + done), part, resident) != 0) return false;
    }
    return true;
}

// SEC-17, RFC 5042 7.3: a region exposes only memory that its owner may itself access, and that is asked before it has
// an STag. Like the pinning of an adapter this also faults the pages in, so that no page fault waits in the data path.
int check_range(const void* addr, std::size_t length, bool writable) {
    const auto start = reinterpret_cast<std::uintptr_t>(addr);
    if (length == 0) return EINVAL;  // VERBS-36
    const std::uintptr_t mask = page_size() - 1;
    if (start + (length - 1) < start || start + (length - 1) > UINTPTR_MAX - page_size()) return EINVAL;
    const std::uintptr_t first = start & ~mask;
    const std::uintptr_t size = ((start + (length - 1)) | mask) + 1 - first;

    const int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    int result;
    do {
        result = ::madvise(reinterpret_cast<void*>(first), size, advice);
    } while (result != 0 && (errno == EINTR || errno == EAGAIN));
    if (result == 0) return 0;
    // EINVAL: no permission, or a kernel that does not know the advice, which an empty range tells.
    const bool advice_known = errno != EINVAL || ::madvise(reinterpret_cast<void*>(first), 0, advice) == 0;
    if (advice_known) return EFAULT;
    return range_is_mapped(first, size) ? 0 : EFAULT;
}

// The shim's account of a region. The kernel's core wants hca_va and start to agree within the page; the translation is
// the engine's alone, so the command never tells of another base.
int tell_shim(ibv_pd* pd, void* addr, std::size_t length, unsigned access, std::uint32_t stag, verbs_mr* mr) {
    swrnic_reg_mr_req driver{};
    driver.stag = stag;
    Request<ib_uverbs_reg_mr, swrnic_reg_mr_req> request(driver);
    Response<ib_uverbs_reg_mr_resp> response;
    return abi::libibverbs.ibv_cmd_reg_mr(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr),
                                          static_cast<int>(access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE)),
                                          mr, request.data(), request.size(), response.core(), response.size());
}

int register_region(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t hca_va, unsigned access, verbs_mr* mr) {
    int error = check_access(access);
    if (error) return error;
    error = check_range(addr, length, access & IBV_ACCESS_LOCAL_WRITE);
    if (error) return error;

    auto& engine = to_state(pd->context).engine();
    const std::uint64_t to = access & IBV_ACCESS_ZERO_BASED ? 0 : hca_va;  // VERBS-30
    if (to > UINT64_MAX - length) return EINVAL;
    const std::uint32_t stag = engine.register_region(domain_of(*pd), reinterpret_cast<std::uintptr_t>(addr), length,
                                                      to, access & kEngineAccess);
    if (stag == 0) return ENOMEM;
    error = tell_shim(pd, addr, length, access, stag, mr);
    if (error) {
        engine.deregister_region(stag);
        return error;
    }
    mr->mr.lkey = mr->mr.rkey = stag;  // VERBS-28
    return 0;
}

// Nobody need be told: the keys stay, and the shim keeps no account of rights.
int change_access(Mr& mr, unsigned access) {
    int error = check_access(access);
    if (!error) error = check_range(mr.base.mr.addr, mr.base.mr.length, access & IBV_ACCESS_LOCAL_WRITE);
    if (!error) error = to_state(mr.base.mr.context).engine().change_access(mr.base.mr.lkey, access & kEngineAccess);
    if (error) return error;
    mr.access = access;
    mr.base.access = static_cast<int>(access);
    return 0;
}

// A new registration under a new STag, and only then the end of the old one: what fails leaves all as it was.
int reregister(Mr& mr, unsigned flags, ibv_pd* pd, void* addr, std::size_t length, unsigned access) {
    if (flags == IBV_REREG_MR_CHANGE_ACCESS && ((access ^ mr.access) & IBV_ACCESS_ZERO_BASED) == 0)
        return change_access(mr, access);
    const bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    verbs_mr fresh{};
    const std::uint64_t hca_va = moves ? reinterpret_cast<std::uintptr_t>(addr) : mr.hca_va;
    const unsigned granted = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr.access;
    const int error =
        register_region(flags & IBV_REREG_MR_CHANGE_PD ? pd : mr.base.mr.pd, moves ? addr : mr.base.mr.addr,
                        moves ? length : mr.base.mr.length, hca_va, granted, &fresh);
    if (error) return error;
    auto& engine = to_state(mr.base.mr.context).engine();
    if (!engine.deregister_region(mr.base.mr.lkey)) {
        engine.deregister_region(fresh.mr.lkey);
        abi::libibverbs.ibv_cmd_dereg_mr(&fresh);
        return EBUSY;
    }
    verbs_mr old = mr.base;
    const int lost = abi::libibverbs.ibv_cmd_dereg_mr(&old);
    mr.base.mr.handle = fresh.mr.handle;
    mr.base.mr.lkey = mr.base.mr.rkey = fresh.mr.lkey;
    mr.base.access = fresh.access;
    mr.hca_va = hca_va;
    mr.access = granted;
    return lost;
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t hca_va, int access) noexcept {
    std::unique_ptr<Mr> mr(new (std::nothrow) Mr{});
    const int error = mr ? register_region(pd, addr, length, hca_va, static_cast<unsigned>(access), &mr->base) : ENOMEM;
    if (error) {
        errno = error;
        return nullptr;
    }
    mr->hca_va = hca_va;
    mr->access = static_cast<unsigned>(access);
    return &mr.release()->base.mr;
}

int rereg_mr(verbs_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) noexcept {
    const int error =
        reregister(to_mr(mr), static_cast<unsigned>(flags), pd, addr, length, static_cast<unsigned>(access));
    if (error) errno = error;
    return error;
}

int dereg_mr(verbs_mr* mr) noexcept {
    if (!to_state(mr->mr.context).engine().deregister_region(mr->mr.lkey)) return EBUSY;  // ibv_dereg_mr(3)
    const int error = abi::libibverbs.ibv_cmd_dereg_mr(mr);
    if (!error) delete &to_mr(mr);
    return error;
}

}  // namespace swrnic::verbs
