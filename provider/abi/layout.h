// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which layout the private structures of a loaded libibverbs have. It is not asked what was installed where this was
// built: one library serves every rdma-core of the table.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace swrnic::abi {

// A libibverbs exports its private functions under the version IBVERBS_PRIVATE_<pabi> and its public ones under
// IBVERBS_1.<m>. A new operation brings a new public function, so both together name a layout; the ABI's number alone
// does not (rdma-core 62 added two operations to 59's).
struct Layout {
    unsigned pabi;
    unsigned newest_public;
    unsigned release;            // rdma-core's first that has it; chooses the operations (operations.h)
    std::size_t context_offset;  // of verbs_context::context, which is its last member
};

inline constexpr std::array kLayouts{
    Layout{34, 14, 39, 320}, Layout{57, 14, 57, 320}, Layout{59, 15, 59, 344},
    Layout{59, 16, 62, 352}, Layout{64, 17, 64, 368}, Layout{65, 18, 65, 368},
};
inline constexpr const char* kKnownReleases = "rdma-core 39 to 65";

struct Library {
    std::string path;                // links resolved
    std::string release;             // of rdma-core, "44.0", as the file is named; empty: it does not say
    unsigned pabi = 0;               // 0: no private version
    unsigned newest_public = 0;      // 0: no public version
    const Layout* layout = nullptr;  // null: of no known layout
};

// The libibverbs that dlopen() has given this handle for.
Library look_at(void* handle);

// "libibverbs of rdma-core 44.0, private ABI 34, IBVERBS_1.14 (/usr/lib/.../libibverbs.so.1.14.44.0)"
std::string in_words(const Library& library);

// Why a library without a layout is refused, and what to do: one line.
std::string refusal(const Library& library);

}  // namespace swrnic::abi
