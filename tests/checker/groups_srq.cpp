// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A shared receive queue serves several connections.
#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

struct SrqDeleter {
    void operator()(ibv_srq* srq) const { ibv_destroy_srq(srq); }
};

}  // namespace

// The limits and the posting of an SRQ alone; QPs on it come when the device promises them.
void run_srq(Session& s) {
    const auto ep = s.connect();
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 32, .max_sge = 1, .srq_limit = 0};
    const std::unique_ptr<ibv_srq, SrqDeleter> srq(ibv_create_srq(ep->pd(), &init));
    expect(srq != nullptr, "ibv_create_srq: {}", Errno{});
    ibv_srq_attr attr{};
    expect(ibv_query_srq(srq.get(), &attr) == 0, "ibv_query_srq: {}", Errno{});
    expect(attr.max_wr >= 32 && attr.max_sge >= 1, "SRQ of {} requests, {} elements", attr.max_wr, attr.max_sge);
    Rng rng = s.own_rng("srq");
    Sg memory(ep->pd(), std::size_t{64}, kLocal, rng);
    std::uint32_t posted = 0;
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = memory.list().data();
    wr.num_sge = 1;
    while (posted <= attr.max_wr && ibv_post_srq_recv(srq.get(), &wr, &bad) == 0)
        ++posted;
    expect(posted >= 32 && posted <= attr.max_wr, "an SRQ of {} took {} requests", attr.max_wr, posted);
    s.count(0);
}

}  // namespace checker
