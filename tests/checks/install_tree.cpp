// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "install_tree.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace swrnic::test {

namespace fs = std::filesystem;

namespace {

std::string temporary_directory(const std::string& suffix) {
    std::string pattern = "/tmp/swrnic-tools-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"mkdtemp"};
    if (suffix.empty()) return pattern;
    fs::rename(pattern, pattern + suffix);
    return pattern + suffix;
}

std::string contents(const fs::path& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> result;
    for (std::string& word : words)
        result.push_back(word.data());
    result.push_back(nullptr);
    return result;
}

int redirect(const fs::path& path, int flags, int to) {
    const int fd = ::open(path.c_str(), flags, 0600);
    return fd < 0 ? -1 : ::dup2(fd, to);
}

}  // namespace

Outcome start(const std::string& program, const std::vector<std::string>& arguments, const Environment& environment,
              const std::string& input) {
    const fs::path dir = temporary_directory({});
    std::ofstream{dir / "in"} << input;
    std::vector<std::string> words{program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> settings;
    for (const auto& [name, value] : environment)
        settings.push_back(name + "=" + value);
    const std::vector<char*> argv = pointers(words);
    const std::vector<char*> envp = pointers(settings);

    Outcome outcome;
    outcome.pid = ::fork();
    if (outcome.pid == 0) {
        if (redirect(dir / "in", O_RDONLY, 0) < 0 || redirect(dir / "out", O_WRONLY | O_CREAT, 1) < 0 ||
            redirect(dir / "err", O_WRONLY | O_CREAT, 2) < 0)
            ::_exit(125);
        ::execve(program.c_str(), argv.data(), envp.data());
        ::_exit(124);
    }
    int status = 0;
    ::waitpid(outcome.pid, &status, 0);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    outcome.out = contents(dir / "out");
    outcome.err = contents(dir / "err");
    fs::remove_all(dir);
    return outcome;
}

InstallTree::InstallTree(const std::string& suffix) : dir_{temporary_directory(suffix)} {
    fs::create_directory(dir_ + "/bin");
    fs::create_directory(dir_ + "/lib");
    fs::copy_file(SWRNIC_COMMAND, dir_ + "/bin/swrnic");
}

InstallTree::~InstallTree() {
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
}

void InstallTree::add_providers() const {
    for (const char* pabi : {"34", "57", "59", "64", "65"})
        add_library(std::string{"libswrnic-rdmav"} + pabi + ".so");
}

void InstallTree::add_library(const std::string& name) const {
    fs::copy_file(SWRNIC_STUB, dir_ + "/lib/" + name);
}

Outcome InstallTree::swrnic(const std::vector<std::string>& arguments, const Environment& environment,
                            const std::string& input) const {
    Environment whole{{"PATH", "/usr/bin:/bin"}, {"ASAN_OPTIONS", "detect_leaks=0"}};
    for (const auto& [name, value] : environment)
        whole[name] = value;
    return start(path("bin/swrnic"), arguments, whole, input);
}

}  // namespace swrnic::test
