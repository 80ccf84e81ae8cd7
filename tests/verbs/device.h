// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The opened device and RAII for what is made on it. These tests see what an application sees: plain libibverbs under
// the preload.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <memory>
#include <vector>

namespace swrnic::test {

template <auto Destroy>
struct Destroyer {
    template <typename T>
    void operator()(T* object) const {
        EXPECT_EQ(Destroy(object), 0);
    }
};
using ContextPtr = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using PdPtr = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using MrPtr = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using CqPtr = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using QpPtr = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using ChannelPtr = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;

// The first iWARP device, or null.
inline ContextPtr open_device() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ibv_context* context = nullptr;
    for (int i = 0; list && i < count && !context; ++i)
        if (list[i]->transport_type == IBV_TRANSPORT_IWARP) context = ibv_open_device(list[i]);
    if (list) ibv_free_device_list(list);
    return ContextPtr(context);
}

// Polls until a completion comes or five seconds have passed (then status is GENERAL_ERR and the test has failed).
inline ibv_wc next(ibv_cq* cq) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    ibv_wc wc{};
    do {
        const int got = ibv_poll_cq(cq, 1, &wc);
        if (got == 1) return wc;
        EXPECT_EQ(got, 0);
    } while (std::chrono::steady_clock::now() < deadline);
    ADD_FAILURE() << "no completion within 5 s";
    wc.status = IBV_WC_GENERAL_ERR;
    return wc;
}

class DeviceTest : public testing::Test {
  protected:
    void SetUp() override {
        context_ = open_device();
        ASSERT_TRUE(context_) << "no iWARP device: is LD_PRELOAD set to the userspace shim?";
        pd_.reset(ibv_alloc_pd(context_.get()));
        ASSERT_TRUE(pd_);
        ASSERT_EQ(ibv_query_device(context_.get(), &limits_), 0);
    }

    CqPtr make_cq(int entries = 64) { return CqPtr(ibv_create_cq(context_.get(), entries, nullptr, nullptr, 0)); }
    ibv_qp_init_attr qp_attr(ibv_cq* cq) {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq;
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 0};
        return attr;
    }
    QpPtr make_qp(ibv_cq* cq) {
        ibv_qp_init_attr attr = qp_attr(cq);
        return QpPtr(ibv_create_qp(pd_.get(), &attr));
    }

    ContextPtr context_;
    PdPtr pd_;
    ibv_device_attr limits_{};
};

}  // namespace swrnic::test
