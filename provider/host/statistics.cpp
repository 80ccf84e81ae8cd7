// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/statistics.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

namespace swrnic::host {
namespace {

using engine::Count;

constexpr bool same(Count count, StatCell cell) {
    return static_cast<std::uint32_t>(count) == static_cast<std::uint32_t>(cell);
}
static_assert(same(Count::kTxBytes, StatCell::kTxBytes) && same(Count::kTxFpdus, StatCell::kTxFpdus));
static_assert(same(Count::kTxSends, StatCell::kTxSends) && same(Count::kTxWrites, StatCell::kTxWrites));
static_assert(same(Count::kTxReadRequests, StatCell::kTxReadRequests));
static_assert(same(Count::kTxReadResponses, StatCell::kTxReadResponses));
static_assert(same(Count::kTxTerminates, StatCell::kTxTerminates) && same(Count::kTxCalls, StatCell::kTxCalls));
static_assert(same(Count::kRxBytes, StatCell::kRxBytes) && same(Count::kRxFpdus, StatCell::kRxFpdus));
static_assert(same(Count::kRxSends, StatCell::kRxSends) && same(Count::kRxWrites, StatCell::kRxWrites));
static_assert(same(Count::kRxReadRequests, StatCell::kRxReadRequests));
static_assert(same(Count::kRxReadResponses, StatCell::kRxReadResponses));
static_assert(same(Count::kRxTerminates, StatCell::kRxTerminates) && same(Count::kRxCalls, StatCell::kRxCalls));
static_assert(same(Count::kRxCrcErrors, StatCell::kRxCrcErrors) && same(Count::kRxStalls, StatCell::kRxStalls));
static_assert(same(Count::kRxStallNs, StatCell::kRxStallNs) && same(Count::kRetransmits, StatCell::kRetransmits));
static_assert(same(Count::kRxDrops, StatCell::kRxDrops));
static_assert(same(Count::kRttUs, StatCell::kRttUs) && same(Count::kRttVarUs, StatCell::kRttVarUs));
static_assert(same(Count::kState, StatCell::kState) && same(Count::kEnd, StatCell::kCells));
static_assert(same(Count::kTxTerminated, StatCell::kTxTerminated) && engine::Counters::kCodes == kStatSlotCodes);
static_assert(same(Count::kRxTerminated, StatCell::kRxTerminated));
static_assert(sizeof(engine::Counters) == sizeof(StatSlot::cells));
static_assert(sizeof(engine::EngineCounters) == sizeof(StatEngine));

// Direct system calls: the userspace shim and other preloads have no business with this descriptor.
int make_file() {
    constexpr unsigned kNoExec = 8;  // MFD_NOEXEC_SEAL, Linux 6.3
    long fd = ::syscall(SYS_memfd_create, kStatName, MFD_CLOEXEC | kNoExec);
    if (fd < 0 && errno == EINVAL) fd = ::syscall(SYS_memfd_create, kStatName, MFD_CLOEXEC);
    if (fd < 0) return -1;
    // Growing a file beyond RLIMIT_FSIZE would be answered with a signal.
    rlimit limit{};
    const bool fits = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= kStatSize;
    if (fits && ::syscall(SYS_fchmod, fd, 0600) == 0 && ::ftruncate(static_cast<int>(fd), kStatSize) == 0)
        return static_cast<int>(fd);
    ::syscall(SYS_close, fd);
    return -1;
}

StatAddress to_stat(const sockaddr_storage& from) {
    StatAddress to{};
    if (from.ss_family == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, &from, sizeof in);
        to.version = 4;
        to.port = ntohs(in.sin_port);
        std::memcpy(to.octets, &in.sin_addr, sizeof in.sin_addr);
    } else if (from.ss_family == AF_INET6) {
        sockaddr_in6 in;
        std::memcpy(&in, &from, sizeof in);
        to.port = ntohs(in.sin6_port);
        const bool mapped = IN6_IS_ADDR_V4MAPPED(&in.sin6_addr);
        to.version = mapped ? 4 : 6;
        std::memcpy(to.octets, in.sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
    }
    return to;
}

StatAddress to_stat(const swrnic_address& told, int socket, long call) {
    if (told.version != 0) return std::bit_cast<StatAddress>(told);
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (::syscall(call, socket, &address, &length) != 0) return {};
    return to_stat(address);
}

}  // namespace

// Odd while the page is between two states.
class Statistics::Change {
  public:
    explicit Change(StatHeader& header) : sequence_(header.sequence) {
        sequence_.store(sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
#ifndef __SANITIZE_THREAD__  // knows no fences; the readers are other processes, which it does not see either
        std::atomic_thread_fence(std::memory_order_release);
#endif
    }
    ~Change() {
        sequence_.store(sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

  private:
    std::atomic_ref<std::uint32_t> sequence_;
};

std::unique_ptr<Statistics> Statistics::create(const char* device) {
    int fd = make_file();
    void* memory = MAP_FAILED;
    if (fd >= 0) memory = ::mmap(nullptr, kStatSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        if (fd >= 0) ::syscall(SYS_close, fd);
        fd = -1;
        memory = ::mmap(nullptr, kStatSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (memory == MAP_FAILED) return nullptr;
    // A child's copy would be the same memory, and the child is not to write.
    ::madvise(memory, kStatSize, MADV_DONTFORK);
    std::unique_ptr<Statistics> made(new (std::nothrow) Statistics(fd, memory, device));
    if (made) return made;
    ::munmap(memory, kStatSize);
    if (fd >= 0) ::syscall(SYS_close, fd);
    return nullptr;
}

Statistics::Statistics(int fd, void* memory, const char* device)
    : fd_(fd), memory_(static_cast<std::byte*>(memory)), header_(new (memory) StatHeader{}) {
    engine_ = new (&header_->engine) engine::EngineCounters;
    header_->version = kStatVersion;
    header_->header_size = sizeof(StatHeader);
    header_->slot_size = sizeof(StatSlot);
    header_->slot_capacity = kStatSlots;
    header_->pid = static_cast<std::uint32_t>(::getpid());
    std::strncpy(header_->device, device, sizeof(header_->device) - 1);
    std::atomic_ref(header_->magic).store(kStatMagic, std::memory_order_release);
}

Statistics::~Statistics() {
    if (memory_ != nullptr) ::munmap(memory_, kStatSize);
    if (fd_ >= 0) ::syscall(SYS_close, fd_.load());
}

void Statistics::abandon_after_fork() {
    if (fd_ >= 0) ::syscall(SYS_close, fd_.load());
    fd_ = -1;
    memory_ = nullptr;  // what lies there now is not ours
}

StatSlot& Statistics::slot(std::uint32_t index) {
    return *std::launder(
        reinterpret_cast<StatSlot*>(memory_ + sizeof(StatHeader) + std::size_t{index} * sizeof(StatSlot)));
}

engine::Counters& Statistics::counters(std::uint32_t index) {
    return *std::launder(reinterpret_cast<engine::Counters*>(slot(index).cells));
}

bool Statistics::has_qp(std::uint32_t qpn) {
    const std::lock_guard hold(mutex_);
    return qps_.contains(qpn);
}

engine::Counters* Statistics::add_qp(std::uint32_t qpn) {
    const std::lock_guard hold(mutex_);
    std::uint32_t index = kNoSlot;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
    } else if (used_ < kStatSlots) {
        index = used_++;
    }
    qps_[qpn] = {index, {}};
    if (index == kNoSlot) return nullptr;
    const Change change(*header_);
    const std::uint32_t generation = index < header_->slots ? slot(index).generation : 0;
    auto* fresh = new (&slot(index)) StatSlot{};
    fresh->generation = generation + 1;
    fresh->qpn = qpn;
    new (fresh->cells) engine::Counters;
    header_->slots = used_;
    return &counters(index);
}

void Statistics::remove_qp(std::uint32_t qpn) {
    const std::lock_guard hold(mutex_);
    const auto found = qps_.find(qpn);
    if (found == qps_.end()) return;
    const std::uint32_t index = found->second.slot;
    qps_.erase(found);
    if (index == kNoSlot) return;
    const Change change(*header_);
    keep(counters(index));
    slot(index).qpn = 0;
    free_.push_back(index);
}

void Statistics::keep(const engine::Counters& of) {
    ++header_->gone_qps;
    for (std::uint32_t i = 0; i < kStatSums; ++i)
        header_->gone[i] += of.get(Count(i));
    keep_codes(of, Count::kTxTerminated, header_->gone_tx_terminated);
    keep_codes(of, Count::kRxTerminated, header_->gone_rx_terminated);
}

void Statistics::keep_codes(const engine::Counters& of, Count first, std::uint64_t* to) {
    for (std::uint32_t i = 0; i < kStatSlotCodes; ++i) {
        const std::uint64_t cell = of.get(Count(static_cast<std::uint32_t>(first) + i));
        if (cell == 0) continue;
        std::uint64_t* const end = to + kStatGoneCodes - 1;
        std::uint64_t* const at =
            std::find_if(to, end, [&](std::uint64_t c) { return c == 0 || c >> 32 == cell >> 32; });
        *at = *at == 0 ? cell : *at + (cell & 0xffffffff);
    }
}

void Statistics::connected(std::uint32_t qpn, const swrnic_connected& stream) {
    const StatAddress local = to_stat(stream.local, stream.fd, SYS_getsockname);
    const StatAddress peer = to_stat(stream.peer, stream.fd, SYS_getpeername);
    const std::lock_guard hold(mutex_);
    const auto found = qps_.find(qpn);
    if (found == qps_.end()) return;
    found->second.peer = peer;
    if (found->second.slot == kNoSlot) return;
    const Change change(*header_);
    slot(found->second.slot).local = local;
    slot(found->second.slot).peer = peer;
}

std::string Statistics::Name::text() const {
    StatAddress peer{};
    {
        const std::lock_guard hold(statistics.mutex_);
        const auto found = statistics.qps_.find(qpn);
        if (found != statistics.qps_.end()) peer = found->second.peer;
    }
    char text[INET6_ADDRSTRLEN] = "?";
    if (peer.version == 4) {
        ::inet_ntop(AF_INET, peer.octets, text, sizeof text);
        return fmt::format("QP {:#x} (peer {}:{})", qpn, text, peer.port);
    }
    if (peer.version == 6) {
        ::inet_ntop(AF_INET6, peer.octets, text, sizeof text);
        return fmt::format("QP {:#x} (peer [{}]:{})", qpn, text, peer.port);
    }
    return fmt::format("QP {:#x}", qpn);
}

Statistics::Sums Statistics::sums() {
    const std::lock_guard hold(mutex_);
    Sums total;
    std::copy(std::begin(header_->gone), std::end(header_->gone), total.begin());
    // As they lie in memory: a report sums them four times a second, and there may be thousands.
    for (std::uint32_t index = 0; index < used_; ++index) {
        if (slot(index).qpn == 0) continue;
        const engine::Counters& of = counters(index);
        for (std::uint32_t i = 0; i < kStatSums; ++i)
            total[i] += of.get(Count(i));
    }
    return total;
}

}  // namespace swrnic::host
