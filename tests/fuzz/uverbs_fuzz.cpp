// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Commands of any content to two verbs contexts, and records of any content to their event files.
#include "fuzz/process.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    swrnic::fuzz::Input input(data, size);
    swrnic::fuzz::Process process(input);
    process.open_context();
    process.open_context();
    for (int steps = 0; !input.empty() && steps < 200; ++steps) {
        switch (input.u8() % 8) {
            case 0:
                process.raw_write(process.pick());
                break;
            case 1:
            case 2:
            case 3:
            case 4:
                process.verbs_command(process.pick_context());
                break;
            case 5:
                process.report();
                break;
            case 6:
                process.take_events();
                break;
            case 7:
                process.descriptor_work();
                break;
        }
    }
    return 0;
}
