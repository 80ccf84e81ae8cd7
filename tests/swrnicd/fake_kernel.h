// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The module as swrnicd sees it: an event file, and requests and memory by name. One QP.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <swrnic-abi.h>
#include <swrnic-serve.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "calls.h"
#include "engine/fpdu_run.h"
#include "engine/support.h"

namespace swrnic::daemon::test {

using Bytes = std::vector<std::byte>;
inline constexpr std::uint64_t kTo = 0x5000;  // where STags begin

class FakeKernel {
  public:
    // shares: its receives come one at a time, when they are asked for.
    explicit FakeKernel(std::uint32_t number, bool shares = false) : qpn(number), shares_(shares) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
        ours_ = ends[0];
        event_fd = ends[1];
    }
    ~FakeKernel() { leave(); }
    FakeKernel(const FakeKernel&) = delete;
    FakeKernel& operator=(const FakeKernel&) = delete;

    // ---- what a consumer does
    std::uint64_t post(std::uint32_t queue, swrnic_wqe wqe, Bytes memory = {}) {
        {
            const std::lock_guard hold(mutex_);
            Ring& ring = rings_[queue];
            wqe.sequence = ring.wqes.size();
            wqe.length = static_cast<std::uint32_t>(memory.size());
            ring.wqes.push_back(wqe);
            things_[{queue, wqe.sequence}] = std::move(memory);
            if (queue == SWRNIC_QUEUE_RECV && !std::exchange(awaits_receive_, false)) return wqe.sequence;
        }
        tell({.type = SWRNIC_DOWN_QP_WORK, .qpn = qpn, .u = {}});
        return wqe.sequence;
    }
    void add_stag(std::uint32_t stag, Bytes memory) {
        const std::lock_guard hold(mutex_);
        things_[{SWRNIC_NAME_TAGGED, stag}] = std::move(memory);
    }
    void remove(std::uint32_t kind, std::uint64_t id) {
        const std::lock_guard hold(mutex_);
        things_.erase({kind, id});
    }
    Bytes memory(std::uint32_t kind, std::uint64_t id) {
        const std::lock_guard hold(mutex_);
        return things_[{kind, id}];
    }

    // ---- the event file
    void tell(const swrnic_down& record) {
        EXPECT_EQ(::send(ours_, &record, sizeof record, MSG_NOSIGNAL), ssize_t{sizeof record});
    }
    void connect(int fd, std::uint8_t role, bool crc = false) {
        {
            const std::lock_guard hold(mutex_);
            close_stream();
            stream_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
            crc_ = crc;
        }
        swrnic_down record{.type = SWRNIC_DOWN_QP_CONNECTED, .qpn = qpn, .u = {}};
        record.u.connected.fd = fd;
        record.u.connected.role = role;
        record.u.connected.mpa_rev = 2;
        record.u.connected.ird = record.u.connected.ord = 4;
        record.u.connected.flags = crc ? SWRNIC_CONN_CRC : 0;
        tell(record);
    }
    // The next record that is not of counters.
    swrnic_up heard() {
        for (;;) {
            pollfd ready{ours_, POLLIN, 0};
            if (::poll(&ready, 1, 10'000) != 1) break;
            std::array<swrnic_up, SWRNIC_COUNTERS> records{};
            if (::recv(ours_, records.data(), sizeof records, 0) <= 0) break;
            if (records[0].type == SWRNIC_UP_COUNTED) continue;
            const std::lock_guard hold(mutex_);
            if (records[0].type == SWRNIC_UP_QP_CLOSED) close_stream();
            return records[0];
        }
        ADD_FAILURE() << "the daemon says nothing";
        return {};
    }
    void leave() {
        if (ours_ >= 0) ::close(ours_);
        ours_ = -1;
        const std::lock_guard hold(mutex_);
        close_stream();
    }

    // The first `count` completions, when they are there.
    std::vector<swrnic_done> completed(std::size_t count) {
        std::unique_lock hold(mutex_);
        EXPECT_TRUE(news_.wait_for(hold, std::chrono::seconds(10), [&] { return done_.size() >= count; }));
        return done_;
    }
    std::size_t fetched(std::uint32_t queue) {
        const std::lock_guard hold(mutex_);
        return rings_[queue].fetched;
    }
    // Calls past the daemon's own socket, and FPDUs that one of them placed.
    struct Moves {
        unsigned received = 0, placed = 0, transmitted = 0, copied_in = 0, copied_out = 0;
        unsigned completed = 0, invalidated = 0, executed = 0;  // by calls for that alone
        unsigned fetched = 0;
    };
    Moves moves() {
        const std::lock_guard hold(mutex_);
        return moves_;
    }
    std::vector<std::uint64_t> executed() {
        const std::lock_guard hold(mutex_);
        return executed_;
    }

    int call(unsigned long request, void* argument) {
        const std::lock_guard hold(mutex_);
        switch (request) {
            case SWRNIC_IOC_QP_INFO: {
                auto& info = *static_cast<swrnic_qp_info*>(argument);
                if (info.qpn != qpn) return EINVAL;
                info.access = 7;  // local write, remote write and read
                info.max_send_wr = 128;
                info.max_recv_wr = shares_ ? 0 : 128;
                return 0;
            }
            case SWRNIC_IOC_FETCH:
                return fetch(*static_cast<swrnic_fetch*>(argument));
            case SWRNIC_IOC_COPY:
                return copy(*static_cast<swrnic_copy*>(argument));
            case SWRNIC_IOC_RECEIVE:
                return receive(*static_cast<swrnic_receive*>(argument));
            case SWRNIC_IOC_TRANSMIT:
                return transmit(*static_cast<swrnic_transmit*>(argument));
            case SWRNIC_IOC_EXECUTE:
                ++moves_.executed;
                executed_.push_back(static_cast<swrnic_execute*>(argument)->sequence);
                return 0;
            case SWRNIC_IOC_INVALIDATE: {
                auto& invalidate = *static_cast<swrnic_invalidate*>(argument);
                ++moves_.invalidated;
                const bool there = things_.erase({SWRNIC_NAME_TAGGED, invalidate.stag}) != 0;
                invalidate.error = there ? SWRNIC_NAME_OK : SWRNIC_NAME_INVALID_STAG;
                return 0;
            }
            case SWRNIC_IOC_COMPLETE: {
                auto& complete = *static_cast<swrnic_complete*>(argument);
                const auto* from = pointer<const swrnic_done>(complete.done);
                ++moves_.completed;
                for (std::uint32_t i = 0; i < complete.count; ++i)
                    EXPECT_TRUE(take_done(from[i])) << from[i].sequence;
                return 0;
            }
            default:
                return ENOTTY;
        }
    }

    const std::uint32_t qpn;
    int event_fd;  // the daemon's end

  private:
    struct Ring {
        std::vector<swrnic_wqe> wqes;
        std::size_t fetched = 0, complete = 0;
    };
    template <typename Type>
    static Type* pointer(std::uint64_t from) {
        return reinterpret_cast<Type*>(static_cast<std::uintptr_t>(from));
    }
    int fetch(swrnic_fetch& fetch) {
        if (shares_ && fetch.queue == SWRNIC_QUEUE_RECV) {
            EXPECT_EQ(fetch.max, 1u) << "hoarded";
        }
        ++moves_.fetched;
        fetch.count = 0;
        if (fetch.queue == SWRNIC_QUEUE_RECV || (fetch.queue == SWRNIC_QUEUE_BOTH && !shares_))
            fetch_from(rings_[SWRNIC_QUEUE_RECV], fetch);
        if (fetch.queue == SWRNIC_QUEUE_RECV) {
            awaits_receive_ = fetch.count == 0;
            return 0;
        }
        Ring& ring = rings_[SWRNIC_QUEUE_SEND];
        while (ring.complete == ring.fetched && ring.fetched < ring.wqes.size() &&
               ring.wqes[ring.fetched].opcode == SWRNIC_WQE_LOCAL) {
            executed_.push_back(ring.fetched);
            swrnic_done done{};
            done.sequence = ring.fetched++;
            take_done(done);
        }
        fetch_from(ring, fetch);
        return 0;
    }
    static void fetch_from(Ring& ring, swrnic_fetch& fetch) {
        while (fetch.count < fetch.max && ring.fetched < ring.wqes.size())
            pointer<swrnic_wqe>(fetch.wqes)[fetch.count++] = ring.wqes[ring.fetched++];
    }
    // The oldest alone can be complete.
    bool take_done(const swrnic_done& done) {
        if (done.sequence != rings_[done.queue].complete) return false;
        ++rings_[done.queue].complete;
        done_.push_back(done);
        news_.notify_all();
        return true;
    }
    void end(const swrnic_name& name, std::uint32_t octets, swrnic_ending& ending) {
        if ((ending.flags & SWRNIC_ENDING) == 0 || name.id != rings_[name.kind].complete) return;
        const bool invalidates = (ending.flags & SWRNIC_DONE_INVALIDATED) != 0;
        if (invalidates && things_.erase({SWRNIC_NAME_TAGGED, ending.invalidated}) == 0) return;
        swrnic_done done{};
        done.sequence = name.id;
        done.queue = name.kind;
        done.length = static_cast<std::uint32_t>(name.offset + octets);
        done.invalidated = ending.invalidated;
        done.flags = ending.flags & ~SWRNIC_ENDING;
        ending.done = take_done(done) ? 1 : 0;
    }
    std::span<std::byte> find(const swrnic_name& name) {
        const auto found = things_.find({name.kind, name.id});
        if (found == things_.end() || name.length == 0) return {};
        const std::uint64_t offset = name.offset - (name.kind == SWRNIC_NAME_TAGGED ? kTo : 0);
        const std::uint64_t whole = std::max(name.length, name.whole);
        if (offset > found->second.size() || whole > found->second.size() - offset) return {};
        return std::span(found->second).subspan(offset, name.length);
    }
    void close_stream() {
        if (stream_ >= 0) ::close(stream_);
        stream_ = -1;
    }
    int receive(swrnic_receive& receive) {
        const auto* have = pointer<const std::byte>(receive.fpdu);
        Bytes all(have, have + receive.have);
        EXPECT_EQ(wire::kFpduHeaderLen + wire::load_be16(all.data()), receive.header + receive.name.length);
        all.resize(receive.have + receive.room);
        if (stream_ < 0) return ENOTCONN;
        const ssize_t got = ::recv(stream_, all.data() + receive.have, receive.room, MSG_DONTWAIT | MSG_PEEK);
        if (got < 0) return errno;
        ++moves_.received;
        all.resize(receive.have + static_cast<std::size_t>(got));
        const bool more = (receive.flags & SWRNIC_RECEIVE_MORE) != 0;
        const auto place = [&](std::size_t at, std::span<const std::byte> payload, bool last) {
            swrnic_name name = receive.name;
            name.offset += at;
            name.length = static_cast<std::uint32_t>(payload.size());
            const std::span<std::byte> to = find(name);
            const bool ends = name.offset + name.length == things_[{name.kind, name.id}].size();
            if (last && name.kind == SWRNIC_NAME_SEND && !ends) return false;
            std::copy(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(to.size()), to.begin());
            return !to.empty();
        };
        const bool writes = receive.name.kind == SWRNIC_NAME_TAGGED;
        const engine::test::FpduRun run = engine::test::place_fpdus(all, receive.header, crc_, more, writes, place);
        receive.placed = run.placed;
        receive.octets = run.octets;
        receive.last = run.last;
        receive.ended = run.ended;
        receive.whole = run.whole ? 1 : 0;
        moves_.placed += run.placed;
        const std::size_t from = std::max<std::size_t>(run.length, receive.have);
        const auto behind = std::span(all).subspan(from);
        receive.left = static_cast<std::uint32_t>(
            run.placed != 0 ? engine::test::handed_over(behind, static_cast<std::size_t>(got) == receive.room)
                            : behind.size());
        std::copy_n(behind.begin(), receive.left, pointer<std::byte>(receive.rest));
        receive.taken = static_cast<std::uint32_t>(from - receive.have) + receive.left;
        receive.remains = receive.left < behind.size() ? 1 : 0;
        Bytes taken(receive.taken);
        EXPECT_EQ(::recv(stream_, taken.data(), taken.size(), MSG_DONTWAIT), static_cast<ssize_t>(taken.size()));
        if (run.whole) end(receive.name, run.octets, receive.ending);
        return 0;
    }
    int transmit(swrnic_transmit& transmit) {
        const auto* fpdus = pointer<const swrnic_fpdu>(transmit.fpdus);
        Bytes run;
        std::vector<std::size_t> ends;
        transmit.error = SWRNIC_NAME_OK;
        for (std::uint32_t i = 0; i < transmit.count; ++i) {
            const auto* header = reinterpret_cast<const std::byte*>(fpdus[i].header);
            Bytes ulpdu(header + 2, header + fpdus[i].header_len);
            const std::span<std::byte> payload = find(fpdus[i].name);
            if (payload.empty() && fpdus[i].name.length != 0) {
                transmit.error = SWRNIC_NAME_INVALID_STAG;
                break;
            }
            ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
            engine::test::append_fpdu(run, ulpdu, false, crc_);
            ends.push_back(run.size());
        }
        transmit.laid_out = static_cast<std::uint32_t>(ends.size());
        transmit.sent = transmit.left = transmit.done = 0;
        if (ends.empty()) return 0;
        if (stream_ < 0) return ENOTCONN;
        const ssize_t sent = ::send(stream_, run.data(), run.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN ? 0 : errno;
        ++moves_.transmitted;
        transmit.sent = static_cast<std::uint32_t>(sent);
        const std::size_t cut = *std::lower_bound(ends.begin(), ends.end(), transmit.sent);
        transmit.left = static_cast<std::uint32_t>(cut - transmit.sent);
        std::copy_n(run.data() + transmit.sent, transmit.left, pointer<std::byte>(transmit.rest));
        for (std::uint32_t i = 0; i < transmit.laid_out && ends[i] <= transmit.sent; ++i) {
            if ((fpdus[i].flags & SWRNIC_FPDU_ENDS) == 0) continue;
            swrnic_done done{};
            done.sequence = fpdus[i].name.id;
            if (!take_done(done)) break;
            ++transmit.done;
        }
        return 0;
    }
    int copy(swrnic_copy& copy) {
        ++(copy.direction == SWRNIC_COPY_IN ? moves_.copied_in : moves_.copied_out);
        auto* memory = pointer<std::byte>(copy.memory);
        for (std::uint32_t i = 0; i < copy.count; ++i) {
            const std::span<std::byte> at = find(pointer<const swrnic_name>(copy.names)[i]);
            copy.error = at.empty() ? SWRNIC_NAME_INVALID_STAG : SWRNIC_NAME_OK;
            if (at.empty()) return 0;
            if (copy.direction == SWRNIC_COPY_IN) {
                std::memcpy(memory, at.data(), at.size());
            } else {
                std::memcpy(at.data(), memory, at.size());
            }
            memory += at.size();
        }
        const auto* name = pointer<const swrnic_name>(copy.names);
        end(*name, name->length, copy.ending);
        return 0;
    }

    const bool shares_;
    bool awaits_receive_ = false;  // it has asked for receives, and found none
    int stream_ = -1;              // the module's own reference
    bool crc_ = false;
    Moves moves_;
    int ours_ = -1;
    std::mutex mutex_;
    std::condition_variable news_;
    std::array<Ring, 2> rings_;
    std::map<std::pair<std::uint32_t, std::uint64_t>, Bytes> things_;
    std::vector<swrnic_done> done_;
    std::vector<std::uint64_t> executed_;
};

class FakeCalls final : public Calls {
  public:
    explicit FakeCalls(FakeKernel& kernel) : kernel_(kernel) {}
    int call(unsigned long request, void* argument) override { return kernel_.call(request, argument); }

  private:
    FakeKernel& kernel_;
};

}  // namespace swrnic::daemon::test
