// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A made-up installation of the command, and a way to run it.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace swrnic::test {

struct Outcome {
    pid_t pid = -1;   // of the process that was started
    int code = -1;    // exit code; -signal when a signal ended it
    std::string out;  // stdout
    std::string err;  // stderr
};

using Environment = std::map<std::string, std::string>;

// Starts program (a path) with exactly this environment, feeds it input, and waits for its end.
Outcome start(const std::string& program, const std::vector<std::string>& arguments, const Environment& environment,
              const std::string& input = {});

// A directory of its own with bin/swrnic and lib/; removed at the end.
class InstallTree {
  public:
    explicit InstallTree(const std::string& suffix = {});  // suffix: of the directory's name
    ~InstallTree();
    InstallTree(const InstallTree&) = delete;
    InstallTree& operator=(const InstallTree&) = delete;

    [[nodiscard]] std::string path(const std::string& name) const { return dir_ + "/" + name; }
    // Puts the library that does nothing at lib/NAME.
    void add_library(const std::string& name) const;
    // The same under each name by which a libibverbs looks for the provider.
    void add_providers() const;
    [[nodiscard]] Outcome swrnic(const std::vector<std::string>& arguments, const Environment& environment = {},
                                 const std::string& input = {}) const;

  private:
    std::string dir_;
};

}  // namespace swrnic::test
