// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/report.h"

namespace swrnic::tools {

namespace {

const char* mark(Verdict verdict) {
    switch (verdict) {
        case Verdict::kOk:
            return "ok  ";
        case Verdict::kNote:
            return "note";
        case Verdict::kFail:
            return "FAIL";
    }
    return "?";
}

// Returns how many of them fail.
long print_section(const char* title, const Findings& findings) {
    fmt::print("{}\n", title);
    for (const Finding& finding : findings) {
        fmt::print("  {}  {}\n", mark(finding.verdict), finding.text);
        if (!finding.advice.empty()) fmt::print("        -> {}\n", finding.advice);
    }
    return std::count_if(findings.begin(), findings.end(),
                         [](const Finding& finding) { return finding.verdict == Verdict::kFail; });
}

}  // namespace

int doctor() {
    const KernelRdma kernel = look_at_kernel_rdma();
    long failed = 0;
    failed += print_section("Host", check_host());
    failed += print_section("RDMA in the kernel (`swrnic run` needs none of it)", check_kernel_rdma(kernel));
    failed += print_section("Libraries", check_libraries(find_libraries(own_path())));
    failed += print_section("Programs to try it with", check_programs());
    failed += print_section("Settings", check_settings());
    failed += print_section("Network", check_network());
    failed += print_section("The device, as a program under `swrnic run` sees it", check_device());
    if (failed == 0) {
        fmt::print("\nResult: `swrnic run` works here.\n");
        return 0;
    }
    fmt::print("\nResult: `swrnic run` will not work here: {} FAIL above.\n", failed);
    return 1;
}

}  // namespace swrnic::tools
