# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# One place for warnings, hardening and sanitizers. Everything that is built in this tree gets them.
add_compile_options(
    -Wall -Wextra -Wshadow -Wpointer-arith -Wvla -Wundef -fno-strict-overflow -fvisibility=hidden
    "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Woverloaded-virtual;-Wold-style-cast;-fvisibility-inlines-hidden>"
    "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>"
    "$<$<CONFIG:Release,RelWithDebInfo>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2;-fstack-protector-strong>")
# clang counts the steps of constant evaluation; the userspace shim's table of descriptors is a million constant-initialised atomics.
add_compile_options("$<$<CXX_COMPILER_ID:Clang>:-fconstexpr-steps=33554432>")
# Not in the presets with sanitizers: at -O1 g++ 12 warns of what is not there, in its own headers.
if(SWRNIC_WERROR)
    add_compile_options(-Werror)
endif()
if(SWRNIC_SANITIZE)
    add_compile_options(-fsanitize=${SWRNIC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
    add_link_options(-fsanitize=${SWRNIC_SANITIZE})
endif()
if(SWRNIC_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
