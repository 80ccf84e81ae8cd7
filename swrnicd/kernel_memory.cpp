// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kernel_memory.h"

#include <cstring>

#include "log.h"

namespace swrnic::daemon {

using engine::ForeignName;
using engine::MemoryError;

namespace {

static_assert(static_cast<int>(ForeignName::Kind::kSend) == SWRNIC_NAME_SEND);
static_assert(static_cast<int>(ForeignName::Kind::kRecv) == SWRNIC_NAME_RECV);
static_assert(static_cast<int>(ForeignName::Kind::kTagged) == SWRNIC_NAME_TAGGED);
static_assert(engine::ForeignMemory::kMostOutgoing == SWRNIC_TRANSMIT_FPDUS);
static_assert(engine::ForeignMemory::kMostOctets == SWRNIC_MOVED_OCTETS);
static_assert(engine::ForeignMemory::kLongestFpdu == SWRNIC_FPDU_OCTETS);
static_assert(sizeof(engine::ForeignMemory::Outgoing::header) <= SWRNIC_FPDU_HEADER);
static_assert(static_cast<int>(MemoryError::kNone) == SWRNIC_NAME_OK);
static_assert(static_cast<int>(MemoryError::kInvalidStag) == SWRNIC_NAME_INVALID_STAG);
static_assert(static_cast<int>(MemoryError::kWrongPd) == SWRNIC_NAME_WRONG_PD);
static_assert(static_cast<int>(MemoryError::kAccess) == SWRNIC_NAME_ACCESS);
static_assert(static_cast<int>(MemoryError::kWrap) == SWRNIC_NAME_WRAP);
static_assert(static_cast<int>(MemoryError::kBounds) == SWRNIC_NAME_BOUNDS);

// A call that fails says that the QP, or the device, has gone: then nothing that it names is there any more.
MemoryError result_of(const char* what, std::uint32_t qpn, int failed, std::uint32_t error) {
    if (failed != 0) {
        log(failed == EINVAL ? LogLevel::kDebug : LogLevel::kWarn, "QP {:#x}: {}: {}", qpn, what,
            std::strerror(failed));
        return MemoryError::kInvalidStag;
    }
    if (error != SWRNIC_NAME_OK) log(LogLevel::kDebug, "QP {:#x}: {}: refused with {}", qpn, what, error);
    return error <= SWRNIC_NAME_BOUNDS ? static_cast<MemoryError>(error) : MemoryError::kInvalidStag;
}

// Of a call on the stream that has failed: as recv() and send() fail, and all else is its end.
engine::IoStatus stream_status(const char* what, std::uint32_t qpn, int failed) {
    if (failed == EAGAIN || failed == ENOBUFS || failed == ENOMEM) return engine::IoStatus::kAgain;
    log(LogLevel::kDebug, "QP {:#x}: {}: {}", qpn, what, std::strerror(failed));
    return engine::IoStatus::kBroken;
}

swrnic_name to_name(const ForeignName& name, std::uint32_t length) {
    return {.id = name.id,
            .offset = name.offset,
            .length = length,
            .kind = static_cast<std::uint32_t>(name.kind),
            .whole = name.whole,
            .reserved = 0};
}

swrnic_ending to_ending(const engine::ForeignMemory::Ending* from) {
    swrnic_ending to{};
    if (from == nullptr) return to;
    to.flags = SWRNIC_ENDING | (from->solicited ? SWRNIC_DONE_SOLICITED : 0);
    if (from->invalidated) {
        to.flags |= SWRNIC_DONE_INVALIDATED;
        to.invalidated = *from->invalidated;
    }
    return to;
}

}  // namespace

MemoryError KernelMemory::copy_in(std::uint32_t qpn, const ForeignName& name, std::span<std::byte> to) {
    return copy(qpn, name, SWRNIC_COPY_IN, to.data(), to.size(), nullptr);
}

MemoryError KernelMemory::copy_out(std::uint32_t qpn, const ForeignName& name, std::span<const std::byte> from,
                                   Ending* ending) {
    return copy(qpn, name, SWRNIC_COPY_OUT, from.data(), from.size(), ending);
}

MemoryError KernelMemory::copy(std::uint32_t qpn, const ForeignName& name, std::uint32_t direction,
                               const std::byte* memory, std::size_t length, Ending* ending) {
    const swrnic_name named = to_name(name, static_cast<std::uint32_t>(length));
    swrnic_copy copy{.qpn = qpn,
                     .direction = direction,
                     .memory = reinterpret_cast<std::uintptr_t>(memory),
                     .names = reinterpret_cast<std::uintptr_t>(&named),
                     .count = 1,
                     .error = 0,
                     .ending = to_ending(ending)};
    const int failed = calls_.call(SWRNIC_IOC_COPY, &copy);
    if (ending != nullptr) ending->done = failed == 0 && copy.ending.done != 0;
    return result_of(direction == SWRNIC_COPY_IN ? "COPY in" : "COPY out", qpn, failed, copy.error);
}

engine::ForeignMemory::Arrival KernelMemory::receive(std::uint32_t qpn, const Begun& fpdu, std::span<std::byte> rest) {
    swrnic_receive receive{};
    receive.qpn = qpn;
    receive.flags = fpdu.more ? SWRNIC_RECEIVE_MORE : 0;
    receive.name = to_name(fpdu.name, fpdu.payload);
    receive.fpdu = reinterpret_cast<std::uintptr_t>(fpdu.octets.data());
    receive.rest = reinterpret_cast<std::uintptr_t>(rest.data());
    receive.have = static_cast<std::uint32_t>(fpdu.octets.size());
    receive.header = static_cast<std::uint32_t>(fpdu.header);
    receive.room = static_cast<std::uint32_t>(rest.size());
    receive.ending = to_ending(fpdu.ending);
    if (const int failed = calls_.call(SWRNIC_IOC_RECEIVE, &receive); failed != 0)
        return {.status = stream_status("RECEIVE", qpn, failed)};
    if (fpdu.ending != nullptr) fpdu.ending->done = receive.ending.done != 0;
    if (receive.taken == 0) return {.status = engine::IoStatus::kEof};
    return {.status = engine::IoStatus::kOk,
            .taken = receive.taken,
            .staged = receive.left,
            .placed = receive.placed,
            .octets = receive.octets,
            .last = receive.last,
            .ended = receive.ended,
            .whole = receive.whole != 0,
            .remains = receive.remains != 0};
}

engine::ForeignMemory::Departure KernelMemory::transmit(std::uint32_t qpn, std::span<const Outgoing> fpdus,
                                                        std::span<std::byte> rest) {
    for (std::size_t i = 0; i < fpdus.size(); ++i) {
        fpdus_[i].name = to_name(fpdus[i].name, fpdus[i].payload);
        fpdus_[i].header_len = static_cast<std::uint16_t>(fpdus[i].header_len);
        fpdus_[i].flags = fpdus[i].ends ? SWRNIC_FPDU_ENDS : 0;
        std::memcpy(fpdus_[i].header, fpdus[i].header.data(), fpdus[i].header_len);
    }
    swrnic_transmit transmit{};
    transmit.qpn = qpn;
    transmit.count = static_cast<std::uint32_t>(fpdus.size());
    transmit.fpdus = reinterpret_cast<std::uintptr_t>(fpdus_.data());
    transmit.rest = reinterpret_cast<std::uintptr_t>(rest.data());
    if (const int failed = calls_.call(SWRNIC_IOC_TRANSMIT, &transmit); failed != 0)
        return {stream_status("TRANSMIT", qpn, failed), 0, 0, MemoryError::kNone, 0};
    return {engine::IoStatus::kOk, transmit.sent, transmit.laid_out, result_of("TRANSMIT", qpn, 0, transmit.error),
            transmit.left,         transmit.done};
}

std::optional<engine::ForeignMemory::Receive> KernelMemory::take_receive(std::uint32_t qpn) {
    swrnic_wqe wqe{};
    swrnic_fetch fetch{
        .qpn = qpn, .queue = SWRNIC_QUEUE_RECV, .wqes = reinterpret_cast<std::uintptr_t>(&wqe), .max = 1, .count = 0};
    const int failed = calls_.call(SWRNIC_IOC_FETCH, &fetch);
    if (failed != 0 || fetch.count == 0) return std::nullopt;
    return Receive{wqe.sequence, wqe.length};
}

bool KernelMemory::execute(std::uint32_t qpn, std::uint64_t wr_id) {
    swrnic_execute execute{.qpn = qpn, .error = 0, .sequence = wr_id};
    const int failed = calls_.call(SWRNIC_IOC_EXECUTE, &execute);
    return result_of("EXECUTE", qpn, failed, execute.error) == MemoryError::kNone;
}

MemoryError KernelMemory::invalidate(std::uint32_t qpn, std::uint32_t stag) {
    swrnic_invalidate invalidate{.qpn = qpn, .stag = stag, .error = 0, .reserved = 0};
    const int failed = calls_.call(SWRNIC_IOC_INVALIDATE, &invalidate);
    return result_of("INVALIDATE", qpn, failed, invalidate.error);
}

}  // namespace swrnic::daemon
