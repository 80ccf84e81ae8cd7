// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Finds and reads the pages. Root may be reading what anybody wrote: nothing in a page is believed.
#include "stat/snapshot.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <tuple>

#include "host.h"

namespace swrnic::tools {

namespace {

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }

  private:
    int fd_;
};

bool is_number(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// What goes to a terminal, a JSON string or a label: printable ASCII without quotes and backslashes.
std::string tame(const std::string& text) {
    std::string out;
    for (const char c : text)
        out += c > ' ' && c < 0x7f && c != '"' && c != '\\' ? c : '_';
    return out;
}

std::string address_text(const StatAddress& address) {
    char text[INET6_ADDRSTRLEN] = {};
    switch (address.version) {
        case 4:
            ::inet_ntop(AF_INET, address.octets, text, sizeof text);
            return fmt::format("{}:{}", text, address.port);
        case 6:
            ::inet_ntop(AF_INET6, address.octets, text, sizeof text);
            return fmt::format("[{}]:{}", text, address.port);
        default:
            return {};
    }
}

void add_codes(Codes& to, const std::uint64_t* cells, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        if (cells[i] != 0) to[static_cast<std::uint32_t>(cells[i] >> 32 & 0xffff)] += cells[i] & 0xffffffff;
    }
}

bool read_exactly(int fd, void* to, std::size_t size, std::size_t at) {
    return ::pread(fd, to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

bool plausible(const StatHeader& header) {
    return header.magic == kStatMagic && header.version == kStatVersion && header.header_size == sizeof(StatHeader) &&
           header.slot_size == sizeof(StatSlot) && header.slot_capacity <= kStatSlots &&
           header.slots <= header.slot_capacity;
}

// A copy that was not changed while it was made; after many tries the last one must do: the sums may then be a QP off.
bool copy_page(int fd, StatHeader& header, std::vector<StatSlot>& slots) {
    for (int tries = 0; tries < 100; ++tries) {
        if (!read_exactly(fd, &header, sizeof header, 0) || !plausible(header)) return false;
        slots.resize(header.slots);
        const std::size_t size = slots.size() * sizeof(StatSlot);
        if (size != 0 && !read_exactly(fd, slots.data(), size, sizeof header)) return false;
        StatHeader after;
        if (!read_exactly(fd, &after, sizeof after, 0)) return false;
        if (header.sequence % 2 == 0 && after.sequence == header.sequence) return true;
        ::usleep(100);
    }
    return true;
}

QpStat to_qp(const StatSlot& slot) {
    QpStat qp;
    qp.qpn = slot.qpn;
    qp.generation = slot.generation;
    qp.local = address_text(slot.local);
    qp.peer = address_text(slot.peer);
    const auto cell = [&](StatCell which) { return slot.cells[static_cast<std::size_t>(which)]; };
    qp.state = cell(StatCell::kState);
    qp.rtt_us = cell(StatCell::kRttUs);
    qp.rtt_var_us = cell(StatCell::kRttVarUs);
    std::copy_n(slot.cells, kStatSums, qp.sums.begin());
    add_codes(qp.terminates.sent, slot.cells + static_cast<std::size_t>(StatCell::kTxTerminated), kStatSlotCodes);
    add_codes(qp.terminates.received, slot.cells + static_cast<std::size_t>(StatCell::kRxTerminated), kStatSlotCodes);
    return qp;
}

// The process's number in its own PID namespace: the last of the line "NSpid:".
std::uint32_t inner_pid(const std::string& process) {
    std::ifstream status(process + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("NSpid:", 0) != 0) continue;
        const std::size_t last = line.find_last_of(" \t");
        return static_cast<std::uint32_t>(::strtoul(line.c_str() + last + 1, nullptr, 10));
    }
    return 0;
}

void look_into(const std::string& pid, std::vector<OpenDevice>& found) {
    const std::string process = "/proc/" + pid;
    const std::string wanted = fmt::format("/memfd:{} (deleted)", kStatName);
    for (const std::string& name : names_in(process + "/fd")) {
        const std::string path = fmt::format("{}/fd/{}", process, name);
        char target[128] = {};
        const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
        if (length < 0 || std::string_view(target, static_cast<std::size_t>(length)) != wanted) continue;
        const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        if (fd.get() < 0) continue;
        OpenDevice device;
        std::uint32_t writer = 0;
        // A descriptor that a child has inherited shows its parent's counters.
        if (!read_page(fd.get(), writer, device) || writer != inner_pid(process)) continue;
        device.pid = static_cast<std::uint32_t>(::strtoul(pid.c_str(), nullptr, 10));
        device.descriptor = static_cast<std::uint32_t>(::strtoul(name.c_str(), nullptr, 10));
        device.command = tame(first_line(process + "/comm"));
        found.push_back(std::move(device));
    }
}

}  // namespace

bool read_page(int fd, std::uint32_t& writer_pid, OpenDevice& out) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    StatHeader header;
    std::vector<StatSlot> slots;
    if (!copy_page(fd, header, slots)) return false;
    writer_pid = header.pid;
    out.device = tame(std::string(header.device, ::strnlen(header.device, sizeof header.device)));
    out.thread_ns = header.engine.thread_ns;
    out.poller_ns = header.engine.poller_ns;
    out.empty_polls = header.engine.empty_polls;
    out.gone_qps = header.gone_qps;
    std::copy_n(header.gone, kStatSums, out.sums.begin());
    add_codes(out.terminates.sent, header.gone_tx_terminated, kStatGoneCodes);
    add_codes(out.terminates.received, header.gone_rx_terminated, kStatGoneCodes);
    for (const StatSlot& slot : slots) {
        if (slot.qpn == 0) continue;
        out.qps.push_back(to_qp(slot));
        add(out.sums, out.qps.back().sums);
        add(out.terminates, out.qps.back().terminates);
    }
    return true;
}

std::vector<OpenDevice> take_snapshot() {
    std::vector<OpenDevice> found;
    for (const std::string& name : names_in("/proc")) {
        if (is_number(name)) look_into(name, found);
    }
    std::sort(found.begin(), found.end(), [](const OpenDevice& a, const OpenDevice& b) {
        return std::tie(a.device, a.pid, a.descriptor) < std::tie(b.device, b.pid, b.descriptor);
    });
    return found;
}

std::vector<OpenDevice> read_files(const std::vector<std::string>& paths) {
    std::vector<OpenDevice> found;
    for (const std::string& path : paths) {
        const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        OpenDevice device;
        if (fd.get() >= 0 && read_page(fd.get(), device.pid, device)) found.push_back(std::move(device));
    }
    return found;
}

std::uint64_t tx_messages(const Sums& sums) {
    return get(sums, StatCell::kTxSends) + get(sums, StatCell::kTxWrites) + get(sums, StatCell::kTxReadRequests) +
           get(sums, StatCell::kTxReadResponses);
}
std::uint64_t rx_messages(const Sums& sums) {
    return get(sums, StatCell::kRxSends) + get(sums, StatCell::kRxWrites) + get(sums, StatCell::kRxReadRequests) +
           get(sums, StatCell::kRxReadResponses);
}

void add(Sums& to, const Sums& from) {
    for (std::size_t i = 0; i < kStatSums; ++i)
        to[i] += from[i];
}
void add(Terminates& to, const Terminates& from) {
    for (const auto& [code, count] : from.sent)
        to.sent[code] += count;
    for (const auto& [code, count] : from.received)
        to.received[code] += count;
}

}  // namespace swrnic::tools
