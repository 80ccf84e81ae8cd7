// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posting work to an endpoint, and waiting for what it reports.
#include <arpa/inet.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "endpoint.h"

namespace checker {

namespace {
// The greeting's requests; no case uses numbers this high.
constexpr std::uint64_t kGreetSend = 0xfffffffffffffff0U;
constexpr std::uint64_t kGreetRecv = 0xfffffffffffffff1U;

ibv_send_wr send_wr(std::uint64_t wr_id, std::span<ibv_sge> list, ibv_wr_opcode opcode, unsigned flags) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    wr.opcode = opcode;
    wr.send_flags = flags;
    return wr;
}
}  // namespace

std::string status_text(const ibv_wc& wc) {
    return fmt::format("{} (vendor_err {:#x})", ibv_wc_status_str(wc.status), wc.vendor_err);
}

int Endpoint::post(ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    const int rc = ibv_post_send(qp(), &wr, &bad);
    expect(rc == 0, "ibv_post_send of opcode {}, wr_id {}: {}", static_cast<int>(wr.opcode), wr.wr_id,
           std::strerror(rc < 0 ? -rc : rc));
    return rc;
}

void Endpoint::send(std::uint64_t wr_id, std::span<ibv_sge> list, unsigned flags) {
    ibv_send_wr wr = send_wr(wr_id, list, IBV_WR_SEND, flags);
    post(wr);
}

void Endpoint::send_inv(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint32_t rkey, unsigned flags) {
    ibv_send_wr wr = send_wr(wr_id, list, IBV_WR_SEND_WITH_INV, flags);
    wr.invalidate_rkey = rkey;
    post(wr);
}

void Endpoint::send_imm(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint32_t imm, unsigned flags) {
    ibv_send_wr wr = send_wr(wr_id, list, IBV_WR_SEND_WITH_IMM, flags);
    wr.imm_data = htonl(imm);
    post(wr);
}

void Endpoint::write(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
                     unsigned flags) {
    ibv_send_wr wr = send_wr(wr_id, list, IBV_WR_RDMA_WRITE, flags);
    wr.wr.rdma.remote_addr = addr;
    wr.wr.rdma.rkey = rkey;
    post(wr);
}

void Endpoint::write_imm(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
                         std::uint32_t imm, unsigned flags) {
    ibv_send_wr wr = send_wr(wr_id, list, IBV_WR_RDMA_WRITE_WITH_IMM, flags);
    wr.imm_data = htonl(imm);
    wr.wr.rdma.remote_addr = addr;
    wr.wr.rdma.rkey = rkey;
    post(wr);
}

void Endpoint::fetch_add(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
                         std::uint64_t add) {
    ibv_send_wr wr = send_wr(wr_id, list, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_SIGNALED);
    wr.wr.atomic = {.remote_addr = addr, .compare_add = add, .swap = 0, .rkey = rkey};
    post(wr);
}

void Endpoint::compare_swap(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
                            std::uint64_t compare, std::uint64_t swap) {
    ibv_send_wr wr = send_wr(wr_id, list, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_SEND_SIGNALED);
    wr.wr.atomic = {.remote_addr = addr, .compare_add = compare, .swap = swap, .rkey = rkey};
    post(wr);
}

void Endpoint::read(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
                    unsigned flags) {
    ibv_send_wr wr = send_wr(wr_id, list, IBV_WR_RDMA_READ, flags);
    wr.wr.rdma.remote_addr = addr;
    wr.wr.rdma.rkey = rkey;
    post(wr);
}

void Endpoint::recv(std::uint64_t wr_id, std::span<ibv_sge> list) {
    ibv_recv_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    ibv_recv_wr* bad = nullptr;
    const int rc = ibv_post_recv(qp(), &wr, &bad);
    expect(rc == 0, "ibv_post_recv, wr_id {}: {}", wr_id, std::strerror(rc < 0 ? -rc : rc));
}

ibv_wc Endpoint::wait(ibv_cq* cq, std::string_view what) {
    const Deadline deadline(options_.patience);
    ibv_wc wc{};
    for (unsigned empty = 0;; ++empty) {
        const int n = ibv_poll_cq(cq, 1, &wc);
        expect(n >= 0, "{}: ibv_poll_cq: {}", what, n);
        if (n == 1) break;
        if (empty % 64 != 63) continue;
        std::this_thread::yield();
        expect(!deadline.over(), "{}: no completion in {} s, QP state {}", what, options_.patience.count(),
               static_cast<int>(state()));
    }
    expect(wc.qp_num == qp()->qp_num, "{}: completion with qp_num {:#x}, the QP is {:#x}", what, wc.qp_num,
           qp()->qp_num);
    return wc;
}

ibv_wc Endpoint::wait_send(std::uint64_t wr_id, ibv_wc_opcode opcode, std::string_view what) {
    const ibv_wc wc = wait(send_cq(), what);
    expect(wc.wr_id == wr_id, "{}: completion of wr_id {} ({}), expected {}", what, wc.wr_id, status_text(wc), wr_id);
    expect(wc.status == IBV_WC_SUCCESS, "{}: {}", what, status_text(wc));
    expect(wc.opcode == opcode, "{}: completion opcode {}, expected {}", what, static_cast<int>(wc.opcode),
           static_cast<int>(opcode));
    return wc;
}

ibv_wc Endpoint::wait_recv(std::uint64_t wr_id, std::size_t length, std::string_view what, ibv_wc_opcode opcode) {
    const ibv_wc wc = wait(recv_cq(), what);
    expect(wc.wr_id == wr_id, "{}: completion of wr_id {} ({}), expected {}", what, wc.wr_id, status_text(wc), wr_id);
    expect(wc.status == IBV_WC_SUCCESS, "{}: {}", what, status_text(wc));
    expect(wc.opcode == opcode, "{}: completion opcode {}", what, static_cast<int>(wc.opcode));
    expect(wc.byte_len == length, "{}: byte_len {}, expected {}", what, wc.byte_len, length);
    return wc;
}

void Endpoint::expect_nothing(ibv_cq* cq, std::chrono::milliseconds time, std::string_view what) {
    const Deadline deadline(time);
    ibv_wc wc{};
    do {
        expect(ibv_poll_cq(cq, 1, &wc) == 0, "{}: unexpected completion, wr_id {}, {}", what, wc.wr_id,
               status_text(wc));
        std::this_thread::yield();
    } while (!deadline.over());
}

bool Endpoint::wait_cq_event(ibv_cq* cq, std::chrono::milliseconds time) {
    pollfd waiting{.fd = cq->channel->fd, .events = POLLIN, .revents = 0};
    const Deadline deadline(time);
    int ready = 0;
    do {
        ready = poll(&waiting, 1, deadline.left_ms());
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) return false;
    ibv_cq* of = nullptr;
    void* context = nullptr;
    expect(ibv_get_cq_event(cq->channel, &of, &context) == 0, "ibv_get_cq_event: {}", Errno{});
    expect(of == cq, "the completion event names another CQ");
    ++(cq == send_cq() ? send_events_ : recv_events_);
    return true;
}

ibv_qp_state Endpoint::state() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    const int rc = ibv_query_qp(qp(), &attr, IBV_QP_STATE, &init);
    expect(rc == 0, "ibv_query_qp: {}", std::strerror(rc));
    return attr.qp_state;
}

void Endpoint::greet_prepare() {
    if (shape_.greet) recv(kGreetRecv, {});
}

void Endpoint::greet_active() {
    send(kGreetSend, {});
    wait_send(kGreetSend, IBV_WC_SEND, "greeting");
    wait_recv(kGreetRecv, 0, "answer to the greeting");
}

void Endpoint::greet_passive() {
    wait_recv(kGreetRecv, 0, "greeting");
    send(kGreetSend, {});
    wait_send(kGreetSend, IBV_WC_SEND, "answer to the greeting");
}

}  // namespace checker
