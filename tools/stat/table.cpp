// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For a person in a hurry: a line per process, a line per QP, and what went wrong in words.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "stat/output.h"

namespace swrnic::tools {

namespace {

using Row = std::vector<std::string>;

std::string amount(double value) {
    constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
    std::size_t unit = 0;
    while (value >= 9999.5 && unit + 1 < std::size(kUnits)) {
        value /= 1000;
        ++unit;
    }
    if (unit == 0) return fmt::format("{:.0f}", value);
    return fmt::format("{:.{}f}{}", value, value < 99.95 ? 1 : 0, kUnits[unit]);
}

struct Span {
    const Sums* before;  // null: totals
    double seconds;
};

std::string number(const Sums& now, const Span& span, std::uint64_t (*of)(const Sums&)) {
    if (span.before == nullptr) return amount(static_cast<double>(of(now)));
    return amount(static_cast<double>(of(now) - of(*span.before)) / span.seconds);
}

template <StatCell Cell>
std::uint64_t cell(const Sums& sums) {
    return get(sums, Cell);
}

std::string per_call(const Sums& now, const Span& span, StatCell bytes, StatCell calls) {
    const Sums none{};
    const Sums& before = span.before != nullptr ? *span.before : none;
    const std::uint64_t count = get(now, calls) - get(before, calls);
    if (count == 0) return "-";
    return amount(static_cast<double>(get(now, bytes) - get(before, bytes)) / static_cast<double>(count));
}

void put_sums(Row& row, const Sums& now, const Span& span) {
    row.push_back(number(now, span, cell<StatCell::kTxBytes>));
    row.push_back(number(now, span, cell<StatCell::kRxBytes>));
    row.push_back(number(now, span, tx_messages));
    row.push_back(number(now, span, rx_messages));
    row.push_back(per_call(now, span, StatCell::kTxBytes, StatCell::kTxCalls));
    row.push_back(per_call(now, span, StatCell::kRxBytes, StatCell::kRxCalls));
    row.push_back(number(now, span, cell<StatCell::kRxStalls>));
    row.push_back(number(now, span, cell<StatCell::kRetransmits>));
}

const OpenDevice* find_same(const std::vector<OpenDevice>* in, const OpenDevice& like) {
    if (in == nullptr) return nullptr;
    const auto found = std::find_if(in->begin(), in->end(), [&](const OpenDevice& d) {
        // Sums only grow: what has shrunk is another opening, or another process, of the same numbers.
        return d.pid == like.pid && d.descriptor == like.descriptor && d.device == like.device &&
               std::equal(d.sums.begin(), d.sums.end(), like.sums.begin(), std::less_equal<>());
    });
    return found != in->end() ? &*found : nullptr;
}

const Sums* find_same(const OpenDevice* in, const QpStat& like) {
    if (in == nullptr) return nullptr;
    const auto found = std::find_if(in->qps.begin(), in->qps.end(), [&](const QpStat& qp) {
        return qp.qpn == like.qpn && qp.generation == like.generation &&
               std::equal(qp.sums.begin(), qp.sums.end(), like.sums.begin(), std::less_equal<>());
    });
    return found != in->qps.end() ? &found->sums : nullptr;
}

std::string lay_out(const std::vector<Row>& rows, std::size_t left_columns) {
    std::vector<std::size_t> width;
    for (const Row& row : rows) {
        width.resize(std::max(width.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i)
            width[i] = std::max(width[i], row[i].size());
    }
    std::string text;
    for (const Row& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += i < left_columns ? fmt::format("{:<{}}  ", row[i], width[i])
                                     : fmt::format("{:>{}}  ", row[i], width[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string troubles(const OpenDevice& device) {
    std::string text;
    const std::string who = fmt::format("{} {} {}", device.device, device.pid, device.command);
    const auto tell = [&](const Codes& codes, const char* verb) {
        for (const auto& [code, count] : codes)
            text += fmt::format("{}: {} Terminate {} {} ({})\n", who, count, verb, code_name(code), code_meaning(code));
    };
    tell(device.terminates.sent, "sent:");
    tell(device.terminates.received, "received:");
    if (const std::uint64_t errors = get(device.sums, StatCell::kRxCrcErrors); errors != 0)
        text += fmt::format("{}: {} CRC errors\n", who, errors);
    if (const std::uint64_t stalls = get(device.sums, StatCell::kRxStalls); stalls != 0)
        text += fmt::format("{}: {} times a Send waited for a receive to be posted, {:.3f} s in all\n", who, stalls,
                            static_cast<double>(get(device.sums, StatCell::kRxStallNs)) * 1e-9);
    return text;
}

// Several processes, or openings, of one device get a line for all of them.
void put_device(std::vector<Row>& rows, const std::vector<OpenDevice>& now, const std::vector<OpenDevice>* before,
                double seconds, std::size_t begin, std::size_t end) {
    if (end - begin < 2) return;
    Sums sums{}, earlier{};
    for (std::size_t i = begin; i < end; ++i) {
        add(sums, now[i].sums);
        if (const OpenDevice* same = find_same(before, now[i])) add(earlier, same->sums);
    }
    Row row{now[begin].device, fmt::format("(all {})", end - begin), "", "", ""};
    put_sums(row, sums, {before != nullptr ? &earlier : nullptr, seconds});
    rows.push_back(row);
}

void put_process(std::vector<Row>& rows, const OpenDevice& device, const OpenDevice* same, bool rates, double seconds) {
    static const Sums kNone{};
    const auto span = [&](const Sums* earlier) {
        return Span{rates ? (earlier != nullptr ? earlier : &kNone) : nullptr, seconds};
    };
    const std::string gone = device.gone_qps != 0 ? fmt::format(", {} gone", device.gone_qps) : "";
    Row row{device.device, fmt::format("{} {}", device.pid, device.command),
            fmt::format("{} QPs{}", device.qps.size(), gone), "", ""};
    put_sums(row, device.sums, span(same != nullptr ? &same->sums : nullptr));
    row.push_back("");
    row.push_back(fmt::format("{:.2f}", static_cast<double>(device.thread_ns) * 1e-9));
    row.push_back(fmt::format("{:.2f}", static_cast<double>(device.poller_ns) * 1e-9));
    rows.push_back(row);
    for (const QpStat& qp : device.qps) {
        Row line{"", "", fmt::format("{:#08x}", qp.qpn), state_name(qp.state), qp.peer};
        put_sums(line, qp.sums, span(find_same(same, qp)));
        line.push_back(qp.rtt_us != 0 ? fmt::format("{}", qp.rtt_us) : "-");
        rows.push_back(line);
    }
}

}  // namespace

std::string as_table(const std::vector<OpenDevice>& all, const std::vector<OpenDevice>* before, double seconds) {
    std::vector<OpenDevice> now;
    // Programs open the device more than once, and use it once.
    std::copy_if(all.begin(), all.end(), std::back_inserter(now),
                 [](const OpenDevice& device) { return !device.qps.empty() || device.gone_qps != 0; });
    if (now.empty()) return "no process that you may look at has a QP of a swrnic device\n";
    const bool rates = before != nullptr;
    const std::string per = rates ? "/s" : "";
    std::vector<Row> rows{{"DEVICE", "PROCESS", "QP", "STATE", "PEER", "TX-BYTES" + per, "RX-BYTES" + per,
                           "TX-MSGS" + per, "RX-MSGS" + per, "TX-B/CALL", "RX-B/CALL", "STALLS" + per, "RETRANS" + per,
                           "RTT-US", "THREAD-S", "POLLERS-S"}};
    for (std::size_t begin = 0, end; begin < now.size(); begin = end) {
        end = begin + 1;
        while (end < now.size() && now[end].device == now[begin].device)
            ++end;
        put_device(rows, now, before, seconds, begin, end);
        for (std::size_t i = begin; i < end; ++i)
            put_process(rows, now[i], find_same(before, now[i]), rates, seconds);
    }
    std::string text = lay_out(rows, 5);
    for (const OpenDevice& device : now)
        text += troubles(device);
    return text;
}

}  // namespace swrnic::tools
