// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Traffic in both directions at once, on one connection and on many.
#include <array>
#include <atomic>
#include <thread>

#include "buffer.h"
#include "failure.h"
#include "mixer.h"
#include "session.h"

namespace checker {

namespace {

// Runs several mixers in turn until all are done: one thread, many connections.
void run_all(const Session& s, std::vector<std::unique_ptr<Mixer>>& mixers) {
    Deadline deadline(s.options.patience);
    for (std::size_t open = mixers.size(); open > 0;) {
        open = 0;
        bool moved = false;
        for (auto& mixer : mixers) {
            if (mixer->done()) continue;
            ++open;
            moved = mixer->step() || moved;
        }
        if (moved) {
            deadline = Deadline(s.options.patience);
        } else {
            expect(!deadline.over(), "no progress on {} of {} connections: {}", open, mixers.size(),
                   mixers[0]->where());
            std::this_thread::yield();
        }
    }
}

void finish(Session& s, const std::vector<std::unique_ptr<Mixer>>& mixers) {
    s.control.barrier("mix done");
    for (const auto& mixer : mixers) {
        mixer->verify_end();
        s.cases += mixer->messages();
        s.octets += mixer->octets();
    }
}

void swap_keys(Session& s, Mixer& mixer) {
    mixer.set_remote(s.control.exchange(mixer.mine()));
}

}  // namespace

void run_bidir(Session& s) {
    const std::uint32_t rounds = s.options.small ? 2 : 6;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        const auto ep = s.connect({.send_wr = 64, .recv_wr = Mixer::kReceives, .send_sge = 2, .recv_sge = 2});
        const std::size_t largest = round % 2 == 0 ? 3000 : 300000;
        std::vector<std::unique_ptr<Mixer>> mixers;
        mixers.push_back(std::make_unique<Mixer>(*ep, seed_of(s.options.seed + round, "bidir"), s.active, largest,
                                                 s.options.small ? 200U : 1500U));
        swap_keys(s, *mixers[0]);
        s.control.barrier("ready");
        run_all(s, mixers);
        finish(s, mixers);
    }
}

void run_many(Session& s) {
    const unsigned count = s.options.connections;
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    std::vector<std::unique_ptr<Mixer>> mixers;
    const Shape shape{.send_wr = 32, .recv_wr = Mixer::kReceives, .send_sge = 2, .recv_sge = 2};
    std::unique_ptr<Listener> listener;
    std::uint16_t port = 0;
    if (s.active) {
        port = s.control.recv<std::uint16_t>();
    } else {
        listener = std::make_unique<Listener>(s.options);
        s.control.send(listener->port());
    }
    for (unsigned i = 0; i < count; ++i) {
        endpoints.push_back(s.active ? Endpoint::connect(s.options, port, shape)
                                     : Endpoint::accept(s.options, *listener, shape));
        mixers.push_back(std::make_unique<Mixer>(*endpoints[i], seed_of(s.options.seed + i, "many"), s.active, 20000U,
                                                 s.options.small ? 40U : 200U));
        swap_keys(s, *mixers[i]);
    }
    s.control.barrier("ready");
    run_all(s, mixers);
    finish(s, mixers);
    mixers.clear();
}

void run_threads(Session& s) {
    constexpr unsigned kThreads = 4;
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    std::array<std::vector<std::unique_ptr<Mixer>>, kThreads> mixers;
    for (unsigned i = 0; i < kThreads; ++i) {
        endpoints.push_back(s.connect({.send_wr = 32, .recv_wr = Mixer::kReceives, .send_sge = 2, .recv_sge = 2}));
        mixers[i].push_back(std::make_unique<Mixer>(*endpoints[i], seed_of(s.options.seed + i, "threads"), s.active,
                                                    40000U, s.options.small ? 100U : 800U));
        swap_keys(s, *mixers[i][0]);
    }
    s.control.barrier("ready");
    std::array<std::string, kThreads> errors;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&s, &mixers, &errors, i] {
            try {
                run_all(s, mixers[i]);
            } catch (const Failure& failure) {
                errors[i] = failure.what();
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    for (const std::string& error : errors)
        expect(error.empty(), "{}", error);
    for (const auto& list : mixers)
        finish(s, list);
}

}  // namespace checker
