// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// ggml's RPC backend as a program would use it. test_ggml.py builds this against a checkout of ggml.
//   ggml_rpc serve HOST:PORT     offers this host's CPU, until it is killed
//   ggml_rpc compare HOST:PORT   tensors that were there and back, and products, are equal to those made here
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml-rpc.h>
#include <ggml.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using Backend = std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)>;
using Values = std::vector<float>;

struct Product {
    Values left_again, product;  // the first factor as it was read back
};

// The product of two matrices of SIDE rows and columns.
Product multiply(ggml_backend_t backend, std::int64_t side, const Values& left, const Values& right) {
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(
        ggml_init(
            {.mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead(), .mem_buffer = nullptr, .no_alloc = true}),
        ggml_free);
    ggml_tensor* a = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, side, side);
    ggml_tensor* b = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, side, side);
    ggml_tensor* c = ggml_mul_mat(context.get(), a, b);
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, c);
    const std::unique_ptr<ggml_backend_buffer, decltype(&ggml_backend_buffer_free)> buffer(
        ggml_backend_alloc_ctx_tensors(context.get(), backend), ggml_backend_buffer_free);
    Product result{Values(left.size()), Values(left.size())};
    if (!buffer) return {};
    ggml_backend_tensor_set(a, left.data(), 0, ggml_nbytes(a));
    ggml_backend_tensor_set(b, right.data(), 0, ggml_nbytes(b));
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) return {};
    ggml_backend_tensor_get(a, result.left_again.data(), 0, ggml_nbytes(a));
    ggml_backend_tensor_get(c, result.product.data(), 0, ggml_nbytes(c));
    return result;
}

bool equal(const Values& a, const Values& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

int compare(const char* endpoint) {
    const Backend far(ggml_backend_rpc_init(endpoint, 0), ggml_backend_free),
        here(ggml_backend_cpu_init(), ggml_backend_free);
    if (!far || !here) return 2;
    ggml_backend_cpu_set_n_threads(here.get(), 1);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> values(-1, 1);
    for (const std::int64_t side : {1, 7, 64, 255, 256, 1024}) {  // 4 octets to 4 MiB
        for (int round = 0; round < 4; ++round) {
            Values left(static_cast<std::size_t>(side * side)), right(left.size());
            for (Values* matrix : {&left, &right})
                for (float& value : *matrix)
                    value = values(random);
            const Product there = multiply(far.get(), side, left, right);
            if (!equal(there.left_again, left)) return std::printf("side %d: not what was sent\n", int(side)), 1;
            if (!equal(there.product, multiply(here.get(), side, left, right).product))
                return std::printf("side %d: not the product\n", int(side)), 1;
        }
        std::printf("side %d: equal\n", int(side));
    }
    std::printf("all equal\n");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc == 3 ? argv[1] : "";
    if (what == "compare") return compare(argv[2]);
    if (what != "serve") return 2;
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_rpc_start_server(argv[2], nullptr, 1, 1, &device);
    return 1;
}
