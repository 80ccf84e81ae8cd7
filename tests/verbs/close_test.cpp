// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// ibv_close_device() while the engine's thread is in the middle of an order of the device's.
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "device.h"

namespace swrnic::test {
namespace {

// Whoever logs stands still until somebody reads: the engine's thread does so while it obeys QP_CONNECTED.
class FullStderr {
  public:
    FullStderr() {
        EXPECT_EQ(::pipe2(pipe_.data(), O_CLOEXEC | O_NONBLOCK), 0);
        std::array<char, 4096> nothing{};
        while (::write(pipe_[1], nothing.data(), nothing.size()) > 0) {
        }
        ::fcntl(pipe_[1], F_SETFL, 0);
        ::dup2(pipe_[1], STDERR_FILENO);
    }
    ~FullStderr() {
        ::dup2(before_, STDERR_FILENO);
        for (const int fd : {before_, pipe_[0], pipe_[1]})
            ::close(fd);
    }
    FullStderr(const FullStderr&) = delete;
    FullStderr& operator=(const FullStderr&) = delete;
    void read_on() {
        std::array<char, 4096> ignored;
        while (::read(pipe_[0], ignored.data(), ignored.size()) > 0) {
        }
    }

  private:
    const int before_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    std::array<int, 2> pipe_{};
};

// Threads of that name that are in the system call, whose first argument begins so.
int threads_in(const std::string& name, long call, const std::string& argument) {
    int found = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string comm, number, first;
        std::ifstream(task.path() / "comm") >> comm;
        std::ifstream(task.path() / "syscall") >> number >> first;
        found += comm == name && number == std::to_string(call) && first.starts_with(argument) ? 1 : 0;
    }
    return found;
}

template <typename Condition>
bool comes_true(const Condition& condition) {
    for (int tries = 0; tries < 5000; ++tries) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

void expect(rdma_event_channel* channel, rdma_cm_event_type type, rdma_cm_id** id = nullptr) {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    EXPECT_EQ(event->event, type);
    if (id != nullptr) *id = event->id;
    rdma_ack_cm_event(event);
}

// A QP of a context that librdmacm knows nothing of, connected by its number.
class CloseDevice : public DeviceTest {
  protected:
    void SetUp() override {
        ASSERT_TRUE(open_device());  // the userspace shim reads its settings once, the provider each time
        ::setenv("SWRNIC_LOG", "info", 1);
        DeviceTest::SetUp();
        channel_ = rdma_create_event_channel();
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* address = reinterpret_cast<sockaddr*>(&here);
        ASSERT_EQ(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), 0);
        ASSERT_EQ(rdma_bind_addr(listener_, address), 0);
        ASSERT_EQ(rdma_listen(listener_, 1), 0);
        here.sin_port = rdma_get_src_port(listener_);
        ASSERT_EQ(rdma_create_id(channel_, &client_, nullptr, RDMA_PS_TCP), 0);
        ASSERT_EQ(rdma_resolve_addr(client_, nullptr, address, 1000), 0);
        expect(channel_, RDMA_CM_EVENT_ADDR_RESOLVED);
        ASSERT_EQ(rdma_resolve_route(client_, 1000), 0);
        expect(channel_, RDMA_CM_EVENT_ROUTE_RESOLVED);
    }
    // What is left is left to the end of the process.
    void TearDown() override {}

    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* listener_ = nullptr;
    rdma_cm_id* client_ = nullptr;
};

TEST_F(CloseDevice, while_its_thread_obeys) {
    ibv_cq* cq = ibv_create_cq(context_.get(), 4, nullptr, nullptr, 0);
    ibv_qp_init_attr wish = qp_attr(cq);
    ibv_qp* qp = ibv_create_qp(pd_.get(), &wish);
    ASSERT_NE(qp, nullptr);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), 0);
    rdma_conn_param parameters{};
    parameters.qp_num = qp->qp_num;
    ASSERT_EQ(rdma_connect(client_, &parameters), 0);
    rdma_cm_id* server = nullptr;
    expect(channel_, RDMA_CM_EVENT_CONNECT_REQUEST, &server);
    wish.send_cq = wish.recv_cq = nullptr;  // librdmacm makes them
    ASSERT_EQ(rdma_create_qp(server, nullptr, &wish), 0);

    bool blocked = false, closing = false;
    std::atomic<bool> closed{false};
    {
        FullStderr full;
        rdma_conn_param accepted{};
        EXPECT_EQ(rdma_accept(server, &accepted), 0);
        blocked = comes_true([] { return threads_in("swrnic", SYS_write, "0x2") == 2; });  // the server's is the other
        pd_.release();
        std::thread closer([&, context = context_.release()] {
            pthread_setname_np(pthread_self(), "closer");
            ibv_close_device(context);
            closed = true;
        });
        closing = comes_true([] { return threads_in("closer", SYS_futex, "0x") == 1; });
        while (!closed)
            full.read_on();
        closer.join();
    }
    EXPECT_TRUE(blocked);
    EXPECT_TRUE(closing);
}

}  // namespace
}  // namespace swrnic::test
