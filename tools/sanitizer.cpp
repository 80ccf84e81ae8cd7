// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sanitizer.h"

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <string_view>

#include "sanitizer_runtime.h"

namespace swrnic::tools {

namespace {

class File {
  public:
    explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    ~File() {
        if (fd_ >= 0) ::close(fd_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    int fd() const { return fd_; }

  private:
    const int fd_;
};

struct EndElf {
    void operator()(Elf* elf) const { ::elf_end(elf); }
};

// Among the names that the dynamic section calls needed.
std::string needed_runtime(Elf* elf, Elf_Scn* section, const GElf_Shdr& header) {
    Elf_Data* const data = ::elf_getdata(section, nullptr);
    const std::size_t entry_size = ::gelf_fsize(elf, ELF_T_DYN, 1, EV_CURRENT);
    if (data == nullptr || entry_size == 0) return {};
    for (std::size_t i = 0; i < data->d_size / entry_size; ++i) {
        GElf_Dyn entry{};
        if (::gelf_getdyn(data, static_cast<int>(i), &entry) == nullptr || entry.d_tag == DT_NULL) return {};
        const char* const name =
            entry.d_tag == DT_NEEDED ? ::elf_strptr(elf, header.sh_link, entry.d_un.d_val) : nullptr;
        if (name == nullptr) continue;
        if (is_sanitizer_runtime(name)) return name;
    }
    return {};
}

}  // namespace

std::string find_program(const std::string& command) {
    if (command.find('/') != std::string::npos) return command;
    const char* const path = ::getenv("PATH");
    std::string_view left = path != nullptr ? path : "/bin:/usr/bin";
    for (bool more = true; more;) {
        const std::size_t end = left.find(':');
        std::string file(left.substr(0, end));
        if (!file.empty()) file += '/';
        file += command;
        if (::access(file.c_str(), X_OK) == 0) return file;
        more = end != std::string_view::npos;
        if (more) left.remove_prefix(end + 1);
    }
    return {};
}

std::string sanitizer_runtime(const std::string& program) {
    const File file(program);
    if (file.fd() < 0 || ::elf_version(EV_CURRENT) == EV_NONE) return {};
    const std::unique_ptr<Elf, EndElf> elf(::elf_begin(file.fd(), ELF_C_READ, nullptr));
    if (elf == nullptr || ::elf_kind(elf.get()) != ELF_K_ELF) return {};
    for (Elf_Scn* section = nullptr; (section = ::elf_nextscn(elf.get(), section)) != nullptr;) {
        GElf_Shdr header{};
        if (::gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_DYNAMIC)
            return needed_runtime(elf.get(), section, header);
    }
    return {};
}

}  // namespace swrnic::tools
