// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which sanitizer a program was built with.
#pragma once

#include <string>

namespace swrnic::tools {

// The file that execvp() would execute; empty: there is none.
std::string find_program(const std::string& command);

// The shared library of a sanitizer that the program names among those that it needs (DT_NEEDED), such as libasan.so.8:
// it insists on being the first that is loaded. Empty: there is none, the program has its sanitizer inside, or the file
// is no ELF file.
std::string sanitizer_runtime(const std::string& program);

}  // namespace swrnic::tools
