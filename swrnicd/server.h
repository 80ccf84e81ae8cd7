// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One device: an engine whose QPs are the kernel's, and the event file between them.
//
// Threads: all work is done by the engine's own thread, which calls control_readable() and the other functions of Host.
// Whoever owns the Server makes and destroys it, and may ask gone().
#pragma once

#include <swrnic-abi.h>

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "calls.h"
#include "engine/engine.h"
#include "engine/trace.h"
#include "host/event_file.h"
#include "kernel_memory.h"
#include "settings.h"

namespace swrnic::daemon {

class Server final : public engine::Host {
  public:
    // Takes event_fd; `calls` are the same file's. gone_fd: an eventfd that is raised when the device has gone;
    // borrowed. Null without memory.
    static std::unique_ptr<Server> create(const Settings& settings, const std::string& device, int event_fd,
                                          std::unique_ptr<Calls> calls, int gone_fd);
    // Makes the engine's thread, with the rights that the caller has by now: nothing is done before.
    void start();
    // Aborts the streams that are left.
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    bool gone() const { return gone_.load(std::memory_order_acquire); }
    const std::string& device() const { return device_; }

    void comp_posted(std::uint32_t qpn) override;
    void async_event(engine::AsyncEvent event, std::uint32_t id) override;
    void qp_ready(std::uint32_t qpn) override;
    void qp_closed(std::uint32_t qpn, engine::CloseReason reason) override;
    void terminated(std::uint32_t qpn, std::string_view code, bool sent) override;
    bool control_readable() override;
    bool report() override;

  private:
    struct KernelQp {
        engine::Qp* qp = nullptr;
        engine::Cq* cq = nullptr;  // its handle is the QP's number
        bool shared = false;       // its receives are taken one by one when they are needed (KernelMemory)
        bool failed = false;       // an error was reported: the module flushes the rest
        bool ended = false;        // QP_CLOSED was told: to be destroyed
    };

    Server(const std::string& device, int event_fd, std::unique_ptr<Calls> calls, int gone_fd);
    void obey(const swrnic_down& record);
    void connected(std::uint32_t qpn, const swrnic_connected& stream);
    bool make_qp(std::uint32_t qpn);
    void fetch(std::uint32_t qpn, KernelQp& qp, std::uint32_t queue);
    bool post(KernelQp& qp, const swrnic_wqe& wqe);
    void complete(std::uint32_t qpn, KernelQp& qp, std::span<const engine::WorkCompletion> found);
    void forget(std::uint32_t qpn);
    void destroy_ended();

    const std::string device_;
    const int gone_fd_;
    std::atomic<bool> gone_{false};
    host::EventFile events_;
    const std::unique_ptr<Calls> calls_;
    KernelMemory memory_;
    std::unique_ptr<engine::Trace> trace_;  // SWRNIC_TRACE
    std::unique_ptr<host::Statistics> statistics_;
    std::unordered_map<std::uint32_t, KernelQp> qps_;
    std::vector<std::uint32_t> ended_;
    std::unique_ptr<engine::Engine> engine_;  // last: its thread calls us until it is gone
};

}  // namespace swrnic::daemon
