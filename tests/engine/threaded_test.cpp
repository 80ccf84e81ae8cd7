// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two QPs joined in memory, and everything at once: threads that post, drive, poll, register and deregister, until the
// stream is aborted under them. Made for ThreadSanitizer; the data and the number of completions are checked always.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/support.h"

namespace swrnic::engine::test {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kSlots = 16, kReads = 4, kReceives = 2 * kSlots;
constexpr std::uint32_t kWriteLen = 20'000, kSendLen = 3'000, kReadLen = 40'000;
constexpr std::uint64_t kReadId = std::uint64_t{1} << 32, kWriteId = std::uint64_t{2} << 32;

std::byte pattern(std::uint64_t message, std::size_t at) {
    return static_cast<std::byte>(message * 31 + at * 7 + (at >> 8));
}
void fill(std::byte* data, std::size_t length, std::uint64_t message) {
    for (std::size_t i = 0; i < length; ++i)
        data[i] = pattern(message, i);
}
bool holds(const std::byte* data, std::size_t length, std::uint64_t message) {
    for (std::size_t i = 0; i < length; ++i) {
        if (data[i] != pattern(message, i)) return false;
    }
    return true;
}

struct Pipe {  // one direction
    std::mutex mutex;
    Bytes octets;
    std::size_t head = 0;
    bool closed = false;
};

class PipeTransport final : public Transport {
  public:
    PipeTransport(Pipe& in, Pipe& out) : in_(in), out_(out) {}
    ~PipeTransport() override {
        for (Pipe* pipe : {&in_, &out_}) {
            const std::lock_guard hold(pipe->mutex);
            pipe->closed = true;
        }
    }
    IoResult receive(const IoSlice* slices, std::size_t count) override {
        const std::lock_guard hold(in_.mutex);
        if (in_.closed) return {IoStatus::kBroken, 0};
        std::size_t moved = 0;
        for (std::size_t i = 0; i < count && in_.head != in_.octets.size(); ++i) {
            const std::size_t part = std::min(slices[i].length, in_.octets.size() - in_.head);
            std::memcpy(slices[i].base, in_.octets.data() + in_.head, part);
            in_.head += part;
            moved += part;
        }
        if (in_.head == in_.octets.size()) {
            in_.octets.clear();
            in_.head = 0;
        }
        return moved != 0 ? IoResult{IoStatus::kOk, moved} : IoResult{IoStatus::kAgain, 0};
    }
    IoResult send(const IoSlice* slices, std::size_t count) override {
        const std::lock_guard hold(out_.mutex);
        if (out_.closed) return {IoStatus::kBroken, 0};
        std::size_t moved = 0;
        for (std::size_t i = 0; i < count && out_.octets.size() < kWindow; ++i) {
            const std::size_t part = std::min(slices[i].length, kWindow - out_.octets.size());
            out_.octets.insert(out_.octets.end(), slices[i].base, slices[i].base + part);
            moved += part;
        }
        return moved != 0 ? IoResult{IoStatus::kOk, moved} : IoResult{IoStatus::kAgain, 0};
    }
    void finish_sending() override {}
    std::uint32_t emss() const override { return 9000; }

  private:
    static constexpr std::size_t kWindow = 150'001;
    Pipe& in_;
    Pipe& out_;
};

struct ReadSlot {
    Bytes sink;
    std::uint32_t key = 0;
    std::atomic<bool> done{false};
    std::atomic<WcStatus> status{WcStatus::kSuccess};
};

class Side {
  public:
    Side()
        : writes_in(kSlots * kWriteLen),
          source(kReadLen),
          writes_out(kSlots * kWriteLen),
          sends_out(kSlots * kSendLen),
          receives(kReceives * kSendLen) {
        fill(source.data(), source.size(), 99);
        write_key = rig.region(writes_in, access::kLocalWrite | access::kRemoteWrite);
        source_key = rig.region(source, access::kRemoteRead);
        writes_out_key = rig.region(writes_out, 0);
        sends_out_key = rig.region(sends_out, 0);
        receives_key = rig.region(receives, access::kLocalWrite);
        for (std::uint32_t i = 0; i < kReceives; ++i)
            post_receive(i);
    }

    void start(bool initiator, bool crc, Pipe& in, Pipe& out) {
        StreamParameters parameters = plain_stream();
        parameters.initiator = initiator;
        parameters.crc = crc;
        RxGuard rx(rig.qp->rx_lock());
        TxGuard tx(rig.qp->tx_lock());
        std::unique_ptr<Transport> transport = std::make_unique<PipeTransport>(in, out);
        ASSERT_TRUE(rig.qp->start(rx, tx, parameters, transport));
    }

    // As the engine does it (drive.cpp): who does not get the lock leaves word for its holder.
    void drive() {
        drive_rx();
        drive_tx();
    }
    void drive_tx() {
        Pass pass = rig.passes.begin();
        Tx::Status status = Tx::Status::kMoved;
        do {
            TxGuard guard = rig.qp->tx_lock().take_or_flag(tx_due);
            if (!guard.owns()) break;
            status = Tx::Status::kMoved;
            for (int i = 0; i < 16 && status == Tx::Status::kMoved; ++i)
                status = rig.qp->transmit(guard, pass);
        } while (tx_due);
        if (status == Tx::Status::kBroken || status == Tx::Status::kLast) finish(pass, CloseReason::kLost);
        discard(pass);
    }
    void abort() {
        Pass pass = rig.passes.begin();
        rig.qp->apply(QpEvent::kAbort);
        finish(pass, CloseReason::kLost);
        discard(pass);
    }
    void flush() {
        RxGuard rx(rig.qp->rx_lock());
        TxGuard tx(rig.qp->tx_lock());
        Pass pass = rig.passes.begin();
        rig.qp->flush(rx, tx, pass);
        discard(pass);
    }

    // One thread: a Write, and a Send that tells of it.
    void post_messages(Side& peer, const std::atomic<bool>& stop) {
        for (std::uint64_t n = 0; !stop;) {
            if (n - peer.checked.load(std::memory_order_acquire) >= kSlots ||
                n - polled >= 4 * kSlots) {  // room in the CQ
                std::this_thread::yield();
                continue;
            }
            const std::size_t slot = n % kSlots;
            std::byte* const write = writes_out.data() + slot * kWriteLen;
            std::byte* const send = sends_out.data() + slot * kSendLen;
            fill(write, kWriteLen, n);
            fill(send, kSendLen, n + 1);
            const Sge out{reinterpret_cast<std::uintptr_t>(write), kWriteLen, writes_out_key};
            const auto to = reinterpret_cast<std::uintptr_t>(peer.writes_in.data() + slot * kWriteLen);
            if (!post({kWriteId | n, WrOpcode::kWrite, 0, {&out, 1}, to, peer.write_key, 0}, stop)) return;
            ++posted_writes;
            const Sge tell{reinterpret_cast<std::uintptr_t>(send), kSendLen, sends_out_key};
            if (!post({n, WrOpcode::kSend, send_flag::kSignaled, {&tell, 1}, 0, 0, 0}, stop)) return;
            ++posted_sends;
            ++n;
            drive_tx();
        }
    }

    // Another thread: Reads into regions that live only as long as the Read.
    void post_reads(const Side& peer, const std::atomic<bool>& stop) {
        for (std::uint64_t n = 0; !stop; ++n) {
            ReadSlot& slot = reads[n % kReads];
            slot.sink.assign(kReadLen, std::byte{0});
            slot.done = false;
            slot.key = rig.region(slot.sink, access::kLocalWrite);
            const Sge sge{reinterpret_cast<std::uintptr_t>(slot.sink.data()), kReadLen, slot.key};
            const auto from = reinterpret_cast<std::uintptr_t>(peer.source.data());
            const bool posted =
                post({kReadId | n % kReads, WrOpcode::kRead, send_flag::kSignaled, {&sge, 1}, from, peer.source_key, 0},
                     stop);
            if (posted) {
                ++posted_reads;
                drive_tx();
                while (!slot.done.load(std::memory_order_acquire))
                    std::this_thread::yield();
            }
            EXPECT_TRUE(rig.memory.remove(slot.key));
            EXPECT_FALSE(rig.memory.remove(slot.key));
            if (!posted || slot.status == WcStatus::kWrFlushErr) return;
            ASSERT_EQ(slot.status, WcStatus::kSuccess);
            EXPECT_TRUE(holds(slot.sink.data(), kReadLen, 99));
            Bytes().swap(slot.sink);  // whoever still wrote there would be caught
        }
    }

    void poll() {
        rig.recv_cq.poll(8, [&](const WorkCompletion& done) { received(done); });
        while (rereceive != 0) {
            post_receive(next_receive++ % kReceives);
            --rereceive;
        }
        rig.send_cq.poll(8, [&](const WorkCompletion& done) { sent(done); });
    }

    // Regions that come and go, among which the table grows.
    void churn(const std::atomic<bool>& stop) {
        Bytes memory(4096);
        std::vector<std::uint32_t> keys;
        for (unsigned round = 0; !stop;) {
            for (int i = 0; i < 100; ++i)
                keys.push_back(rig.region(memory, kAllRights, 0x1000));
            for (const std::uint32_t key : keys) {
                {
                    const Pass pass = rig.passes.begin();
                    EXPECT_EQ(rig.memory.look_up(Rig::kPd, key, 0x1000, 4096, access::kRemoteRead).data, memory.data());
                }
                EXPECT_TRUE(rig.memory.remove(key));
                const Pass pass = rig.passes.begin();
                EXPECT_EQ(rig.memory.look_up(Rig::kPd, key, 0x1000, 1, 0).error, MemoryError::kInvalidStag);
            }
            keys.clear();
            offered = rig.region(memory, kAllRights, 0x1000);
            std::this_thread::yield();
            EXPECT_TRUE(rig.memory.remove(offered));
            std::fill(memory.begin(), memory.end(), std::byte(++round));  // nobody looks any more
        }
    }

    // As a driving thread would: a pass, a look-up, and use of what it says.
    void peek() {
        const Pass pass = rig.passes.begin();
        const MemoryView view = rig.memory.look_up(Rig::kPd, offered, 0x1000, 4096, access::kRemoteRead);
        if (view.error != MemoryError::kNone) return;
        EXPECT_EQ(std::count(view.data, view.data + 4096, view.data[0]), 4096);
        ++peeks;
    }

    Rig rig{RigOptions{.max_send_wr = 24, .max_recv_wr = kReceives, .cq_entries = 256}};
    Bytes writes_in, source, writes_out, sends_out, receives;
    std::uint32_t write_key, source_key, writes_out_key, sends_out_key, receives_key;
    std::array<ReadSlot, kReads> reads;
    std::atomic<std::uint64_t> checked{0};   // messages of the peer
    std::atomic<std::uint64_t> polled{0};    // Sends of our own
    std::atomic<std::uint64_t> answered{0};  // Reads of our own
    std::atomic<std::uint64_t> posted_sends{0}, posted_writes{0}, posted_reads{0};
    std::atomic<std::uint32_t> offered{0};  // a region that may be gone
    std::uint64_t peeks = 0;
    // The poller's own.
    std::uint64_t posted_receives = 0, next_receive = 0, rereceive = 0;
    std::uint64_t receives_done = 0, receives_flushed = 0;
    std::uint64_t sends_done = 0, sends_flushed = 0, reads_done = 0, reads_flushed = 0, writes_flushed = 0;

  private:
    void drive_rx() {
        Pass pass = rig.passes.begin();
        Rx::Status status = Rx::Status::kAgain;
        do {
            RxGuard guard = rig.qp->rx_lock().take_or_flag(rx_due);
            if (!guard.owns()) break;
            status = Rx::Status::kMoved;
            for (int i = 0; i < 16 && status == Rx::Status::kMoved; ++i)
                status = rig.qp->receive(guard, pass);
        } while (rx_due);
        if (status == Rx::Status::kBroken || status == Rx::Status::kEof) finish(pass, CloseReason::kLost);
        discard(pass);
    }
    void finish(Pass& pass, CloseReason reason) {
        std::unique_ptr<Transport> transport;
        RxGuard rx(rig.qp->rx_lock());
        TxGuard tx(rig.qp->tx_lock());
        transport = rig.qp->end(rx, tx, pass, reason);
    }
    static void discard(Pass& pass) {
        for (const auto& event : pass.outbox().events)
            ADD_FAILURE() << "event " << static_cast<unsigned>(event.event);
        pass.outbox() = Outbox{};
    }
    bool post(const SendWr& wr, const std::atomic<bool>& stop) {
        while (!stop) {
            const PostResult result = rig.qp->post_send(wr);
            if (result == PostResult::kOk) return true;
            EXPECT_EQ(result, PostResult::kFull);
            drive_tx();
            std::this_thread::yield();
        }
        return false;
    }
    void post_receive(std::uint64_t slot) {
        const Sge sge{reinterpret_cast<std::uintptr_t>(receives.data() + slot * kSendLen), kSendLen, receives_key};
        ASSERT_EQ(rig.qp->post_recv({slot, {&sge, 1}}), PostResult::kOk);
        ++posted_receives;
    }
    void received(const WorkCompletion& done) {
        if (done.status == WcStatus::kWrFlushErr) {
            ++receives_flushed;
            return;
        }
        ASSERT_EQ(done.status, WcStatus::kSuccess);
        ASSERT_EQ(receives_flushed, 0u) << "flushed before it";
        ASSERT_EQ(done.wr_id, receives_done % kReceives);
        const std::uint64_t n = receives_done++;
        ASSERT_EQ(done.byte_len, kSendLen);
        EXPECT_TRUE(holds(receives.data() + done.wr_id * kSendLen, kSendLen, n + 1)) << "Send " << n;
        EXPECT_TRUE(holds(writes_in.data() + n % kSlots * kWriteLen, kWriteLen, n)) << "Write " << n;
        checked.store(n + 1, std::memory_order_release);
        ++rereceive;
    }
    void sent(const WorkCompletion& done) {
        const bool flushed = done.status == WcStatus::kWrFlushErr;
        EXPECT_TRUE(flushed || done.status == WcStatus::kSuccess);
        if (done.opcode == WcOpcode::kWrite) {
            EXPECT_TRUE(flushed) << "not signaled";
            ++writes_flushed;
        } else if (done.opcode == WcOpcode::kSend) {
            EXPECT_EQ(done.wr_id, sends_done + sends_flushed) << "in order, each once";
            ++(flushed ? sends_flushed : sends_done);
            ++polled;
        } else {
            ReadSlot& slot = reads.at(done.wr_id & 0xff);
            EXPECT_FALSE(slot.done.load());
            ++(flushed ? reads_flushed : reads_done);
            if (!flushed) ++answered;
            slot.status = done.status;
            slot.done.store(true, std::memory_order_release);
        }
    }

    std::atomic<bool> rx_due{false}, tx_due{false};
};

void run(bool crc) {
    Pipe there, back;
    Side a, b;
    a.start(true, crc, back, there);
    b.start(false, crc, there, back);
    std::atomic<bool> stop{false}, drained{false};
    std::vector<std::thread> workers, servants;
    for (Side* side : {&a, &b}) {
        Side* const peer = side == &a ? &b : &a;
        workers.emplace_back([=, &stop] { side->post_messages(*peer, stop); });
        workers.emplace_back([=, &stop] { side->post_reads(*peer, stop); });
        workers.emplace_back([=, &stop] { side->churn(stop); });
        servants.emplace_back([=, &drained] {
            while (!drained) {
                side->poll();
                side->drive();
                std::this_thread::yield();
            }
        });
    }
    servants.emplace_back([&] {
        while (!drained) {
            a.drive();
            b.drive();
            a.peek();
            b.peek();
            if (!a.rig.qp->connected()) a.flush();
            if (!b.rig.qp->connected()) b.flush();
            std::this_thread::yield();
        }
    });
    // Until there was enough of everything, and no shorter than half a second.
    const auto begin = std::chrono::steady_clock::now();
    const auto busy = [&] {
        return std::min<std::uint64_t>(a.checked, b.checked) < 50 ||
               std::min<std::uint64_t>(a.answered, b.answered) < 5;
    };
    for (auto now = begin; now < begin + 500ms || (busy() && now < begin + 20s); now = std::chrono::steady_clock::now())
        std::this_thread::sleep_for(10ms);
    a.abort();
    std::this_thread::sleep_for(50ms);  // posting goes on
    stop = true;
    for (auto& worker : workers)
        worker.join();
    drained = true;
    for (auto& servant : servants)
        servant.join();
    for (Side* side : {&a, &b}) {
        side->flush();
        for (int i = 0; i < 100; ++i)
            side->poll();
        side->flush();
        for (int i = 0; i < 100; ++i)
            side->poll();
        EXPECT_EQ(side->rig.qp->state(), QpState::kErr);
        EXPECT_EQ(side->receives_done + side->receives_flushed, side->posted_receives);
        EXPECT_EQ(side->sends_done + side->sends_flushed, side->posted_sends);
        EXPECT_EQ(side->reads_done + side->reads_flushed, side->posted_reads);
        EXPECT_LE(side->writes_flushed, side->posted_writes);
        EXPECT_GE(side->writes_flushed, side->sends_flushed > 0 ? side->sends_flushed - 1 : 0);
        EXPECT_GE(side->checked, 50u);
        EXPECT_GE(side->reads_done, 5u);
    }
}

TEST(Threaded, EverythingAtOnce) {
    run(false);
}

TEST(Threaded, EverythingAtOnceWithCrc) {
    run(true);
}

}  // namespace

}  // namespace swrnic::engine::test
