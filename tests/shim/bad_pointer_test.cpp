// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Pointers of the program that lead nowhere, in every command that has one: EFAULT, nothing done, nobody dead.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <functional>

#include "raw.h"

namespace swrnic::test {
namespace {

const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

// Two pages; the rights of each are the test's.
class Pages {
  public:
    Pages(int first, int second)
        : start_(static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        mprotect(start_, kPage, first);
        mprotect(start_ + kPage, kPage, second);
    }
    ~Pages() { munmap(start_, 2 * kPage); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    char* start() const { return start_; }
    char* before_the_end(std::size_t octets) const { return start_ + kPage - octets; }

  private:
    char* start_;
};

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

class BadPointer : public testing::Test {
  protected:
    struct Place {
        const char* name;
        void* address;
    };
    // Where no response can go.
    std::vector<Place> unwritable() const {
        return {{"null", nullptr},
                {"unmapped", unmapped_.start()},
                {"read-only", read_only_.start()},
                {"half across the end of a page", cut_.before_the_end(2)},
                {"half across into read-only", half_read_only_.before_the_end(2)},
                {"the kernel's", reinterpret_cast<void*>(0xffffffff80000000)},
                {"wraps around", reinterpret_cast<void*>(~std::uint64_t{2})}};
    }
    // A command, whole but for the address of its response.
    struct Case {
        const char* name;
        std::function<int(std::uint64_t response)> run;
    };
    void check(const Case& one) {
        for (const Place& place : unwritable())
            EXPECT_EQ(one.run(reinterpret_cast<std::uint64_t>(place.address)), EFAULT)
                << one.name << ", response " << place.name;
        alignas(8) char room[1024];
        EXPECT_EQ(one.run(reinterpret_cast<std::uint64_t>(room)), 0) << one.name << " is good with a good pointer";
        std::memcpy(&first_word_, room, sizeof(first_word_));
    }
    // The command where no octet, not all octets, or octets of a page without rights can be read.
    static void check_request(int fd, const Bytes& bytes, const char* name) {
        const Pages unmapped(PROT_NONE, PROT_NONE), cut(kReadWrite, PROT_NONE);
        EXPECT_EQ(write(fd, nullptr, bytes.size()), -1) << name;
        EXPECT_EQ(errno, EFAULT) << name << ": null";
        EXPECT_EQ(write(fd, unmapped.start(), bytes.size()), -1) << name;
        EXPECT_EQ(errno, EFAULT) << name << ": unmapped";
        for (const std::size_t there : {std::size_t{4}, std::size_t{8}, bytes.size() - 1}) {
            if (there >= bytes.size()) continue;
            std::memcpy(cut.before_the_end(there), bytes.data(), there);
            EXPECT_EQ(write(fd, cut.before_the_end(there), bytes.size()), -1) << name;
            EXPECT_EQ(errno, EFAULT) << name << ": " << there << " octets and the end of a page";
        }
    }

    Context context;
    Cm cm;
    std::uint32_t first_word_ = 0;  // of the last good response: most often the handle
    const Pages unmapped_{PROT_NONE, PROT_NONE}, read_only_{PROT_READ, PROT_READ}, cut_{kReadWrite, PROT_NONE},
        half_read_only_{kReadWrite, PROT_READ};
};

TEST_F(BadPointer, EveryVerbsCommandAsItIsWritten) {
    for (std::uint32_t number = 0; number <= IB_USER_VERBS_CMD_OPEN_QP; ++number) {
        Bytes plain;
        append(plain, ib_uverbs_cmd_hdr{number, 16, 2});
        plain.resize(64);
        check_request(context.cmd.get(), plain, "plain");
        Bytes extended;
        append(extended, ib_uverbs_cmd_hdr{number | IB_USER_VERBS_CMD_FLAG_EXTENDED, 5, 0});
        extended.resize(8 + 16 + 40);
        check_request(context.cmd.get(), extended, "extended");
    }
    const Pages constant(kReadWrite, PROT_NONE);
    ib_uverbs_alloc_pd_resp made{};
    Bytes good;
    append(good, ib_uverbs_cmd_hdr{IB_USER_VERBS_CMD_ALLOC_PD, 4, 1});
    append(good, reinterpret_cast<std::uint64_t>(&made));
    std::memcpy(constant.start(), good.data(), good.size());
    ASSERT_EQ(mprotect(constant.start(), kPage, PROT_READ), 0);
    EXPECT_EQ(write(context.cmd.get(), constant.start(), good.size()), 16) << "a command may lie in constant memory";
}

TEST_F(BadPointer, EveryConnectionManagersCommandAsItIsWritten) {
    ASSERT_EQ(fcntl(cm.fd.get(), F_SETFL, O_NONBLOCK), 0);  // GET_EVENT would wait
    for (std::uint32_t number = 0; number <= RDMA_USER_CM_CMD_JOIN_MCAST; ++number) {
        Bytes bytes;
        append(bytes, rdma_ucm_cmd_hdr{number, 300, 300});
        bytes.resize(8 + 300);
        check_request(cm.fd.get(), bytes, "rdma_cm");
    }
    Bytes larger;
    append(larger, rdma_ucm_cmd_hdr{RDMA_USER_CM_CMD_LISTEN, 8, 0});
    const Pages cut(kReadWrite, PROT_NONE);
    std::memcpy(cut.before_the_end(16), larger.data(), larger.size());
    EXPECT_EQ(write(cm.fd.get(), cut.before_the_end(16), 4096), -1);
    EXPECT_NE(errno, EFAULT) << "what lies behind the command is not looked at";
}

TEST_F(BadPointer, GetContext) {
    const Context other;  // only to form the command
    Context fresh;
    fresh.cmd = Fd(open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC));
    swrnic_alloc_ucontext_req asked{};
    asked.abi_version = SWRNIC_ABI_NEWEST;
    Bytes driver;
    append(driver, asked);
    const int lowest = dup(0);
    close(lowest);
    check({"GET_CONTEXT", [&](std::uint64_t response) {
               ib_uverbs_get_context core{};
               core.response = response;
               return fresh.command(IB_USER_VERBS_CMD_GET_CONTEXT, core, 24, driver);
           }});
    EXPECT_EQ(first_word_, static_cast<std::uint32_t>(lowest)) << "no refusal has left a descriptor open";
    close(lowest);
    close(lowest + 1);
}

// Core structures of plain commands begin with the address of the response.
template <typename Core>
auto plain(const Context& context, std::uint32_t number, const Core& core, std::size_t out, const Bytes& driver = {}) {
    Bytes rest;
    append(rest, core);
    rest.erase(rest.begin(), rest.begin() + sizeof(core.response));
    rest.insert(rest.end(), driver.begin(), driver.end());
    return [=, &context](std::uint64_t response) { return context.command(number, response, out, rest); };
}

template <typename Core>
auto extended(const Context& context, std::uint32_t number, const Core& core, std::size_t out,
              const Bytes& driver = {}) {
    return [=, &context](std::uint64_t response) {
        Bytes bytes;
        ib_uverbs_ex_cmd_hdr more{};
        more.response = response;
        more.provider_in_words = static_cast<std::uint16_t>(driver.size() / 8);
        append(bytes,
               ib_uverbs_cmd_hdr{number | IB_USER_VERBS_CMD_FLAG_EXTENDED, static_cast<std::uint16_t>(sizeof(core) / 8),
                                 static_cast<std::uint16_t>(out / 8)});
        append(bytes, more);
        append(bytes, core);
        bytes.insert(bytes.end(), driver.begin(), driver.end());
        // Without an address and with room the frame itself is wrong.
        const int error = send_bytes(context.cmd.get(), bytes);
        return response == 0 && error == EINVAL ? EFAULT : error;
    };
}

TEST_F(BadPointer, ResponsesOfDeviceDomainsAndRegions) {
    ib_uverbs_query_port port{};
    port.port_num = 1;
    check({"QUERY_DEVICE", plain(context, IB_USER_VERBS_CMD_QUERY_DEVICE, ib_uverbs_query_device{},
                                 sizeof(ib_uverbs_query_device_resp))});
    check({"QUERY_DEVICE_EX", extended(context, IB_USER_VERBS_EX_CMD_QUERY_DEVICE, ib_uverbs_ex_query_device{},
                                       sizeof(ib_uverbs_ex_query_device_resp))});
    check({"QUERY_PORT", plain(context, IB_USER_VERBS_CMD_QUERY_PORT, port, sizeof(ib_uverbs_query_port_resp))});
    check({"ALLOC_PD",
           plain(context, IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, sizeof(ib_uverbs_alloc_pd_resp))});
    const std::uint32_t pd = first_word_;
    ib_uverbs_reg_mr region{};
    region.start = region.hca_va = 0x10000;
    region.length = 4096;
    region.pd_handle = pd;
    Bytes driver;
    append(driver, swrnic_reg_mr_req{77, 0});
    check({"REG_MR", plain(context, IB_USER_VERBS_CMD_REG_MR, region, sizeof(ib_uverbs_reg_mr_resp), driver)});
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEREG_MR, ib_uverbs_dereg_mr{first_word_}, 0), 0);
    ib_uverbs_alloc_mw window{};
    window.pd_handle = pd;
    window.mw_type = 1;
    driver.clear();
    append(driver, swrnic_alloc_mw_req{78, 0});
    check({"ALLOC_MW", plain(context, IB_USER_VERBS_CMD_ALLOC_MW, window, sizeof(ib_uverbs_alloc_mw_resp), driver)});
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEALLOC_MW, ib_uverbs_dealloc_mw{first_word_}, 0), 0);
    ib_uverbs_create_ah peer{};
    peer.pd_handle = pd;
    peer.attr.is_global = peer.attr.port_num = 1;
    const std::uint8_t loopback[16]{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    std::memcpy(peer.attr.grh.dgid, loopback, sizeof(loopback));
    check({"CREATE_AH", plain(context, IB_USER_VERBS_CMD_CREATE_AH, peer, sizeof(ib_uverbs_create_ah_resp))});
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DESTROY_AH, ib_uverbs_destroy_ah{first_word_}, 0), 0);
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{pd}, 0), 0)
        << "no other region, window or address handle holds it";
}

TEST_F(BadPointer, ResponsesOfQueues) {
    std::uint32_t pd = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    check({"CREATE_COMP_CHANNEL", plain(context, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, ib_uverbs_create_comp_channel{},
                                        sizeof(ib_uverbs_create_comp_channel_resp))});
    const Fd channel(static_cast<int>(first_word_));
    ib_uverbs_create_cq wish{};
    wish.cqe = 16;
    wish.comp_channel = channel.get();
    check({"CREATE_CQ", plain(context, IB_USER_VERBS_CMD_CREATE_CQ, wish, sizeof(ib_uverbs_create_cq_resp))});
    const std::uint32_t cq = first_word_;
    ib_uverbs_ex_create_cq wish_ex{};
    wish_ex.cqe = 16;
    wish_ex.comp_channel = -1;
    check({"CREATE_CQ_EX",
           extended(context, IB_USER_VERBS_EX_CMD_CREATE_CQ, wish_ex, sizeof(ib_uverbs_ex_create_cq_resp))});
    ib_uverbs_create_srq srq_wish{};
    srq_wish.pd_handle = pd;
    srq_wish.max_wr = srq_wish.max_sge = 1;
    check({"CREATE_SRQ", plain(context, IB_USER_VERBS_CMD_CREATE_SRQ, srq_wish, sizeof(ib_uverbs_create_srq_resp))});
    const std::uint32_t srq = first_word_;
    ib_uverbs_query_srq srq_query{};
    srq_query.srq_handle = srq;
    check({"QUERY_SRQ", plain(context, IB_USER_VERBS_CMD_QUERY_SRQ, srq_query, sizeof(ib_uverbs_query_srq_resp))});

    Bytes driver;
    append(driver, default_startup());
    ib_uverbs_create_qp qp_wish{};
    qp_wish.pd_handle = pd;
    qp_wish.send_cq_handle = qp_wish.recv_cq_handle = cq;
    qp_wish.qp_type = 2;
    check(
        {"CREATE_QP", plain(context, IB_USER_VERBS_CMD_CREATE_QP, qp_wish, sizeof(ib_uverbs_create_qp_resp), driver)});
    const std::uint32_t qp = first_word_;
    ib_uverbs_ex_create_qp qp_wish_ex{};
    qp_wish_ex.pd_handle = pd;
    qp_wish_ex.send_cq_handle = qp_wish_ex.recv_cq_handle = cq;
    qp_wish_ex.qp_type = 2;
    check({"CREATE_QP_EX",
           extended(context, IB_USER_VERBS_EX_CMD_CREATE_QP, qp_wish_ex, sizeof(ib_uverbs_ex_create_qp_resp), driver)});
    const std::uint32_t qp_ex = first_word_;
    ib_uverbs_query_qp qp_query{};
    qp_query.qp_handle = qp;
    check({"QUERY_QP", plain(context, IB_USER_VERBS_CMD_QUERY_QP, qp_query, sizeof(ib_uverbs_query_qp_resp))});

    // Each end fails seven times before it succeeds: what it names is still there.
    ib_uverbs_destroy_qp end_qp{};
    end_qp.qp_handle = qp;
    check({"DESTROY_QP", plain(context, IB_USER_VERBS_CMD_DESTROY_QP, end_qp, sizeof(ib_uverbs_destroy_qp_resp))});
    EXPECT_EQ(context.destroy_qp(qp_ex), 0);
    ib_uverbs_destroy_srq end_srq{};
    end_srq.srq_handle = srq;
    check({"DESTROY_SRQ", plain(context, IB_USER_VERBS_CMD_DESTROY_SRQ, end_srq, sizeof(ib_uverbs_destroy_srq_resp))});
    ib_uverbs_destroy_cq end_cq{};
    end_cq.cq_handle = cq;
    check({"DESTROY_CQ", plain(context, IB_USER_VERBS_CMD_DESTROY_CQ, end_cq, sizeof(ib_uverbs_destroy_cq_resp))});
    EXPECT_EQ(context.command(IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{pd}, 0), 0)
        << "no other queue holds it";
}

TEST_F(BadPointer, ResponsesOfTheConnectionManager) {
    check({"CREATE_ID", [&](std::uint64_t response) {
               rdma_ucm_create_id create{};
               create.response = response;
               create.ps = RDMA_PS_TCP;
               return cm.command(RDMA_USER_CM_CMD_CREATE_ID, create, sizeof(rdma_ucm_create_id_resp));
           }});
    const std::uint32_t id = first_word_;
    const sockaddr_in to = loopback(1);
    ASSERT_EQ(cm.resolve(id, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    check({"GET_EVENT", [&](std::uint64_t response) {
               return cm.command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{response}, sizeof(rdma_ucm_event_resp));
           }});
    const auto about_id = [&](std::uint32_t number, std::uint32_t option, std::size_t out) {
        return [=, this](std::uint64_t response) {
            return cm.command(number, rdma_ucm_query{response, id, option}, out);
        };
    };
    check({"QUERY_ROUTE", about_id(RDMA_USER_CM_CMD_QUERY_ROUTE, 0, sizeof(rdma_ucm_query_route_resp))});
    check(
        {"QUERY address", about_id(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_ADDR, sizeof(rdma_ucm_query_addr_resp))});
    check({"QUERY path", about_id(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_PATH, sizeof(rdma_ucm_query_path_resp))});
    check({"QUERY gid", about_id(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_GID, sizeof(rdma_ucm_query_addr_resp))});
    check({"INIT_QP_ATTR", about_id(RDMA_USER_CM_CMD_INIT_QP_ATTR, 1, sizeof(ib_uverbs_qp_attr))});
    const std::uint32_t idle = cm.create_id(1);  // which may have any value
    check({"SET_OPTION", [&](std::uint64_t value) {
               rdma_ucm_set_option option{};
               option.optval = value;
               option.id = idle;
               option.level = RDMA_OPTION_ID;
               option.optname = RDMA_OPTION_ID_REUSEADDR;
               option.optlen = 4;
               // What is only read may be constant; 0 is no pointer but a wrong value.
               const int error = cm.command(RDMA_USER_CM_CMD_SET_OPTION, option);
               const bool constant = value == reinterpret_cast<std::uint64_t>(read_only_.start()) ||
                                     value == reinterpret_cast<std::uint64_t>(half_read_only_.before_the_end(2));
               return (value == 0 && error == EINVAL) || (constant && error == 0) ? EFAULT : error;
           }});
    const Cm other;
    check({"MIGRATE_ID", [&](std::uint64_t response) {
               const rdma_ucm_migrate_id move{response, id, static_cast<std::uint32_t>(cm.fd.get())};
               return other.command(RDMA_USER_CM_CMD_MIGRATE_ID, move, sizeof(rdma_ucm_migrate_resp));
           }});
    check({"DESTROY_ID", [&](std::uint64_t response) {
               return other.command(RDMA_USER_CM_CMD_DESTROY_ID, rdma_ucm_destroy_id{response, id, 0},
                                    sizeof(rdma_ucm_destroy_id_resp));
           }});
}

TEST_F(BadPointer, ReadsLeaveTheEventWhereItIs) {
    Fd channel;
    std::uint32_t pd = 0, cq = 0;
    Context::Qp qp;
    ASSERT_EQ(context.create_channel(channel), 0);
    ASSERT_EQ(context.create_cq(cq, channel.get(), 0xfeed), 0);
    ASSERT_EQ(context.alloc_pd(pd), 0);
    ASSERT_EQ(context.create_qp(pd, cq, qp, default_startup()), 0);
    ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    ASSERT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, qp.qpn, 1), 0);
    for (const int fd : {channel.get(), context.async.get(), context.events.get()}) {
        for (const Place& place : unwritable()) {
            EXPECT_EQ(read(fd, place.address, 64), -1) << place.name;
            EXPECT_EQ(errno, EFAULT) << place.name;
        }
    }
    char room[64];
    EXPECT_EQ(read(channel.get(), room, sizeof(room)), 8);
    EXPECT_EQ(read(context.async.get(), room, sizeof(room)), 16);
    check_request(context.events.get(), Bytes(16), "event file");
}

TEST_F(BadPointer, FileStatus) {
    int (*volatile status)(int, struct stat*) = fstat;  // whose declaration promises that nobody passes null
    for (const Place& place : unwritable()) {
        EXPECT_EQ(status(context.cmd.get(), static_cast<struct stat*>(place.address)), -1) << place.name;
        EXPECT_EQ(errno, EFAULT) << place.name;
    }
}

// The userspace shim looks at control data before the kernel does, whose socket it is.
TEST_F(BadPointer, MessagesOfForeignSockets) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const Fd one(ends[0]), other(ends[1]);
    char octet = 1, control[CMSG_SPACE(sizeof(int))] = {};
    iovec part{&octet, 1};
    for (void* const address : {unmapped_.start(), cut_.before_the_end(8), reinterpret_cast<char*>(16)}) {
        EXPECT_EQ(sendmsg(one.get(), static_cast<msghdr*>(address), 0), -1);
        EXPECT_EQ(errno, EFAULT);
        EXPECT_EQ(sendmmsg(one.get(), static_cast<mmsghdr*>(address), 1, 0), -1);
        EXPECT_EQ(errno, EFAULT);
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = address;
        message.msg_controllen = sizeof(control);
        EXPECT_EQ(sendmsg(one.get(), &message, 0), -1);
        EXPECT_EQ(errno, EFAULT);
        mmsghdr several[2]{};
        several[0].msg_hdr = message;
        EXPECT_EQ(sendmmsg(one.get(), several, 2, 0), -1);
        EXPECT_EQ(errno, EFAULT);
    }
    msghdr good{};
    good.msg_iov = &part;
    good.msg_iovlen = 1;
    EXPECT_EQ(sendmsg(one.get(), &good, 0), 1);
}

struct AllocPd {
    explicit AllocPd(ib_uverbs_alloc_pd_resp& made) : response(reinterpret_cast<std::uint64_t>(&made)) {}
    ib_uverbs_cmd_hdr header{IB_USER_VERBS_CMD_ALLOC_PD, sizeof(AllocPd) / 4, sizeof(ib_uverbs_alloc_pd_resp) / 4};
    std::uint64_t response;
};

struct {
    int fd;
    const void* from;
    ssize_t written;
    int error;
} asked_by_handler;

void ask(int) {
    asked_by_handler.written = write(asked_by_handler.fd, asked_by_handler.from, sizeof(AllocPd));
    asked_by_handler.error = errno;
}

// What lies between such a stack and the thread's own may be anything.
TEST_F(BadPointer, BehindASignalsOwnStackToo) {
    const std::size_t kSize = 64 * kPage;
    void* const stack = mmap(nullptr, kSize + kPage, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(stack, MAP_FAILED);
    char* const behind = static_cast<char*>(stack) + kSize;
    ASSERT_EQ(mprotect(behind, kPage, PROT_NONE), 0);
    stack_t usual{};
    const stack_t other{stack, 0, kSize};
    struct sigaction before {
    }, action{};
    action.sa_handler = ask;
    action.sa_flags = SA_ONSTACK;
    ASSERT_EQ(sigaltstack(&other, &usual), 0);
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    asked_by_handler = {context.cmd.get(), behind, 0, 0};
    raise(SIGUSR1);
    EXPECT_EQ(asked_by_handler.written, -1);
    EXPECT_EQ(asked_by_handler.error, EFAULT);
    EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
    EXPECT_EQ(sigaltstack(&usual, nullptr), 0);
    munmap(stack, kSize + kPage);
}

// From here on the kernel calls all memory bad, as the userspace shim asks.
bool answer_all_questions_with_efault() {
    const auto number = offsetof(seccomp_data, nr), order = offsetof(seccomp_data, args),
               operation = offsetof(seccomp_data, args) + sizeof(std::uint64_t);
    std::array<sock_filter, 9> code{
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 2),
         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, order), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 4, 3),
         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 2), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, operation),
         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 0),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EFAULT)}};
    const sock_fprog program{code.size(), code.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The price of a question is a system call, and most commands have two.
TEST(GoodPointer, InTheCallersFramesIsNotAskedFor) {
    const pid_t child = fork();
    if (child == 0) {
        const Context context;
        ib_uverbs_alloc_pd_resp made{};
        const AllocPd command(made);
        const auto elsewhere = std::make_unique<AllocPd>(command);
        if (!answer_all_questions_with_efault()) _exit(1);
        if (write(context.cmd.get(), elsewhere.get(), sizeof(*elsewhere)) != -1 || errno != EFAULT) _exit(2);
        _exit(write(context.cmd.get(), &command, sizeof(command)) == sizeof(command) ? 0 : 3);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "1: no seccomp; 2: no question for the heap; 3: one for the stack";
}

}  // namespace
}  // namespace swrnic::test
