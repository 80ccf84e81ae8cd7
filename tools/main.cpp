// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "doctor/doctor.h"
#include "doctor/probe.h"
#include "link/link.h"
#include "run.h"
#include "stat/stat.h"

namespace {

constexpr const char* kRunText =
    R"(Usage: swrnic run [--only] [--persona iwarp|roce] [--trace FILE] [--] COMMAND [ARGUMENT...]

Runs COMMAND with the RDMA device swr0 present: no root, no kernel module, no locked memory.
The exit code is the command's; 2 when swrnic refuses (wrong settings), 127 when the command is not found, 126 when it cannot be run.

  --only        insists on swr0 where the kernel has RDMA devices of its own, which the command then does not see
  --persona WHAT  what programs take the device for: iwarp, an RNIC, which it is; or roce, an adapter such as more programs accept
  --trace FILE  writes what the command's QPs send and receive to FILE, as pcapng for Wireshark and tshark

Settings, by environment or in /etc/swrnic.conf (NAME=value lines; the environment wins):
  SWRNIC_PERSONA=iwarp|roce     as --persona; default: iwarp
  SWRNIC_DEVICES=1              devices that programs see, swr0 and on, 1 to 16
  SWRNIC_CRC=auto|on|off        CRC32c on the wire; auto: on unless both ends are the same host; a peer that asks gets it
  SWRNIC_FPDU=auto|emss|64k     size of a frame; auto: the TCP segment's, up to 64 KiB on one host
  SWRNIC_COMPLETION=auto|placed|sent  when Sends and Writes are complete; auto: when the peer has placed them, but with
                                rdma_cm in the persona iwarp when they are sent
  SWRNIC_MPA_REV=1|2            revision of the startup frames (2: RFC 6581)
  SWRNIC_TIMEOUT=10             seconds until a peer that vanished is given up, 0.1 to 86400
  SWRNIC_RNR_TIMEOUT=1          seconds that an empty receive queue may stay empty, 0 to 3600
  SWRNIC_PORTS=20000-20100      ports at which peers without rdma_cm find QPs, from 1024; default: the kernel's choice
  SWRNIC_LOG=warn               off|error|warn|info|debug
  SWRNIC_TRACE=/FILE            as --trace, but what is in FILE is kept
  SWRNIC_ONLY=on|off            on: as --only

Example:
  swrnic run ib_write_bw -R &  sleep 1;  swrnic run ib_write_bw -R 127.0.0.1)";

constexpr const char* kDoctorText =
    R"(Says what this host offers to RDMA programs and what to do about each thing that is missing.
Exit code 0: `swrnic run` will work here. 1: it will not, and the lines marked FAIL say why.)";

constexpr const char* kStatText =
    R"(Reads the counters that every process with an open device keeps: yours, or as root everybody's.
Amounts are totals; with --watch the table shows them per second, after a first look with totals.)";

int usage_error(const std::string& what) {
    fmt::print(stderr, "swrnic: {}; see swrnic --help\n", what);
    return swrnic::tools::kExitRefused;
}

// The value of `--NAME VALUE` or `--NAME=VALUE`, whose last word `word` is then; empty if it is missing. None: the word
// is another.
std::optional<std::string> value_of(const std::string& name, std::vector<std::string>::iterator& word,
                                    std::vector<std::string>::iterator end) {
    if (*word == name) return std::next(word) != end ? *++word : std::string();
    if (word->rfind(name + "=", 0) == 0) return word->substr(name.size() + 1);
    return std::nullopt;
}

int run_command(std::vector<std::string> command) {
    // Everything from the first word on belongs to the command; only what stands before it can be meant for us.
    swrnic::tools::RunOptions options;
    auto word = command.begin();
    for (; word != command.end(); ++word) {
        if (*word == "--only") {
            options.only = true;
        } else if (const auto file = value_of("--trace", word, command.end())) {
            if (file->empty()) return usage_error("run: --trace takes a file");
            options.trace = *file;
        } else if (const auto persona = value_of("--persona", word, command.end())) {
            if (persona->empty()) return usage_error("run: --persona takes iwarp or roce");
            options.persona = *persona;
        } else {
            break;
        }
    }
    command.erase(command.begin(), word);
    const bool marked = !command.empty() && command.front() == "--";
    if (marked) command.erase(command.begin());
    if (command.empty()) return usage_error("run: no command given");
    if (!marked && command.front().rfind('-', 0) == 0)
        return usage_error(fmt::format("run: unknown option {}", command.front()));
    return swrnic::tools::run(command, options);
}

int dispatch(int argc, char** argv) {
    CLI::App app{"swrnic: a software RNIC, standard iWARP over the host's TCP"};
    app.name("swrnic");
    app.set_version_flag("--version", "swrnic " SWRNIC_VERSION);
    app.require_subcommand(1);

    CLI::App* run = app.add_subcommand("run", "runs a command with the RDMA device swr0 present");
    CLI::App* doctor = app.add_subcommand("doctor", "says what this host offers, and what is missing");
    doctor->footer(kDoctorText);
    swrnic::tools::StatOptions stat_options;
    CLI::App* stat = app.add_subcommand("stat", "shows what the open devices have counted");
    stat->footer(kStatText);
    CLI::Option* json = stat->add_flag("--json", stat_options.json, "as JSON, one object a line");
    stat->add_flag("--prometheus", stat_options.prometheus, "as Prometheus' text format")->excludes(json);
    stat->add_flag("-w,--watch", stat_options.watch, "again and again");
    stat->add_option("-i,--interval", stat_options.interval, "seconds between two looks (default 1)")
        ->check(CLI::Range(0.05, 86400.0));
    stat->add_option("-c,--count", stat_options.count, "so many looks, with --watch");
    stat->add_option("--page", stat_options.pages, "a page to read")->group("");
    // What doctor runs under `run` to see the device with a program's eyes.
    CLI::App* probe = app.add_subcommand("probe")->group("");

    // Its words are those of rdma(8), which are no options.
    app.add_subcommand("link", "makes, removes and lists devices of the kernel module");
    if (argc > 1 && std::string_view{argv[1]} == "link") return swrnic::tools::link({argv + 2, argv + argc});

    // `run` is cut off by hand: no option parser may look at, or reorder, the words of another program.
    if (argc > 1 && std::string_view{argv[1]} == "run") {
        const std::vector<std::string> words{argv + 2, argv + argc};
        if (!words.empty() && (words.front() == "--help" || words.front() == "-h")) {
            fmt::print("{}\n", kRunText);
            return 0;
        }
        return run_command(words);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error);
        return code == 0 ? 0 : swrnic::tools::kExitRefused;
    }
    if (doctor->parsed()) return swrnic::tools::doctor();
    if (stat->parsed()) return swrnic::tools::stat(stat_options);
    if (probe->parsed()) return swrnic::tools::probe();
    return run->parsed() ? run_command({}) : usage_error("no command given");
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return dispatch(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "swrnic: unexpected: {}\n", error.what());
        return swrnic::tools::kExitRefused;
    }
}
