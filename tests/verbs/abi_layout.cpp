// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Compiled once per layout that provider/abi knows.
#include "provider-abi.h"

int main() {
    return 0;
}
