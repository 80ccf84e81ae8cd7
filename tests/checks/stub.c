/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A library that does nothing, where only its being found and preloaded matters. */
int swrnic_test_stub(void);
int swrnic_test_stub(void) {
    return 0;
}
