// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What one check found.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "host.h"
#include "locate.h"

namespace swrnic::tools {

enum class Verdict {
    kOk,
    kNote,  // worth knowing; `swrnic run` works all the same
    kFail,  // `swrnic run` will not work
};

struct Finding {
    Verdict verdict = Verdict::kOk;
    std::string text;    // what is there
    std::string advice;  // what to do, when there is something to do
};

using Findings = std::vector<Finding>;

inline Finding ok(std::string text) {
    return {Verdict::kOk, std::move(text), {}};
}
inline Finding note(std::string text, std::string advice = {}) {
    return {Verdict::kNote, std::move(text), std::move(advice)};
}
inline Finding fail(std::string text, std::string advice) {
    return {Verdict::kFail, std::move(text), std::move(advice)};
}

Findings check_host();
Findings check_kernel_rdma(const KernelRdma& kernel);
Findings check_libraries(const Libraries& libraries);
Findings check_programs();
Findings check_settings();
Findings check_network();
Findings check_device();  // starts `swrnic run -- swrnic probe`

}  // namespace swrnic::tools
