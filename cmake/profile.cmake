# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# SWRNIC_PROFILED: the provider is compiled with a profile of perftest's programs over the device, so that what a message runs through lies
# together and is guessed right: behind a system call nothing of it is in the caches any more (bench/history/2026-11-26-trials.md says what that gives).
# In a tree of its own, training/, the provider is built so that it counts, bench/train.py runs the programs, and then the real one is built.
option(SWRNIC_PROFILED "Build the provider twice, the second time with a profile of the first (GCC, perftest, rdmacm-utils, python3)" OFF)
set(SWRNIC_PROFILE_INTO "" CACHE PATH "Where a provider that counts writes its profile: set by SWRNIC_PROFILED for the tree training/")
mark_as_advanced(SWRNIC_PROFILE_INTO)

# What the rooms of the provider are compiled with, and what links them. Objects are named in the profile as in their tree.
set(SWRNIC_PROFILE_OPTIONS)
if(SWRNIC_PROFILE_INTO)
    # Threads count the same branches, and two processes write the same files.
    set(SWRNIC_PROFILE_OPTIONS -fprofile-generate=${SWRNIC_PROFILE_INTO} -fprofile-prefix-path=${CMAKE_BINARY_DIR} -fprofile-update=prefer-atomic)
elseif(SWRNIC_PROFILED)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR CMAKE_CROSSCOMPILING OR SWRNIC_SANITIZE)
        message(FATAL_ERROR "SWRNIC_PROFILED needs GCC, no sanitizer, and a machine that can run what it builds")
    endif()
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    find_program(SWRNIC_IB_SEND_LAT ib_send_lat REQUIRED) # perftest's, and
    find_program(SWRNIC_CMTIME cmtime REQUIRED) # rdmacm-utils'
    set(training ${CMAKE_BINARY_DIR}/training)
    set(profile ${training}/profile)
    set(SWRNIC_PROFILE_OPTIONS -fprofile-use=${profile} -fprofile-prefix-path=${CMAKE_BINARY_DIR} -fprofile-correction -Wno-missing-profile)
    cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
    set(same_options -DSWRNIC_TESTS=OFF -DSWRNIC_PROFILE_INTO=${profile})
    foreach(option CMAKE_BUILD_TYPE CMAKE_C_COMPILER CMAKE_CXX_COMPILER CMAKE_C_FLAGS CMAKE_CXX_FLAGS CMAKE_SHARED_LINKER_FLAGS
            CMAKE_MODULE_LINKER_FLAGS CMAKE_EXE_LINKER_FLAGS CMAKE_INSTALL_LIBDIR SWRNIC_WERROR)
        list(APPEND same_options "-D${option}=${${option}}")
    endforeach()
    set(counting ${training}/lib/libswrnic-rdmav34.so)
    add_custom_target(swrnic_counting
        COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${training} -G ${CMAKE_GENERATOR} ${same_options}
        COMMAND ${CMAKE_COMMAND} -E env --unset=MAKEFLAGS ${CMAKE_COMMAND} --build ${training} --parallel ${cores} --target swrnic
        BYPRODUCTS ${counting}
        COMMENT "Building a provider that counts"
        VERBATIM)
    set(runs train.py programs.py rows.py)
    list(TRANSFORM runs PREPEND ${PROJECT_SOURCE_DIR}/bench/)
    add_custom_command(OUTPUT ${training}/trained
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${profile}
        COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/train.py ${training}/bin/swrnic
        COMMAND ${CMAKE_COMMAND} -E touch ${training}/trained
        DEPENDS swrnic_counting ${counting} ${runs}
        COMMENT "Running perftest over it"
        VERBATIM)
    add_custom_target(swrnic_profile DEPENDS ${training}/trained)
endif()
