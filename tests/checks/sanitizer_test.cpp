// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which sanitizer a program has, of programs as linkers write them, and of files that only look like it.
#include "sanitizer.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace swrnic::tools {
namespace {

class SanitizerTest : public testing::Test {
  protected:
    SanitizerTest() : dir_(::mkdtemp(std::string("/tmp/swrnic-elf-XXXXXX").data())) {}
    ~SanitizerTest() override { std::filesystem::remove_all(dir_); }

    std::string file(std::string_view octets, const char* name = "program") const {
        const std::string path = dir_ + "/" + name;
        std::ofstream(path, std::ios::binary) << octets;
        ::chmod(path.c_str(), 0755);
        return path;
    }

    const std::string dir_;
};

// The smallest that names what it needs: a header, the sections null, .dynamic and its strings.
struct Program {
    explicit Program(std::string_view needed) {
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_ident[EI_DATA] = ELFDATA2LSB;
        header.e_ident[EI_VERSION] = header.e_version = EV_CURRENT;
        header.e_type = ET_DYN;
        header.e_machine = EM_X86_64;
        header.e_ehsize = sizeof header;
        header.e_shoff = offsetof(Program, sections);
        header.e_shentsize = sizeof(Elf64_Shdr);
        header.e_shnum = 3;
        sections[1].sh_type = SHT_DYNAMIC;
        sections[1].sh_offset = offsetof(Program, dynamic);
        sections[1].sh_size = sizeof dynamic;
        sections[1].sh_entsize = sizeof(Elf64_Dyn);
        sections[1].sh_link = 2;
        sections[2].sh_type = SHT_STRTAB;
        sections[2].sh_offset = offsetof(Program, strings);
        sections[2].sh_size = sizeof strings;
        dynamic[0].d_tag = DT_NEEDED;
        dynamic[0].d_un.d_val = 1;
        dynamic[1].d_tag = DT_NEEDED;
        dynamic[1].d_un.d_val = 11;
        std::memcpy(strings + 1, "libc.so.6", 9);
        std::memcpy(strings + 11, needed.data(), std::min(needed.size(), sizeof strings - 12));
    }
    std::string octets() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }

    Elf64_Ehdr header{};
    Elf64_Shdr sections[3]{};
    Elf64_Dyn dynamic[3]{};
    char strings[64]{};
};

TEST_F(SanitizerTest, IsFoundByWhatAProgramNeeds) {
    for (const char* runtime : {"libasan.so.8", "libtsan.so.2", "libclang_rt.asan-x86_64.so"})
        EXPECT_EQ(sanitizer_runtime(file(Program(runtime).octets())), runtime);
    for (const char* other : {"libasantaclara.so", "libasan.so.8/x", "asan", ""})
        EXPECT_EQ(sanitizer_runtime(file(Program(other).octets())), "");
}

TEST_F(SanitizerTest, OtherFilesHaveNone) {
    EXPECT_EQ(sanitizer_runtime(file("#!/bin/sh\necho libasan.so.8\n")), "");
    EXPECT_EQ(sanitizer_runtime(file("")), "");
    EXPECT_EQ(sanitizer_runtime(dir_), "");
    EXPECT_EQ(sanitizer_runtime(dir_ + "/missing"), "");
    EXPECT_EQ(sanitizer_runtime(""), "");
    const std::string fifo = dir_ + "/fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    EXPECT_EQ(sanitizer_runtime(fifo), "");
}

TEST_F(SanitizerTest, NothingInAFileIsBelieved) {
    const std::string whole = Program("libasan.so.8").octets();
    for (std::size_t length = 0; length < whole.size(); ++length)
        sanitizer_runtime(file(whole.substr(0, length)));
    for (std::size_t at = 0; at < offsetof(Program, strings); ++at) {
        for (const char octet : {'\x00', '\x01', '\x7f', '\x80', '\xff'}) {
            std::string changed = whole;
            changed[at] = octet;
            const std::string found = sanitizer_runtime(file(changed));
            EXPECT_TRUE(found.empty() || found == "libasan.so.8") << found;
        }
    }
}

TEST_F(SanitizerTest, ProgramsAreFoundAsExecvpFindsThem) {
    const std::string program = file("", "some-program");
    const std::string path = ::getenv("PATH");
    ::setenv("PATH", ("/nonexistent:" + dir_ + ":/bin").c_str(), 1);
    EXPECT_EQ(find_program("some-program"), program);
    EXPECT_EQ(find_program("sh"), "/bin/sh");
    EXPECT_EQ(find_program("no-such-program-anywhere"), "");
    EXPECT_EQ(find_program("./some-program"), "./some-program");
    ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace swrnic::tools
