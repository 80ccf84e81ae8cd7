# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Asks the installed libibverbs which private provider ABI it exports. Sets SWRNIC_PABI (34, 57, 59, 64), SWRNIC_RDMA_CORE (the
# rdma-core release) and SWRNIC_IBVERBS (the library).
find_library(SWRNIC_IBVERBS NAMES ibverbs)
if(NOT SWRNIC_IBVERBS)
    message(FATAL_ERROR "libibverbs was not found: install libibverbs-dev")
endif()
execute_process(
    COMMAND ${CMAKE_READELF} --version-info --wide ${SWRNIC_IBVERBS}
    OUTPUT_VARIABLE swrnic_versions ERROR_QUIET RESULT_VARIABLE swrnic_readelf_failed)
if(swrnic_readelf_failed OR NOT swrnic_versions MATCHES "IBVERBS_PRIVATE_([0-9]+)")
    message(FATAL_ERROR "${SWRNIC_IBVERBS} exports no IBVERBS_PRIVATE_<n>: is it rdma-core's libibverbs?")
endif()
set(SWRNIC_PABI ${CMAKE_MATCH_1})
if(NOT SWRNIC_PABI MATCHES "^(34|57|59|64)$")
    message(FATAL_ERROR
        "${SWRNIC_IBVERBS} has private provider ABI ${SWRNIC_PABI}; provider/abi knows 34, 57, 59 and 64. Add its row there.")
endif()

# PABI 59 alone does not name the layout: rdma-core 62 added operations without a new number.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(SWRNIC_IBVERBS_PC QUIET libibverbs)
endif()
if(SWRNIC_IBVERBS_PC_VERSION MATCHES "^[0-9]+\\.[0-9]+\\.([0-9]+)")
    set(SWRNIC_RDMA_CORE ${CMAKE_MATCH_1})
elseif(SWRNIC_PABI EQUAL 59)
    message(FATAL_ERROR "private provider ABI 59 comes in two layouts: pkg-config is needed to tell the rdma-core release")
else()
    set(SWRNIC_RDMA_CORE ${SWRNIC_PABI})
endif()
message(STATUS "libibverbs: ${SWRNIC_IBVERBS}, private provider ABI ${SWRNIC_PABI}, rdma-core ${SWRNIC_RDMA_CORE}")
