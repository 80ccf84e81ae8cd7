// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Descriptors of the userspace shim behave as descriptors do: dup, close, fcntl, close_range.
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deallocations.h"
#include "raw.h"

namespace swrnic::test {
namespace {

TEST(Descriptors, VerbsIoctlIsNotThere) {
    const Context context;
    ASSERT_TRUE(context.ok());
    char header[24] = {};
    EXPECT_EQ(ioctl(context.cmd.get(), _IOWR(0x1b, 1, header), header), -1);  // RDMA_VERBS_IOCTL
    EXPECT_EQ(errno, ENOTTY);
}

TEST(Descriptors, DuplicatesShareTheContextUntilTheLastIsClosed) {
    Context context;
    ASSERT_TRUE(context.ok());
    std::uint32_t pd = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    const Fd copies[] = {Fd(dup(context.cmd.get())), Fd(fcntl(context.cmd.get(), F_DUPFD_CLOEXEC, 100)),
                         Fd(dup3(context.cmd.get(), 200, O_CLOEXEC)), Fd(dup2(context.cmd.get(), 201))};
    context.cmd.reset();
    for (const Fd& copy : copies) {
        ASSERT_GE(copy.get(), 0);
        ib_uverbs_dealloc_pd unknown{};
        Context user;  // only to form the command
        user.cmd = Fd(dup(copy.get()));
        unknown.pd_handle = pd + 1000;
        EXPECT_EQ(user.command(IB_USER_VERBS_CMD_DEALLOC_PD, unknown, 0), EINVAL);
        std::uint32_t another = 0;
        EXPECT_EQ(user.alloc_pd(another), 0);
    }
}

TEST(Descriptors, ClosingTheContextEndsItsEventFiles) {
    Context context;
    ASSERT_TRUE(context.ok());
    context.cmd.reset();
    swrnic_down order;
    EXPECT_EQ(read(context.events.get(), &order, sizeof(order)), -1);
    EXPECT_EQ(errno, EIO);
    char async_event[16];
    EXPECT_EQ(read(context.async.get(), async_event, sizeof(async_event)), -1);
    EXPECT_EQ(errno, EIO);
}

TEST(Descriptors, NumberIsForeignAfterClose) {
    Context context;
    ASSERT_TRUE(context.ok());
    const int number = fcntl(context.cmd.get(), F_DUPFD_CLOEXEC, 250);
    close(number);
    context.cmd.reset();
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Fd in(ends[0]), out(ends[1]);
    ASSERT_EQ(dup2(out.get(), number), number);
    const Fd reused(number);
    EXPECT_EQ(write(reused.get(), "x", 1), 1);
    char got = 0;
    EXPECT_EQ(read(in.get(), &got, 1), 1);
    EXPECT_EQ(got, 'x');
}

TEST(Descriptors, Dup2OntoOursReplacesIt) {
    Context context;
    ASSERT_TRUE(context.ok());
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Fd in(ends[0]), out(ends[1]);
    ASSERT_EQ(dup2(out.get(), context.cmd.get()), context.cmd.get());
    EXPECT_EQ(write(context.cmd.get(), "x", 1), 1);
    swrnic_down order;
    EXPECT_EQ(read(context.events.get(), &order, sizeof(order)), -1);
    EXPECT_EQ(errno, EIO) << "the context ended with its last descriptor";
}

TEST(Descriptors, FailedDup2LeavesTheTarget) {
    Context context;
    ASSERT_TRUE(context.ok());
    EXPECT_EQ(dup2(100000, context.cmd.get()), -1);
    EXPECT_EQ(errno, EBADF);
    std::uint32_t pd = 0;
    EXPECT_EQ(context.alloc_pd(pd), 0);
}

TEST(Descriptors, CloseRange) {
    Context context;
    ASSERT_TRUE(context.ok());
    const int high = fcntl(context.cmd.get(), F_DUPFD_CLOEXEC, 300);
    ASSERT_GE(high, 300);
    context.cmd.reset();
    ASSERT_EQ(close_range(static_cast<unsigned>(high), static_cast<unsigned>(high), 0), 0);
    EXPECT_EQ(fcntl(high, F_GETFD), -1);
    swrnic_down order;
    EXPECT_EQ(read(context.events.get(), &order, sizeof(order)), -1);
    EXPECT_EQ(errno, EIO);
}

TEST(Descriptors, CloseRangeMayMarkOnly) {
    Context context;
    ASSERT_TRUE(context.ok());
    const unsigned number = static_cast<unsigned>(dup(context.cmd.get()));
    ASSERT_EQ(fcntl(static_cast<int>(number), F_GETFD), 0);
    ASSERT_EQ(close_range(number, number, CLOSE_RANGE_CLOEXEC), 0);
    EXPECT_EQ(fcntl(static_cast<int>(number), F_GETFD), FD_CLOEXEC);
    context.cmd = Fd(static_cast<int>(number));
    std::uint32_t pd = 0;
    EXPECT_EQ(context.alloc_pd(pd), 0) << "it is as open as before";
}

TEST(Descriptors, CopiesFromANumberOn) {
    const Context context;
    ASSERT_TRUE(context.ok());
    Context copy;
    copy.cmd = Fd(fcntl(context.cmd.get(), F_DUPFD, 400));
    ASSERT_GE(copy.cmd.get(), 400);
    EXPECT_EQ(fcntl(copy.cmd.get(), F_GETFD), 0);
    std::uint32_t pd = 0;
    EXPECT_EQ(copy.alloc_pd(pd), 0);
    EXPECT_EQ(fcntl(context.cmd.get(), F_DUPFD, -1), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(dup3(context.cmd.get(), context.cmd.get(), 0), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(dup2(context.cmd.get(), context.cmd.get()), context.cmd.get());
}

// One message with these descriptors and an octet; errno, or 0.
int pass(int socket, const std::vector<int>& fds, bool many) {
    char octet = 'x';
    iovec text{&octet, 1};
    std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
    mmsghdr message{};
    message.msg_hdr.msg_iov = &text;
    message.msg_hdr.msg_iovlen = 1;
    message.msg_hdr.msg_control = control.data();
    message.msg_hdr.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message.msg_hdr);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
    const ssize_t sent = many ? sendmmsg(socket, &message, 1, 0) : sendmsg(socket, &message.msg_hdr, 0);
    return sent == 1 ? 0 : errno;
}

TEST(Descriptors, CannotBePassedToAnotherProcess) {
    const Context context;
    const Cm cm;
    ASSERT_TRUE(context.ok());
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const Fd near(ends[0]), far(ends[1]);
    for (const bool many : {false, true}) {
        for (const int ours : {context.cmd.get(), context.async.get(), context.events.get(), cm.fd.get()}) {
            EXPECT_EQ(pass(near.get(), {ours}, many), EOPNOTSUPP);
            EXPECT_EQ(pass(near.get(), {0, near.get(), ours}, many), EOPNOTSUPP);
        }
        EXPECT_EQ(pass(near.get(), {near.get(), far.get()}, many), 0) << "others can";
    }
    char octets[8];
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(recv(far.get(), octets, sizeof(octets), MSG_DONTWAIT), 1);
    EXPECT_EQ(recv(far.get(), octets, sizeof(octets), MSG_DONTWAIT), -1) << "nothing of what was refused has been sent";
    EXPECT_EQ(sendmsg(near.get(), nullptr, 0), -1);
    EXPECT_EQ(errno, EFAULT);
}

TEST(Descriptors, NonBlockingByFcntl) {
    const Cm cm;
    ASSERT_EQ(fcntl(cm.fd.get(), F_SETFL, O_NONBLOCK), 0);
    rdma_ucm_event_resp event{};
    EXPECT_EQ(cm.get_event(event), EAGAIN);
}

TEST(Descriptors, EpollSeesEvents) {
    const Cm cm;
    const Fd epoll(epoll_create1(EPOLL_CLOEXEC));
    epoll_event watch{};
    watch.events = EPOLLIN;
    ASSERT_EQ(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, cm.fd.get(), &watch), 0);
    EXPECT_EQ(epoll_wait(epoll.get(), &watch, 1, 0), 0);
    const sockaddr_in to = loopback(1);
    const std::uint32_t id = cm.create_id(1);
    ASSERT_EQ(cm.resolve(id, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(epoll_wait(epoll.get(), &watch, 1, 1000), 1);
    ASSERT_TRUE(cm.event());
    EXPECT_EQ(epoll_wait(epoll.get(), &watch, 1, 0), 0);
}

bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

// What a provider has told of, and programs that close everything do not mean.
class KeptDescriptors : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(context.ok()); }
    int keep(int fd, std::uint32_t aux = 1) const {
        return context.report(SWRNIC_UP_KEEP, static_cast<std::uint32_t>(fd), aux);
    }
    // A new one with this number or a higher.
    static Fd event_at(int from) {
        const Fd low(eventfd(0, EFD_CLOEXEC));
        return Fd(fcntl(low.get(), F_DUPFD_CLOEXEC, from));
    }
    Context context;
};

TEST_F(KeptDescriptors, AreNotClosed) {
    Fd ours = event_at(900);
    const Fd before = event_at(890), behind = event_at(ours.get() + 1);
    ASSERT_EQ(keep(ours.get()), 0);
    EXPECT_EQ(close(ours.get()), -1);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(dup2(before.get(), ours.get()), -1);
    EXPECT_EQ(errno, EBUSY);
    EXPECT_EQ(dup3(before.get(), ours.get(), O_CLOEXEC), -1);
    EXPECT_EQ(errno, EBUSY);
    ASSERT_EQ(close_range(890, 1000, 0), 0);
    EXPECT_TRUE(is_open(ours.get()));
    EXPECT_FALSE(is_open(before.get()));
    EXPECT_FALSE(is_open(behind.get()));
    EXPECT_GE(event_at(ours.get() + 1).release(), 0);
    closefrom(890);
    EXPECT_TRUE(is_open(ours.get()));
    EXPECT_FALSE(is_open(ours.get() + 1));
    ASSERT_EQ(keep(ours.get(), 0), 0);
    ASSERT_EQ(close_range(890, 1000, 0), 0);
    EXPECT_FALSE(is_open(ours.release()));
}

TEST_F(KeptDescriptors, EndWithTheEventFile) {
    Fd ours = event_at(900);
    ASSERT_EQ(keep(ours.get()), 0);
    ASSERT_EQ(keep(context.events.get()), 0);
    EXPECT_EQ(close(context.events.get()), -1) << "it keeps itself";
    context.cmd.reset();
    EXPECT_EQ(close(ours.get()), -1) << "its provider has yet to hear of it";
    EXPECT_EQ(keep(context.events.get(), 0), 0) << "after the device has gone";
    context.events.reset();
    EXPECT_EQ(close(ours.release()), 0);
}

TEST_F(KeptDescriptors, AreTheProvidersOwn) {
    const Context other;
    const Fd ours = event_at(900);
    EXPECT_EQ(keep(ours.get(), 0), EINVAL) << "never was";
    EXPECT_EQ(keep(ours.get(), 2), EINVAL);
    EXPECT_EQ(keep(other.cmd.get()), EINVAL) << "a file of the program's";
    EXPECT_EQ(keep(-1), EINVAL);
    std::vector<Fd> many;
    int error = 0;
    for (int i = 0; i < 100 && error == 0; ++i) {
        many.push_back(event_at(900));
        error = keep(many.back().get());
    }
    EXPECT_EQ(error, EINVAL) << "there is an end";
    context.events.reset();
}

// A socket is closed by its owner without a word, and the number is anybody's.
TEST_F(KeptDescriptors, AreKnownAgainByWhatTheyAre) {
    const Fd socket_of_before(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Fd number(fcntl(socket_of_before.get(), F_DUPFD_CLOEXEC, 900));
    ASSERT_EQ(keep(number.get()), 0);
    ASSERT_EQ(syscall(SYS_close, number.get()), 0);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Fd in(ends[0]), out(ends[1]);
    ASSERT_EQ(syscall(SYS_dup3, out.get(), number.get(), 0), number.get());
    // A signal handler may close, and a sanitizer does while it writes a report and its allocator rests.
    const unsigned before = deallocations;
    EXPECT_EQ(close(number.release()), 0);
    EXPECT_EQ(deallocations, before);
}

TEST_F(KeptDescriptors, AreClosedInAChildThatSharesOurMemory) {
    const Fd ours = event_at(900);
    ASSERT_EQ(keep(ours.get()), 0);
    const pid_t child = vfork();
    if (child == 0) _exit(close(ours.get()) == 0 ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(is_open(ours.get()));
    ASSERT_EQ(keep(ours.get(), 0), 0);
}

// The thread that accepts and connects works on, whatever the program closes.
TEST(Descriptors, ANewChannelWorksAfterEverythingWasClosed) {
    Cm cm;
    const std::uint16_t port = cm.listen_on_loopback(cm.create_id(1));
    ASSERT_EQ(close_range(3, ~0u, 0), 0);
    cm.fd.release();
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = loopback(port);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), -1) << "its listener has gone";
    const Cm next;
    const std::uint32_t listener = next.create_id(2);
    const std::uint16_t new_port = next.listen_on_loopback(listener);
    const Fd peer = raw_client(new_port);
    const std::string request = mpa_request(0x40, 1, 0, "");
    ASSERT_EQ(send(peer.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    const auto event = next.event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, kConnectRequest);
}

TEST(Descriptors, VforkBeforeTheDeviceIsFirstOpened) {
    const pid_t child = vfork();
    if (child == 0) {
        close_range(900, 910, 0);
        _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    Fd directory(open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const int number = directory.get();
    directory.reset();
    const Fd file(open("/sys/class/infiniband/swr0/node_type", O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(file.get(), number) << "the lowest free number, as ever";
    char buffer[16];
    EXPECT_EQ(read(file.get(), buffer, sizeof(buffer)), 8) << "the directory of before is forgotten";
}

TEST(Descriptors, VforkedChildMayCloseEverything) {
    Context context;
    ASSERT_TRUE(context.ok());
    const pid_t child = vfork();
    if (child == 0) {
        close(context.cmd.get());
        _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    std::uint32_t pd = 0;
    EXPECT_EQ(context.alloc_pd(pd), 0) << "the parent's table did not change";
}

}  // namespace
}  // namespace swrnic::test
