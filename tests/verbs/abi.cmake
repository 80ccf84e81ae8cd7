# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The private ABI: its layouts as facts, and what is made of a libibverbs that is not the one this was built with.
add_executable(abi_test abi_test.cpp)
target_link_libraries(abi_test PRIVATE swrnic_provider_abi GTest::gtest_main)
swrnic_unit_tests(abi_test abi.)

add_executable(abi_probe abi_probe.cpp)
target_link_libraries(abi_probe PRIVATE swrnic_provider_abi)

# abi_fake(NAME PABI NEWEST_PUBLIC RELEASE COMP_MASK): NAME/libibverbs.so.1, as if of that release.
function(abi_fake name pabi newest release comp_mask)
    set(map "IBVERBS_1.6 { global: ibv_qp_to_qp_ex; };\nIBVERBS_1.${newest} { global: nothing_${newest}; } IBVERBS_1.6;\n")
    string(APPEND map "IBVERBS_PRIVATE_${pabi} { global: _verbs_init_and_alloc_context; verbs_*; ibv_cmd_*; local: *; };\n")
    set(directory ${CMAKE_CURRENT_BINARY_DIR}/fakes/${name})
    file(GENERATE OUTPUT ${directory}.map CONTENT "${map}")
    add_library(abi_fake_${name} SHARED abi_fake.c)
    set_target_properties(abi_fake_${name} PROPERTIES OUTPUT_NAME ibverbs SOVERSION 1 VERSION 1.${newest}.${release}
        LIBRARY_OUTPUT_DIRECTORY ${directory} C_VISIBILITY_PRESET default)
    target_compile_options(abi_fake_${name} PRIVATE -fvisibility=default)
    target_compile_definitions(abi_fake_${name} PRIVATE FAKE_PABI=${pabi} FAKE_NEWEST=nothing_${newest} FAKE_COMP_MASK=${comp_mask} ${ARGN})
    target_link_options(abi_fake_${name} PRIVATE "LINKER:--version-script=${directory}.map")
    add_dependencies(abi_probe abi_fake_${name})
endfunction()

# abi_probe_test(NAME EXPECTED COMMAND...): what the command says where the libibverbs of NAME, up to a dot, is the one that is found.
function(abi_probe_test name expected)
    string(REGEX REPLACE "\\..*" "" fake ${name})
    add_test(NAME abi.${name} COMMAND ${ARGN})
    set_tests_properties(abi.${name} PROPERTIES LABELS quick TIMEOUT 60 PASS_REGULAR_EXPRESSION "${expected}"
        ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/fakes/${fake};ASAN_OPTIONS=detect_leaks=0")
endfunction()

set(to_do "is not known to this version of swrnic, which knows rdma-core 39 to 65: install a newer swrnic, or a libibverbs of those")
# The three sizes of ibv_qp_ex within ABI 34, one that is longer than today's, and one for which there is no room. They are those of x86-64;
# it holds a pthread_mutex_t, which is longer on arm64.
set(longer 0)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(longer 8)
endif()
foreach(row "debian12 34 14 44.0 352 39 320" "oldest 34 14 39.0 344 39 320" "debian13 34 14 56.0 360 39 320" "newest 65 18 65.0 360 65 368"
        "grown 65 18 65.3 368 65 368" "r62 59 16 62.0 360 62 352" "r59 59 15 59.0 360 59 344")
    separate_arguments(row)
    list(POP_BACK row offset since comp_mask)
    list(GET row 0 name)
    list(GET row 1 pabi)
    math(EXPR comp_mask "${comp_mask} + ${longer}")
    abi_fake(${row} ${comp_mask})
    abi_probe_test(${name} "^private ABI ${pabi}, operations of ${since}, context at ${offset}, comp_mask at ${comp_mask}\n" abi_probe)
endforeach()
abi_fake(no_room 34 14 56.9 480)
abi_probe_test(no_room "refused: libibverbs of rdma-core 56.9, private ABI 34.* has an ibv_qp_ex that is longer than known" abi_probe)
abi_fake(lacks 34 14 50.0 360 FAKE_LACKS_DESTROY_QP)
abi_probe_test(lacks "refused: libibverbs of rdma-core 50.0, .* has no ibv_cmd_destroy_qp@IBVERBS_PRIVATE_34" abi_probe)
# An ABI of the future; one of a known number that has new operations.
abi_fake(unknown 99 31 99.1 360)
abi_probe_test(unknown "refused: libibverbs of rdma-core 99.1, private ABI 99, IBVERBS_1.31 .* ${to_do}" abi_probe)
abi_fake(operations_added 65 19 65.9 360)
abi_probe_test(operations_added "refused: libibverbs of rdma-core 65.9, private ABI 65, IBVERBS_1.19 .* ${to_do}" abi_probe)

# What the command makes of them. It must not start a program that would find no device.
abi_probe_test(unknown.run "swrnic: error: libibverbs of rdma-core 99.1, private ABI 99, .* ${to_do}" swrnic run -- echo "a program starts")
abi_probe_test(unknown.doctor "FAIL  libibverbs of rdma-core 99.1, private ABI 99, .* ${to_do}" swrnic doctor)
abi_probe_test(newest.run "a program starts" swrnic run -- echo "a program starts")
abi_probe_test(newest.doctor "ok    the provider for private ABI 65: .*libswrnic-rdmav65.so, in the layout of rdma-core 65 and later" swrnic doctor)
set_tests_properties(abi.unknown.run PROPERTIES FAIL_REGULAR_EXPRESSION "a program starts")

if(TARGET swrnic_verbs)
    # The provider itself: it registers where it knows the libibverbs, and says why not where it does not.
    foreach(name debian12 debian13 newest r62)
        abi_probe_test(${name}.provider "a driver is registered" abi_probe $<TARGET_FILE:swrnic_verbs>)
    endforeach()
    foreach(name unknown operations_added lacks no_room)
        abi_probe_test(${name}.provider "swrnic: error: libibverbs of rdma-core" abi_probe $<TARGET_FILE:swrnic_verbs>)
        set_tests_properties(abi.${name}.provider PROPERTIES FAIL_REGULAR_EXPRESSION "a driver is registered")
    endforeach()
    # Real ones, where they are.
    add_test(NAME abi.releases COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/abi_releases.sh $<TARGET_FILE:swrnic> $<TARGET_FILE:abi_probe> "${SWRNIC_TRIALS}")
    set_tests_properties(abi.releases PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 3600)
endif()
