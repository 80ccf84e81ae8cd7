// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// JSON and Prometheus' text format. Every string in a snapshot is tame: no quotes, backslashes or control characters.
#include <fmt/format.h>

#include <iterator>

#include "stat/output.h"

namespace swrnic::tools {

namespace {

template <typename... Args>
void put(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

void put_codes(std::string& text, const char* name, const Codes& codes) {
    put(text, "\"{}\":{{", name);
    const char* comma = "";
    for (const auto& [code, count] : codes) {
        put(text, "{}\"{}\":{}", comma, code_name(code), count);
        comma = ",";
    }
    text += '}';
}

void put_counters(std::string& text, const Sums& sums, const Terminates& terminates) {
    text += "\"counters\":{";
    for (std::size_t i = 0; i < kStatSums; ++i)
        put(text, "{}\"{}\":{}", i != 0 ? "," : "", kSumNames[i], sums[i]);
    text += "},";
    put_codes(text, "terminates_sent", terminates.sent);
    text += ',';
    put_codes(text, "terminates_received", terminates.received);
}

void put_qp(std::string& text, const QpStat& qp) {
    put(text, "{{\"qpn\":{},\"state\":\"{}\",\"local\":\"{}\",\"peer\":\"{}\",\"rtt_us\":{},\"rtt_var_us\":{},", qp.qpn,
        state_name(qp.state), qp.local, qp.peer, qp.rtt_us, qp.rtt_var_us);
    put_counters(text, qp.sums, qp.terminates);
    text += '}';
}

void put_process(std::string& text, const OpenDevice& device) {
    put(text,
        "{{\"pid\":{},\"command\":\"{}\",\"descriptor\":{},\"thread_ns\":{},\"poller_ns\":{},\"empty_polls\":{},"
        "\"qps_gone\":{},",
        device.pid, device.command, device.descriptor, device.thread_ns, device.poller_ns, device.empty_polls,
        device.gone_qps);
    put_counters(text, device.sums, device.terminates);
    text += ",\"qps\":[";
    for (std::size_t i = 0; i < device.qps.size(); ++i) {
        if (i != 0) text += ',';
        put_qp(text, device.qps[i]);
    }
    text += "]}";
}

void put_device(std::string& text, const std::vector<OpenDevice>& now, std::size_t begin, std::size_t end) {
    Sums sums{};
    Terminates terminates;
    for (std::size_t i = begin; i < end; ++i) {
        add(sums, now[i].sums);
        add(terminates, now[i].terminates);
    }
    put(text, "{{\"device\":\"{}\",", now[begin].device);
    put_counters(text, sums, terminates);
    text += ",\"processes\":[";
    for (std::size_t i = begin; i < end; ++i) {
        if (i != begin) text += ',';
        put_process(text, now[i]);
    }
    text += "]}";
}

std::string labels_of(const OpenDevice& device) {
    return fmt::format("device=\"{}\",pid=\"{}\",command=\"{}\",descriptor=\"{}\"", device.device, device.pid,
                       device.command, device.descriptor);
}

std::string labels_of(const OpenDevice& device, const QpStat& qp) {
    return fmt::format("{},qpn=\"{}\",peer=\"{}\"", labels_of(device), qp.qpn, qp.peer);
}

void put_family(std::string& text, const std::string& name, const char* type, const char* help) {
    put(text, "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

std::string as_json(const std::vector<OpenDevice>& now) {
    std::string text = "{\"devices\":[";
    for (std::size_t begin = 0, end; begin < now.size(); begin = end) {
        end = begin + 1;
        while (end < now.size() && now[end].device == now[begin].device)
            ++end;
        if (begin != 0) text += ',';
        put_device(text, now, begin, end);
    }
    return text + "]}\n";
}

std::string as_prometheus(const std::vector<OpenDevice>& now) {
    std::string text;
    for (std::size_t i = 0; i < kStatSums; ++i) {
        const std::string name = fmt::format("swrnic_{}_total", kSumNames[i]);
        put_family(text, name, "counter", "Over all QPs of an open device, see swrnic-stat(1).");
        for (const OpenDevice& device : now)
            put(text, "{}{{{}}} {}\n", name, labels_of(device), device.sums[i]);
        const std::string of_qp = fmt::format("swrnic_qp_{}_total", kSumNames[i]);
        put_family(text, of_qp, "counter", "Of one QP.");
        for (const OpenDevice& device : now) {
            for (const QpStat& qp : device.qps)
                put(text, "{}{{{}}} {}\n", of_qp, labels_of(device, qp), qp.sums[i]);
        }
    }
    put_family(text, "swrnic_terminates_by_code_total", "counter", "Terminates by layer/type/code.");
    for (const OpenDevice& device : now) {
        for (const auto* way : {"sent", "received"}) {
            for (const auto& [code, count] : *way == 's' ? device.terminates.sent : device.terminates.received)
                put(text, "swrnic_terminates_by_code_total{{{},way=\"{}\",code=\"{}\"}} {}\n", labels_of(device), way,
                    code_name(code), count);
        }
    }
    put_family(text, "swrnic_qps", "gauge", "QPs that exist.");
    for (const OpenDevice& device : now)
        put(text, "swrnic_qps{{{}}} {}\n", labels_of(device), device.qps.size());
    put_family(text, "swrnic_thread_seconds_total", "counter", "CPU time of the background thread.");
    for (const OpenDevice& device : now)
        put(text, "swrnic_thread_seconds_total{{{}}} {:.6f}\n", labels_of(device),
            static_cast<double>(device.thread_ns) * 1e-9);
    put_family(text, "swrnic_poller_seconds_total", "counter", "Spent driving in empty polls (estimate).");
    for (const OpenDevice& device : now)
        put(text, "swrnic_poller_seconds_total{{{}}} {:.6f}\n", labels_of(device),
            static_cast<double>(device.poller_ns) * 1e-9);
    put_family(text, "swrnic_qp_rtt_seconds", "gauge", "Smoothed round trip time of TCP.");
    for (const OpenDevice& device : now) {
        for (const QpStat& qp : device.qps)
            put(text, "swrnic_qp_rtt_seconds{{{}}} {:.6f}\n", labels_of(device, qp),
                static_cast<double>(qp.rtt_us) * 1e-6);
    }
    return text;
}

}  // namespace swrnic::tools
