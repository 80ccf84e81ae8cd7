// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Commands of any content to two rdma_cm files, with two QPs to connect to each other, and a provider that reports what
// it likes.
#include "fuzz/process.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    swrnic::fuzz::Input input(data, size);
    swrnic::fuzz::Process process(input);
    process.open_context();
    process.open_context();
    process.open_manager();
    process.open_manager();
    for (int steps = 0; !input.empty() && steps < 200; ++steps) {
        switch (input.u8() % 10) {
            case 0:
                process.raw_write(process.pick());
                break;
            case 1:
            case 2:
            case 3:
            case 4:
                process.manager_command(process.pick_manager());
                break;
            case 5:
                process.verbs_command(process.pick_context());
                break;
            case 6:
                process.report();
                break;
            case 7:
                process.take_events();
                break;
            case 8:
                process.descriptor_work();
                break;
            case 9:
                process.wait();
                break;
        }
    }
    return 0;
}
