# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Who may know what (docs/ARCHITECTURE.md), by the directories in which a target's headers are looked for.
#
# swrnic_face(NAME BASE PATH...): the directory rooms/NAME of the build holds links to these files and directories of BASE, under the
# names by which they are included. A target that links swrnic_NAME_face finds them, and nothing else of BASE.
function(swrnic_face name base)
    set(face ${PROJECT_BINARY_DIR}/rooms/${name})
    file(REMOVE_RECURSE ${face})
    foreach(path ${ARGN})
        get_filename_component(directory ${face}/${path} DIRECTORY)
        file(MAKE_DIRECTORY ${directory})
        file(CREATE_LINK ${base}/${path} ${face}/${path} SYMBOLIC)
    endforeach()
    add_library(swrnic_${name}_face INTERFACE)
    target_include_directories(swrnic_${name}_face INTERFACE ${face})
endfunction()
