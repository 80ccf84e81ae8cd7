# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# For arm64 by Debian's cross compiler (crossbuild-essential-arm64), with its multiarch libraries (libibverbs-dev:arm64 and the like).
# qemu-user runs what is built, where it is installed: scripts/arm64-test.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
