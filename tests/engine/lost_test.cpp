// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Programs close descriptors that they know nothing of, and give their numbers to other files.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "side.h"

namespace swrnic::engine::test {

namespace {

struct LosingHost final : Host {
    void comp_posted(std::uint32_t) override {}
    void async_event(AsyncEvent, std::uint32_t) override {}
    void qp_ready(std::uint32_t) override {}
    void qp_closed(std::uint32_t, CloseReason) override { ++closed; }
    void terminated(std::uint32_t, std::string_view, bool) override {}
    bool control_readable() override { return false; }
    bool report() override { return false; }
    void descriptors_lost() override { lost = true; }
    std::atomic<int> closed{0};
    std::atomic<bool> lost{false};
};

// An engine with a stream to a plain socket.
class LostTest : public testing::Test {
  protected:
    LostTest() : control_(::eventfd(0, EFD_CLOEXEC)), ends_(connected_sockets()) {
        engine_ = Engine::create({}, host_, control_);
        cq_ = engine_->create_cq(256, 1);
        qp_ = engine_->create_qp(qp_init(1, cq_));
        engine_->modify_state(*qp_, QpState::kInit);
        Connection connection{};
        connection.fd = ends_[1];
        connection.initiator = true;
        engine_->connect(1, connection);
    }
    ~LostTest() override {
        engine_->destroy_qp(qp_);
        engine_->destroy_cq(cq_);
        engine_.reset();
        ::close(control_);
        ::close(ends_[0]);
    }
    bool is_flushed() {
        return engine_->post_recv(*qp_, RecvWr{}) == PostResult::kOk &&
               engine_->poll_cq(*cq_, 1,
                                [](const WorkCompletion& done) { EXPECT_EQ(done.status, WcStatus::kWrFlushErr); }) == 1;
    }

    LosingHost host_;
    const int control_;
    const std::array<int, 2> ends_;
    std::unique_ptr<Engine> engine_;
    Cq* cq_;
    Qp* qp_;
};

TEST_F(LostTest, StreamsEndWithTheDevice) {
    EXPECT_EQ(engine_->query(*qp_).state, QpState::kRts);
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(control_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    EXPECT_TRUE(soon([&] { return host_.closed == 1; }));
    char octet;
    EXPECT_TRUE(soon([&] { return ::recv(ends_[0], &octet, 1, MSG_DONTWAIT) <= 0 && errno == ECONNRESET; }))
        << "as when a process dies";
    EXPECT_TRUE(is_flushed());
}

// A program closes its descriptors one by one, and the thread may come by meanwhile.
TEST_F(LostTest, AStreamWhoseNumberIsAnothersEndsAndLeavesIt) {
    const int file = ::memfd_create("another's", MFD_CLOEXEC);
    const int stream = ::dup(ends_[1]);  // so that it lives, and news of it wake the thread
    ASSERT_EQ(::dup3(file, ends_[1], O_CLOEXEC), ends_[1]);
    ASSERT_EQ(::write(ends_[0], "x", 1), 1);
    EXPECT_TRUE(soon([&] { return host_.closed == 1; }));
    EXPECT_TRUE(is_flushed());
    EXPECT_FALSE(host_.lost);
    engine_->destroy_qp(qp_);
    EXPECT_GE(::fcntl(ends_[1], F_GETFD), 0) << "it is closed";
    ::close(ends_[1]);
    ::close(file);
    ::close(stream);
    qp_ = engine_->create_qp(qp_init(1, cq_));
}

TEST_F(LostTest, NothingIsDoneToNumbersThatAreOthersNow) {
    const int file = ::memfd_create("another's", MFD_CLOEXEC);
    std::vector<int> numbers{ends_[1]};
    for (const int fd : engine_->descriptors())
        numbers.push_back(fd);
    const int stream = ::dup(ends_[1]);  // so that it lives, and news of it wake the thread
    for (const int fd : numbers)
        ASSERT_EQ(::dup3(file, fd, O_CLOEXEC), fd);
    ASSERT_EQ(::write(ends_[0], "x", 1), 1);
    EXPECT_TRUE(soon([&] { return host_.lost.load(); }));
    EXPECT_TRUE(soon([&] { return host_.closed == 1; }));
    EXPECT_TRUE(is_flushed());
    engine_->destroy_qp(qp_);
    qp_ = engine_->create_qp(qp_init(2, cq_));
    ASSERT_NE(qp_, nullptr);
    engine_->destroy_qp(qp_);
    engine_->destroy_cq(cq_);
    engine_.reset();
    for (const int fd : numbers) {
        EXPECT_GE(::fcntl(fd, F_GETFD), 0) << "nor is it closed";
        ::close(fd);
    }
    EXPECT_EQ(::lseek(file, 0, SEEK_END), 0) << "nothing was written";
    ::close(file);
    ::close(stream);
    engine_ = Engine::create({}, host_, -1);
    cq_ = engine_->create_cq(256, 1);
    qp_ = engine_->create_qp(qp_init(1, cq_));
}

}  // namespace

}  // namespace swrnic::engine::test
