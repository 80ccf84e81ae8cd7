// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The octets of one send: runs of staging memory and slices of user memory, in stream order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "engine/core/foreign_memory.h"
#include "engine/core/transport.h"
#include "engine/core/tx.h"

namespace swrnic::engine {

struct Tx::Layout {
    Layout(std::span<std::byte> staging, std::span<std::byte> scratch)
        : staging_(staging),
          run_start_(staging.data()),
          write_(staging.data()),
          slices(reinterpret_cast<IoSlice*>(scratch.data())),
          records(reinterpret_cast<Record*>(scratch.data() + kMaxSlices * sizeof(IoSlice))),
          named(reinterpret_cast<ForeignMemory::Outgoing*>(staging.data() + kHeader)) {
        static_assert(kMaxSlices * sizeof(IoSlice) + (kMaxRecords + 1) * sizeof(Record) <= PassPool::kTxScratch);
        static_assert(kMaxRecords <= ForeignMemory::kMostOutgoing &&
                      kHeader + kNamed + ForeignMemory::kLongestFpdu <= PassPool::kLeastTxStaging);
    }

    bool has_room(std::size_t staged) const {
        return static_cast<std::size_t>(staging_.data() + staging_.size() - write_) >= staged &&
               slice_count + 66 <= kMaxSlices;  // an FPDU's elements, and a run of staging on each side
    }
    // Room in staging for the next octets of the stream; wrote() says how many were used.
    std::byte* staged_room() { return write_; }
    void wrote(std::size_t length) {
        write_ += length;
        octets += length;
    }
    void add_slice(const IoSlice& slice) {
        close_run();
        slices[slice_count++] = slice;
        octets += slice.length;
    }
    // Instead of slices: FPDUs whose payload foreign memory has. Staging then holds the header that is being made, all
    // of them, and what is left of the last.
    ForeignMemory::Outgoing& add_named() { return *new (&named[named_count++]) ForeignMemory::Outgoing; }
    std::span<std::byte> rest_room() const { return staging_.subspan(kHeader + kNamed, ForeignMemory::kLongestFpdu); }
    void close_run() {
        if (write_ != run_start_) slices[slice_count++] = {run_start_, static_cast<std::size_t>(write_ - run_start_)};
        run_start_ = write_;
    }
    // The first octets are out already.
    void drop_front(std::size_t length) {
        close_run();
        octets -= length;
        std::uint32_t gone = 0;
        while (gone < slice_count && slices[gone].length <= length)
            length -= slices[gone++].length;
        for (std::uint32_t i = gone; i < slice_count; ++i)
            slices[i - gone] = slices[i];
        slice_count -= gone;
        if (slice_count != 0) {
            slices[0].base += length;
            slices[0].length -= length;
        }
    }
    // Octets [from, to) of the step; they lie in one slice (staged layouts: one slice for the residue, one for all
    // else).
    std::span<const std::byte> staged(std::size_t from, std::size_t to) const {
        for (std::uint32_t i = 0; i < slice_count; ++i) {
            if (from < slices[i].length) return {slices[i].base + from, to - from};
            from -= slices[i].length;
            to -= slices[i].length;
        }
        return {};
    }

  private:
    static constexpr std::size_t kHeader = 128;
    static constexpr std::size_t kNamed = kMaxRecords * sizeof(ForeignMemory::Outgoing);

    const std::span<std::byte> staging_;
    std::byte* run_start_;
    std::byte* write_;

  public:
    IoSlice* const slices;
    Record* const records;
    ForeignMemory::Outgoing* const named;
    std::span<const std::byte> rest;
    std::uint32_t named_count = 0;
    std::uint32_t slice_count = 0;
    std::uint32_t record_count = 0;
    std::size_t octets = 0;
    bool corked = false;  // more was planned, but waits for others
};

}  // namespace swrnic::engine
