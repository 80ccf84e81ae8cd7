# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE exported COMMAND_ERROR_IS_FATAL ANY)
string(STRIP "${exported}" exported)
if(exported)
    message(FATAL_ERROR "${LIBRARY} exports:\n${exported}")
endif()
execute_process(COMMAND ${NM} -D --undefined-only ${LIBRARY} OUTPUT_VARIABLE wanted COMMAND_ERROR_IS_FATAL ANY)
if(NOT wanted MATCHES "ibv_qp_to_qp_ex@")
    message(FATAL_ERROR "${LIBRARY} asks libibverbs for nothing: is it the provider?")
endif()
# The loader would refuse it wherever the private ABI has another number.
if(wanted MATCHES "[^\n]*IBVERBS_PRIVATE[^\n]*")
    message(FATAL_ERROR "${LIBRARY} is bound to one private ABI:${CMAKE_MATCH_0}")
endif()
