// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// abi_probe [PROVIDER]: what the provider finds out about the libibverbs of this process, in one line; and what the
// provider itself says when it is loaded.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "provider-abi.h"

int main(int argc, char** argv) {
    std::string why;
    if (!swrnic::abi::bind(why)) {
        std::printf("refused: %s\n", why.c_str());
    } else {
        const auto& found = swrnic::abi::libibverbs;
        std::printf("private ABI %u, operations of %u, context at %zu, comp_mask at %zu\n", found.layout->pabi,
                    found.layout->release, found.layout->context_offset, found.qp_comp_mask);
    }
    std::fflush(stdout);
    if (argc < 2) return 0;
    if (::dlopen(argv[1], RTLD_NOW) != nullptr) return 0;
    std::printf("%s\n", ::dlerror());
    return 1;
}
