// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "log.h"

namespace swrnic::host {
namespace {

// By enum swrnic_counter.
constexpr std::array<StatCell, SWRNIC_COUNTERS> kCounted = [] {
    std::array<StatCell, SWRNIC_COUNTERS> by{};
    by[SWRNIC_COUNT_TX_BYTES] = StatCell::kTxBytes;
    by[SWRNIC_COUNT_RX_BYTES] = StatCell::kRxBytes;
    by[SWRNIC_COUNT_TX_FPDUS] = StatCell::kTxFpdus;
    by[SWRNIC_COUNT_RX_FPDUS] = StatCell::kRxFpdus;
    by[SWRNIC_COUNT_TX_SENDS] = StatCell::kTxSends;
    by[SWRNIC_COUNT_RX_SENDS] = StatCell::kRxSends;
    by[SWRNIC_COUNT_TX_WRITES] = StatCell::kTxWrites;
    by[SWRNIC_COUNT_RX_WRITES] = StatCell::kRxWrites;
    by[SWRNIC_COUNT_TX_READ_REQUESTS] = StatCell::kTxReadRequests;
    by[SWRNIC_COUNT_RX_READ_REQUESTS] = StatCell::kRxReadRequests;
    by[SWRNIC_COUNT_TX_READ_RESPONSES] = StatCell::kTxReadResponses;
    by[SWRNIC_COUNT_RX_READ_RESPONSES] = StatCell::kRxReadResponses;
    by[SWRNIC_COUNT_TX_TERMINATES] = StatCell::kTxTerminates;
    by[SWRNIC_COUNT_RX_TERMINATES] = StatCell::kRxTerminates;
    by[SWRNIC_COUNT_RX_CRC_ERRORS] = StatCell::kRxCrcErrors;
    by[SWRNIC_COUNT_RX_STALLS] = StatCell::kRxStalls;
    by[SWRNIC_COUNT_TX_CALLS] = StatCell::kTxCalls;
    by[SWRNIC_COUNT_RX_CALLS] = StatCell::kRxCalls;
    return by;
}();

}  // namespace

static_assert(static_cast<std::uint32_t>(engine::CloseReason::kGraceful) == SWRNIC_CLOSE_GRACEFUL);
static_assert(static_cast<std::uint32_t>(engine::CloseReason::kLost) == SWRNIC_CLOSE_LOST);
static_assert(static_cast<std::uint32_t>(engine::CloseReason::kError) == SWRNIC_CLOSE_ERROR);

engine::Connection to_connection(const swrnic_connected& from) {
    engine::Connection to{};
    to.fd = from.fd;
    to.initiator = from.role == SWRNIC_ROLE_INITIATOR;
    to.crc = (from.flags & SWRNIC_CONN_CRC) != 0;
    to.markers_tx = (from.flags & SWRNIC_CONN_MARKERS_TX) != 0;
    to.markers_rx = (from.flags & SWRNIC_CONN_MARKERS_RX) != 0;
    to.large_fpdu = (from.flags & SWRNIC_CONN_LARGE_FPDU) != 0;
    to.short_first = (from.flags & SWRNIC_CONN_SHORT_FIRST) != 0;
    to.rfc7306 = (from.flags & SWRNIC_CONN_RFC7306) != 0;
    to.same_host = (from.flags & SWRNIC_CONN_SAME_HOST) != 0;
    to.nodelay = (from.flags & SWRNIC_CONN_NODELAY) != 0;
    to.p2p = (from.flags & SWRNIC_CONN_P2P) != 0;
    to.rtr = from.rtr;
    to.to_itself = from.local.version != 0 && std::memcmp(&from.local, &from.peer, sizeof(from.local)) == 0;
    to.terminate = from.terminate;
    to.mpa_rev = from.mpa_rev;
    to.ird = from.ird;
    to.ord = from.ord;
    if (from.rnr_retry != 0) to.rnr_retry = static_cast<std::uint8_t>(from.rnr_retry - 1);
    return to;
}

EventFile::~EventFile() {
    if (fd_ >= 0) ::close(fd_);
}

void EventFile::abandon_after_fork() {
    ::close(fd_);
    fd_ = -1;
}

void EventFile::tell_of(std::span<const int> descriptors, std::uint32_t kept) const {
    for (const int fd : descriptors) {
        if (fd >= 0) tell(SWRNIC_UP_KEEP, static_cast<std::uint32_t>(fd), kept);
    }
}

void EventFile::tell(std::uint32_t type, std::uint32_t id, std::uint32_t aux) const {
    const swrnic_up record{.type = type, .id = id, .aux = aux, .reserved = 0};
    if (fd_ < 0) return;
    ssize_t written;
    do {
        written = ::write(fd_, &record, sizeof(record));
    } while (written < 0 && errno == EINTR);
    // An object may be destroyed while its last news is under way: the shim then answers EINVAL, and nobody misses it;
    // nor what is told to a device that has gone.
    if (written < 0 && errno != EINVAL && errno != EIO)
        log(LogLevel::kWarn, "event file: record {} for {:#x} was not taken: {}", type, id, std::strerror(errno));
}

bool EventFile::report(Statistics& statistics) {
    if (!knows_counters_ || fd_ < 0) return false;
    const Statistics::Sums now = statistics.sums();
    if (now == told_) return false;
    std::array<swrnic_up, SWRNIC_COUNTERS> records;
    std::size_t count = 0;
    Statistics::Sums told = told_;
    for (std::uint32_t i = 0; i < SWRNIC_COUNTERS; ++i) {
        const auto cell = static_cast<std::size_t>(kCounted[i]);
        // What does not fit waits for the next report.
        const auto grown = static_cast<std::uint32_t>(std::min<std::uint64_t>(now[cell] - told[cell], UINT32_MAX));
        if (grown == 0) continue;
        records[count++] = {.type = SWRNIC_UP_COUNTED, .id = i, .aux = grown, .reserved = 0};
        told[cell] += grown;
    }
    if (count == 0) {
        told_ = now;  // only what the shim is not told of
        return true;
    }
    const ssize_t size = static_cast<ssize_t>(count * sizeof(swrnic_up));
    const ssize_t written = ::write(fd_, records.data(), static_cast<std::size_t>(size));
    if (written == size) {
        told_ = told;
    } else if (written < 0 && errno == EINVAL) {
        knows_counters_ = false;
    }
    return true;
}

std::optional<std::size_t> EventFile::read(std::span<swrnic_down> records) const {
    if (fd_ < 0) return std::nullopt;
    ssize_t got;
    do {
        got = ::read(fd_, records.data(), records.size_bytes());
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got > 0 && got % sizeof(swrnic_down) == 0) return static_cast<std::size_t>(got) / sizeof(swrnic_down);
    return std::nullopt;
}

}  // namespace swrnic::host
