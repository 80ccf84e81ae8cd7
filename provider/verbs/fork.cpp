// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fork.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "context.h"
#include "log.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

// pthread_atfork() handlers get no argument, so the list of open contexts is process-wide. Never destroyed: a process
// may fork in its exit handlers.
struct OpenContexts {
    std::mutex mutex;
    std::vector<Context*> list;
    std::unordered_set<ibv_cq_ex*> cqs;
    std::unordered_set<ibv_qp_ex*> qps;
};

OpenContexts& open_contexts() {
    static auto& contexts = *new OpenContexts;
    return contexts;
}

// EIO. The first one says why, since programs that serve by forked children rarely know that they do this.
int io_error() {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) {
        log(LogLevel::kWarn,
            "a forked child has called a verb on a device that its parent opened; that answers EIO in the child, which "
            "must open the device itself (with rdma_cm: after exec)");
    }
    return EIO;
}

// A function of that type that answers EIO, in the way in which it tells of errors.
template <typename Result, typename... Arguments>
constexpr auto refuse(Result (*)(Arguments...)) -> Result (*)(Arguments...) {
    return [](Arguments...) -> Result {
        errno = io_error();
        if constexpr (std::is_pointer_v<Result>) {
            return nullptr;
        } else if constexpr (!std::is_void_v<Result>) {
            return EIO;
        }
    };
}

template <typename Function>
void put_refusal(Function& function) {
    function = refuse(function);
}

// In the child the context answers EIO to everything; what its destroying verbs would free is left alone.
constexpr abi::Operations refusals() {
    abi::Operations ops{};
#define SWRNIC_REFUSE(name) ops.name = refuse(ops.name);
    SWRNIC_VERBS(SWRNIC_REFUSE)
#undef SWRNIC_REFUSE
    ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return io_error(), -1; };
    ops.post_recv = [](ibv_qp*, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) { return *bad_wr = wr, io_error(); };
    ops.post_send = [](ibv_qp*, ibv_send_wr* wr, ibv_send_wr** bad_wr) { return *bad_wr = wr, io_error(); };
    ops.post_srq_recv = [](ibv_srq*, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) { return *bad_wr = wr, io_error(); };
    return ops;
}

// Arranged before the first fork: a child should not.
const abi::OperationTable& dead_table() {
    static const abi::OperationTable table = abi::arrange(refusals(), abi::libibverbs.layout->release);
    return table;
}

// Nothing can be read without a completion in hand.
void die(ibv_cq_ex& cq) {
    put_refusal(cq.start_poll);
    put_refusal(cq.next_poll);
    put_refusal(cq.end_poll);
}

// The engine is not reached, nor the lock, nor the requests that another thread may have been putting together.
void die(ibv_qp_ex& qp) {
    put_refusal(qp.wr_start);
    put_refusal(qp.wr_complete);
    put_refusal(qp.wr_abort);
    put_refusal(qp.wr_send);
    put_refusal(qp.wr_send_inv);
    put_refusal(qp.wr_send_imm);
    put_refusal(qp.wr_set_ud_addr);
    put_refusal(qp.wr_local_inv);
    put_refusal(qp.wr_bind_mw);
    put_refusal(qp.wr_rdma_write);
    put_refusal(qp.wr_rdma_read);
    put_refusal(qp.wr_set_sge);
    put_refusal(qp.wr_set_sge_list);
    put_refusal(qp.wr_set_inline_data);
    put_refusal(qp.wr_set_inline_data_list);
}

void before_fork() {
    open_contexts().mutex.lock();
    for (Context* context : open_contexts().list)
        context->state->engine().before_fork();
}
void in_parent() {
    for (Context* context : open_contexts().list)
        context->state->engine().after_fork_in_parent();
    open_contexts().mutex.unlock();
}
void in_child() {
    for (Context* context : open_contexts().list) {
        context->state->abandon_after_fork();
        abi::libibverbs.verbs_set_ops(abi::verbs_context_of(&context->base), &dead_table());
    }
    for (ibv_cq_ex* cq : open_contexts().cqs)
        die(*cq);
    for (ibv_qp_ex* qp : open_contexts().qps)
        die(*qp);
    open_contexts().list.clear();
    open_contexts().cqs.clear();
    open_contexts().qps.clear();
    open_contexts().mutex.unlock();
}

}  // namespace

void watch_forks(Context& context) {
    static const int registered = pthread_atfork(before_fork, in_parent, in_child);
    static_cast<void>(registered);
    static_cast<void>(dead_table());
    const std::lock_guard lock(open_contexts().mutex);
    open_contexts().list.push_back(&context);
}

void unwatch_forks(Context& context) {
    const std::lock_guard lock(open_contexts().mutex);
    std::erase(open_contexts().list, &context);
}

ExtendedObject::ExtendedObject(ibv_cq_ex& cq) : cq_(&cq) {
    const std::lock_guard lock(open_contexts().mutex);
    open_contexts().cqs.insert(&cq);
}

ExtendedObject::ExtendedObject(ibv_qp_ex& qp) : qp_(&qp) {
    const std::lock_guard lock(open_contexts().mutex);
    open_contexts().qps.insert(&qp);
}

ExtendedObject::~ExtendedObject() {
    const std::lock_guard lock(open_contexts().mutex);
    open_contexts().cqs.erase(cq_);
    open_contexts().qps.erase(qp_);
}

}  // namespace swrnic::verbs
