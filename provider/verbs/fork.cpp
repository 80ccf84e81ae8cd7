// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fork.h"

#include <pthread.h>

#include <cerrno>
#include <mutex>
#include <vector>

#include "context.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

// pthread_atfork() handlers get no argument, so the list of open contexts is process-wide. Never destroyed: a process
// may fork in its exit handlers.
struct OpenContexts {
    std::mutex mutex;
    std::vector<Context*> list;
};

OpenContexts& open_contexts() {
    static auto& contexts = *new OpenContexts;
    return contexts;
}

// In the child the context answers EIO to everything; what its destroying verbs would free is left alone.
constexpr verbs_context_ops dead_ops() {
    verbs_context_ops ops{};
    ops.alloc_pd = [](ibv_context*) -> ibv_pd* { return errno = EIO, nullptr; };
    ops.create_cq = [](ibv_context*, int, ibv_comp_channel*, int) -> ibv_cq* { return errno = EIO, nullptr; };
    ops.create_qp = [](ibv_pd*, ibv_qp_init_attr*) -> ibv_qp* { return errno = EIO, nullptr; };
    ops.reg_mr = [](ibv_pd*, void*, std::size_t, std::uint64_t, int) -> ibv_mr* { return errno = EIO, nullptr; };
    ops.dealloc_pd = [](ibv_pd*) { return EIO; };
    ops.dereg_mr = [](verbs_mr*) { return EIO; };
    ops.destroy_cq = [](ibv_cq*) { return EIO; };
    ops.destroy_qp = [](ibv_qp*) { return EIO; };
    ops.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return EIO; };
    ops.query_qp = [](ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) { return EIO; };
    ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return -1; };
    ops.req_notify_cq = [](ibv_cq*, int) { return EIO; };
    ops.post_recv = [](ibv_qp*, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) { return *bad_wr = wr, EIO; };
    ops.post_send = [](ibv_qp*, ibv_send_wr* wr, ibv_send_wr** bad_wr) { return *bad_wr = wr, EIO; };
    return ops;
}
constexpr verbs_context_ops kDeadOps = dead_ops();

void before_fork() {
    open_contexts().mutex.lock();
}
void in_parent() {
    open_contexts().mutex.unlock();
}
void in_child() {
    for (Context* context : open_contexts().list) {
        context->state->abandon_after_fork();
        verbs_set_ops(&context->base, &kDeadOps);
    }
    open_contexts().list.clear();
    open_contexts().mutex.unlock();
}

}  // namespace

void watch_forks(Context& context) {
    static const int registered = pthread_atfork(before_fork, in_parent, in_child);
    static_cast<void>(registered);
    const std::lock_guard lock(open_contexts().mutex);
    open_contexts().list.push_back(&context);
}

void unwatch_forks(Context& context) {
    const std::lock_guard lock(open_contexts().mutex);
    std::erase(open_contexts().list, &context);
}

}  // namespace swrnic::verbs
