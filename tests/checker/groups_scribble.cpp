// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory that changes while the peer reads it, and that is written locally while the peer writes it. Verbs allow it
// (the bytes are then simply undefined), so with CRC in use no error may come of it.
#include <atomic>
#include <thread>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

constexpr std::size_t kRegion = 8U << 20;
constexpr std::size_t kMessage = 1U << 20;
constexpr std::uint64_t kWindow = 8;

// Writes all over a region until it is destroyed. Atomic accesses: the race is the point, undefined behaviour is not.
class Scribbler {
  public:
    Scribbler(std::span<std::uint8_t> memory, std::uint64_t seed)
        : thread_([this, memory, seed] {
              Rng rng(seed);
              while (!stop_.load(std::memory_order_relaxed)) {
                  const std::uint64_t word = rng.next();
                  for (std::size_t i = word % 61; i < memory.size(); i += 61 + word % 7) {
                      std::atomic_ref<std::uint8_t>(memory[i]).store(static_cast<std::uint8_t>(word + i),
                                                                     std::memory_order_relaxed);
                  }
              }
          }) {}
    ~Scribbler() {
        stop_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

void issuer(Session& s, Endpoint& ep) {
    Rng rng = s.own_rng("scribble");
    Sg sink(ep.pd(), kMessage, kSink, rng);
    Sg source(ep.pd(), kMessage, 0, rng);
    source.fill(77);
    const auto read_from = s.control.recv<Remote>();
    const auto write_to = s.control.recv<Remote>();
    const Deadline end{std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s.options.seconds))};
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    while (!end.over() || done < posted) {
        while (!end.over() && posted - done < kWindow) {
            ibv_sge element = (posted % 2 == 0 ? sink : source).list()[0];
            element.length = 1 + rng.below(kMessage);
            const std::uint64_t place = rng.below(static_cast<std::uint32_t>(kRegion - element.length) + 1);
            const std::span<ibv_sge> list(&element, 1);
            if (posted % 2 == 0) ep.read(posted, list, read_from.address + place, read_from.rkey);
            if (posted % 2 == 1) ep.write(posted, list, write_to.address + place, write_to.rkey);
            ++posted;
            s.count(element.length);
        }
        const ibv_wc wc = ep.wait(ep.send_cq(), "scribble");
        expect(wc.status == IBV_WC_SUCCESS && wc.wr_id == done, "{} {} under scribbling: wr_id {}, {}",
               done % 2 == 0 ? "Read" : "Write", done, wc.wr_id, status_text(wc));
        ++done;
    }
    s.control.barrier("scribbler stopped");
    ep.write(1, source.list(), write_to.address, write_to.rkey);
    sink.poison();
    ep.read(2, sink.list(), read_from.address, read_from.rkey);
    // Fenced: a Send may overtake the Response to a Read (RFC 5040 5.5), and its target gives up the memory behind it.
    ep.send(3, {}, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    ep.wait_send(1, IBV_WC_RDMA_WRITE, "Write after the scribbling");
    ep.wait_send(2, IBV_WC_RDMA_READ, "Read after the scribbling");
    sink.expect_message(78, kMessage, "Read after the scribbling");
    ep.wait_send(3, IBV_WC_SEND, "Send after the scribbling");
}

void victim(Session& s, Endpoint& ep) {
    Buffer source(kRegion, 9);
    Buffer target(kRegion, 3);
    const Mr source_mr(ep.pd(), source.bytes(), kRemote);
    const Mr target_mr(ep.pd(), target.bytes(), kRemote);
    {
        const Scribbler one(source.bytes(), s.options.seed);
        const Scribbler two(target.bytes(), s.options.seed + 1);
        ep.recv(3, {});
        s.control.send(Remote{reinterpret_cast<std::uintptr_t>(source.data()), source_mr.rkey()});
        s.control.send(Remote{reinterpret_cast<std::uintptr_t>(target.data()), target_mr.rkey()});
        const Deadline end{
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s.options.seconds))};
        while (!end.over())
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    source.fill(78);
    s.control.barrier("scribbler stopped");
    ep.wait_recv(3, 0, "Send after the scribbling");
    target.expect_pattern(77, 0, kMessage, "Write after the scribbling");
    target.expect_canaries("Write after the scribbling");
    source.expect_canaries("source of Reads");
    expect(!ep.async_seen({IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_REQ_ERR}), "error event");
}

}  // namespace

void run_scribble(Session& s) {
    for (const bool active_issues : {true, false}) {
        const auto ep = s.connect();
        s.active == active_issues ? issuer(s, *ep) : victim(s, *ep);
        s.control.barrier("scribble done");
    }
}

}  // namespace checker
