// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz/process.h"

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <time.h>

#include <climits>
#include <cstddef>
#include <cstring>

#include "event_file.h"
#include "startup.h"
#include "state.h"
#include "swrnic-abi.h"
#include "ucma.h"
#include "vfs.h"

namespace swrnic::fuzz {
namespace {

using shim::FdTable;
using shim::Locked;
namespace sys = shim::sys;

constexpr std::size_t kMargin = 64;
constexpr std::uint8_t kUntouched = 0xa5;
constexpr std::size_t kLargestRoom = 2048;

template <typename T>
void append(Process::Bytes& bytes, const T& value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof(value));
    std::memcpy(bytes.data() + at, &value, sizeof(value));
}
template <typename T>
void put(Process::Bytes& bytes, std::size_t at, const T& value) {
    if (at + sizeof(value) <= bytes.size()) std::memcpy(bytes.data() + at, &value, sizeof(value));
}
template <typename T>
T get(const Process::Bytes& bytes, std::size_t at) {
    T value{};
    if (at + sizeof(value) <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
}

std::shared_ptr<shim::File> find(int fd) {
    Locked locked;
    return locked->fds.find(locked, fd);
}
std::vector<int> all_files() {
    Locked locked;
    return locked->fds.within(locked, 0, UINT_MAX);
}

// The lowest number that is free: descriptors that leak push it up.
int lowest_free() {
    const int fd = static_cast<int>(sys::call(SYS_dup, 2));
    sys::close(fd);
    return fd;
}

void sleep_for(long milliseconds) {
    const timespec time{0, milliseconds * 1'000'000};
    sys::call(SYS_nanosleep, &time, nullptr);
}

void make_connection_thread() {
    Locked locked;
    require(shim::Startup::get(locked) != nullptr, "the connection thread starts");
}

}  // namespace

Process::Process(Input& input) : input_(input), room_(kLargestRoom + kMargin, kUntouched) {
    make_connection_thread();
    lowest_free_ = lowest_free();
}

Process::~Process() {
    for (const int fd : all_files())
        close(fd);
    for (const int fd : streams_)
        sys::close(fd);
    Locked locked;
    require(locked->qps.empty() && locked->cm_ids.empty(), "no object outlives its file");
    locked->next_cm_id = 0;  // the same numbers for the next input
    // What was refused may still be on its way out.
    for (int i = 0; i < 2000 && lowest_free() > lowest_free_; ++i)
        sleep_for(1);
    require(lowest_free() <= lowest_free_, "no descriptor stays");
}

long Process::write(int fd, const Bytes& bytes) {
    const auto file = find(fd);
    if (file == nullptr) return -EBADF;
    // In memory of its own size, so that the sanitizer sees a read beyond.
    const Bytes exact(bytes);
    const long result = file->write(fd, exact.data(), exact.size());
    require(result >= -4095 && result <= static_cast<long>(bytes.size()), "an errno or a length");
    check_room();
    return result;
}

long Process::read(int fd, std::span<std::uint8_t> into) {
    const auto file = find(fd);
    if (file == nullptr) return -EBADF;
    sys::fcntl(fd, F_SETFL, O_NONBLOCK);
    const long result = file->read(fd, into.data(), into.size());
    require(result <= static_cast<long>(into.size()), "no more than was asked for");
    return result;
}

void Process::check_room() const {
    for (std::size_t i = room_used_; i < room_.size(); ++i)
        require(room_[i] == kUntouched, "an answer keeps to its room");
}

void Process::close(int fd) {
    {
        Locked locked;
        locked->fds.remove(locked, fd);
    }
    sys::close(fd);
}

void Process::copy(int fd) {
    Locked locked;
    if (const auto file = locked->fds.find(locked, fd))
        locked->fds.install(locked, static_cast<int>(sys::call(SYS_dup, fd)), file);
}

int Process::pick(const std::vector<int>& from) {
    if (from.empty()) return -1;
    return from[input_.u8() % from.size()];
}

int Process::pick() {
    return pick(all_files());
}

template <typename Core>
std::uint32_t Process::make(int fd, std::uint32_t number, Core core, std::size_t out, const Bytes& driver) {
    std::uint32_t answer[64]{};
    core.response = reinterpret_cast<std::uint64_t>(answer);
    Bytes bytes;
    append(bytes, ib_uverbs_cmd_hdr{number, static_cast<std::uint16_t>((8 + sizeof(core) + driver.size()) / 4),
                                    static_cast<std::uint16_t>(out / 4)});
    append(bytes, core);
    bytes.insert(bytes.end(), driver.begin(), driver.end());
    require(write(fd, bytes) == static_cast<long>(bytes.size()), "a good command succeeds");
    if (number == IB_USER_VERBS_CMD_GET_CONTEXT) event_files_.push_back(static_cast<int>(answer[3]));
    if (number == IB_USER_VERBS_CMD_CREATE_QP) qpns_.push_back(answer[1]);
    return answer[0];
}

int Process::open_context() {
    const int fd = shim::vfs_open(shim::locate(AT_FDCWD, "/dev/infiniband/uverbs0"), O_RDWR);
    require(fd >= 0, "the device opens");
    contexts_.push_back(fd);
    Bytes driver;
    append(driver, swrnic_alloc_ucontext_req{SWRNIC_ABI_NEWEST, {}});
    make(fd, IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{}, 24, driver);
    ib_uverbs_create_cq cq{};
    cq.cqe = 16;
    cq.comp_channel = static_cast<int>(make(fd, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, ib_uverbs_create_comp_channel{},
                                            sizeof(ib_uverbs_create_comp_channel_resp)));
    ib_uverbs_create_srq srq{};
    srq.pd_handle = make(fd, IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, sizeof(ib_uverbs_alloc_pd_resp));
    srq.max_wr = srq.max_sge = 1;
    ib_uverbs_create_qp qp{};
    qp.pd_handle = srq.pd_handle;
    qp.send_cq_handle = qp.recv_cq_handle = make(fd, IB_USER_VERBS_CMD_CREATE_CQ, cq, sizeof(ib_uverbs_create_cq_resp));
    qp.srq_handle = make(fd, IB_USER_VERBS_CMD_CREATE_SRQ, srq, sizeof(ib_uverbs_create_srq_resp));
    qp.is_srq = 1;
    qp.qp_type = 2;
    driver.clear();
    swrnic_create_qp_req startup{};
    startup.mpa_rev = 2;
    startup.timeout_ms = 200;
    append(driver, startup);
    ib_uverbs_modify_qp init{};
    init.qp_handle = make(fd, IB_USER_VERBS_CMD_CREATE_QP, qp, sizeof(ib_uverbs_create_qp_resp), driver);
    init.attr_mask = 1;
    init.qp_state = 1;
    Bytes bytes;
    append(bytes, ib_uverbs_cmd_hdr{IB_USER_VERBS_CMD_MODIFY_QP, (8 + sizeof(init)) / 4, 0});
    append(bytes, init);
    require(write(fd, bytes) > 0, "a QP goes to INIT");
    return fd;
}

int Process::open_manager() {
    const int fd = shim::vfs_open(shim::locate(AT_FDCWD, "/dev/infiniband/rdma_cm"), O_RDWR | O_NONBLOCK);
    require(fd >= 0, "the connection manager opens");
    managers_.push_back(fd);
    return fd;
}

// Where the address of an answer may stand, none of the fuzzer's own memory may come about: it would be written to.
void Process::raw_write(int fd) {
    const auto octets = input_.bytes(input_.u8());
    Bytes bytes(octets.begin(), octets.end());
    for (const std::size_t at : {8u, 16u})
        if (get<std::uint64_t>(bytes, at) < 1ull << 47) put(bytes, at, get<std::uint64_t>(bytes, at) & 0xffff);
    write(fd, bytes);
}

void Process::verbs_command(int fd) {
    const std::uint8_t number = input_.u8(), words = input_.u8(), driver = input_.u8() % 8;
    const bool extended = (number & 0x80) != 0;
    room_used_ = std::size_t{input_.u8()} * (extended ? 8 : 4);
    const std::size_t size = std::size_t{words % 48u} * (extended ? 8 : 4);
    const auto body = input_.bytes(size);
    Bytes core(body.begin(), body.end());
    core.resize(size);
    const auto response = reinterpret_cast<std::uint64_t>(room_.data());
    Bytes bytes;
    if (extended) {
        append(bytes,
               ib_uverbs_cmd_hdr{IB_USER_VERBS_CMD_FLAG_EXTENDED | (number & 0x7fu),
                                 static_cast<std::uint16_t>(size / 8), static_cast<std::uint16_t>(room_used_ / 8)});
        append(bytes, ib_uverbs_ex_cmd_hdr{response, driver, 0, 0});
    } else {
        append(bytes, ib_uverbs_cmd_hdr{number, static_cast<std::uint16_t>(size / 4 + 2),
                                        static_cast<std::uint16_t>(room_used_ / 4)});
        put(core, 0, response);
        // The few commands without an answer have something else there.
        if (number == IB_USER_VERBS_CMD_DEALLOC_PD || number == IB_USER_VERBS_CMD_DEREG_MR ||
            number == IB_USER_VERBS_CMD_MODIFY_QP || number == IB_USER_VERBS_CMD_MODIFY_SRQ ||
            number == IB_USER_VERBS_CMD_REQ_NOTIFY_CQ)
            std::copy(body.begin(), body.end(), core.begin());
    }
    bytes.insert(bytes.end(), core.begin(), core.end());
    if (extended) {
        const auto more = input_.bytes(std::size_t{driver} * 8);
        bytes.insert(bytes.end(), more.begin(), more.end());
        bytes.resize(24 + size + std::size_t{driver} * 8);
    }
    write(fd, bytes);
    std::fill_n(room_.begin(), room_used_, kUntouched);
    room_used_ = 0;
}

std::uint16_t Process::listening_port() const {
    Locked locked;
    for (const auto& [handle, id] : locked->cm_ids) {
        if (id->state == shim::CmState::kListening) return id->local.port();
    }
    return 0;
}

namespace {

// No packet of the fuzzer's leaves this host.
void bring_home(Process::Bytes& body, std::size_t at, std::uint16_t port) {
    const std::uint16_t family = get<std::uint16_t>(body, at);
    if (family != AF_INET && family != AF_INET6) return;
    if (get<std::uint8_t>(body, at + 3) < 128) put(body, at + 2, htons(port));
    if (family == AF_INET) put(body, at + 4, std::uint8_t{127});
    if (family == AF_INET6) put(body, at + 8, in6addr_loopback);
}

}  // namespace

void Process::manager_command(int fd) {
    const std::uint8_t number = input_.u8();
    const std::size_t size = input_.u16() % 400;
    room_used_ = std::size_t{input_.u8()} * 4;
    const auto octets = input_.bytes(size);
    Bytes body(octets.begin(), octets.end());
    body.resize(size);
    const auto response = reinterpret_cast<std::uint64_t>(room_.data());
    const auto name_qp = [&](std::size_t at) {
        const auto wish = get<std::uint32_t>(body, at);
        if (wish < 16 && !qpns_.empty()) put(body, at, qpns_[wish % qpns_.size()]);
    };
    switch (number) {
        case RDMA_USER_CM_CMD_CREATE_ID:
            put(body, offsetof(rdma_ucm_create_id, response), response);
            break;
        case RDMA_USER_CM_CMD_SET_OPTION:
            put(body, offsetof(rdma_ucm_set_option, optval), response);
            break;
        case RDMA_USER_CM_CMD_RESOLVE_IP:
            bring_home(body, offsetof(rdma_ucm_resolve_ip, dst_addr), listening_port());
            break;
        case RDMA_USER_CM_CMD_RESOLVE_ADDR:
            bring_home(body, offsetof(rdma_ucm_resolve_addr, dst_addr), listening_port());
            break;
        case RDMA_USER_CM_CMD_CONNECT:
            name_qp(offsetof(rdma_ucm_connect, conn_param) + offsetof(rdma_ucm_conn_param, qp_num));
            break;
        case RDMA_USER_CM_CMD_ACCEPT:
            name_qp(offsetof(rdma_ucm_accept, conn_param) + offsetof(rdma_ucm_conn_param, qp_num));
            break;
        case RDMA_USER_CM_CMD_MIGRATE_ID:
            put(body, offsetof(rdma_ucm_migrate_id, response), response);
            put(body, offsetof(rdma_ucm_migrate_id, fd), pick_manager());
            break;
        case RDMA_USER_CM_CMD_DESTROY_ID:
        case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
        case RDMA_USER_CM_CMD_JOIN_MCAST:
        case RDMA_USER_CM_CMD_LEAVE_MCAST:
        case RDMA_USER_CM_CMD_QUERY_ROUTE:
        case RDMA_USER_CM_CMD_QUERY:
        case RDMA_USER_CM_CMD_INIT_QP_ATTR:
        case RDMA_USER_CM_CMD_GET_EVENT:
            put(body, 0, response);
            break;
        default:
            break;
    }
    Bytes bytes;
    append(bytes, rdma_ucm_cmd_hdr{number, static_cast<std::uint16_t>(size), static_cast<std::uint16_t>(room_used_)});
    bytes.insert(bytes.end(), body.begin(), body.end());
    write(fd, bytes);
    std::fill_n(room_.begin(), room_used_, kUntouched);
    room_used_ = 0;
}

void Process::report() {
    const int fd = pick(event_files_);
    Bytes bytes;
    for (std::uint8_t left = input_.u8() % 4 + 1; left > 0; --left) {
        swrnic_up up{};
        up.type = input_.u8() % 8;
        const std::uint8_t which = input_.u8();
        up.id = which < 8 && !qpns_.empty() ? qpns_[which % qpns_.size()] : which < 128 ? which : input_.u32();
        up.aux = input_.u8();
        append(bytes, up);
    }
    if (const std::uint8_t cut = input_.u8(); cut > 0xf0) bytes.resize(bytes.size() - (cut & 0xf));
    if (fd >= 0) write(fd, bytes);
}

void Process::take_events() {
    const int fd = pick(event_files_);
    if (fd < 0) return;
    Bytes bytes(std::size_t{input_.u8()} * 4);
    const long got = read(fd, bytes);
    const bool event_file = std::dynamic_pointer_cast<shim::EventFile>(find(fd)) != nullptr;
    for (std::size_t at = 0; event_file && got > 0 && at < static_cast<std::size_t>(got); at += sizeof(swrnic_down)) {
        const auto down = get<swrnic_down>(bytes, at);
        if (down.type == SWRNIC_DOWN_QP_CONNECTED) streams_.push_back(down.u.connected.fd);
    }
}

// As a thread does whose call had begun when another thread closed the last descriptor.
void Process::write_late(const std::shared_ptr<shim::File>& file) {
    std::uint32_t answer = 0;
    Bytes bytes;
    append(bytes, rdma_ucm_cmd_hdr{RDMA_USER_CM_CMD_CREATE_ID, sizeof(rdma_ucm_create_id), sizeof(answer)});
    rdma_ucm_create_id create{};
    create.response = reinterpret_cast<std::uint64_t>(&answer);
    append(bytes, create);
    if (std::dynamic_pointer_cast<shim::UcmaFile>(file) != nullptr) file->write(-1, bytes.data(), bytes.size());
}

void Process::descriptor_work() {
    const std::uint8_t what = input_.u8() % 8;
    const int fd = pick();
    if (fd < 0) return;
    const auto file = find(fd);
    if (what == 0) {
        close(fd);
        write_late(file);
    }
    if (what == 1 && all_files().size() < 64) copy(fd);
    if (what == 2 && file != nullptr) {
        struct stat out {};
        require(file->ioctl(input_.u32()) < 0, "no ioctl is known");
        file->fake_stat(out);
    }
    // Streams come out of event files; take_events() keeps their books.
    if (what > 3 && file != nullptr && std::dynamic_pointer_cast<shim::EventFile>(file) == nullptr) {
        Bytes bytes(input_.u8() % 64);
        read(fd, bytes);
    }
    if (what == 3 && !streams_.empty()) {
        sys::close(streams_.back());
        streams_.pop_back();
    }
}

void Process::wait() {
    sleep_for(1 + input_.u8() % 3);
}

}  // namespace swrnic::fuzz
