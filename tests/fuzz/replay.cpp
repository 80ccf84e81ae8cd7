// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Runs a fuzz target once with each input of a file, one a line in hex: what the fuzzer has found stays found.
#include <fstream>
#include <string>

#include "fuzz/input.h"
#include "golden/vectors.h"

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    std::ifstream in(argv[1]);
    std::size_t inputs = 0;
    for (std::string line; std::getline(in, line); ++inputs) {
        std::printf("%zu: %s\n", inputs + 1, line.c_str());
        std::fflush(stdout);
        const auto octets = swrnic::golden::from_hex(line);
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(octets.data()), octets.size());
    }
    std::printf("%zu inputs\n", inputs);
    return inputs == 0;
}
