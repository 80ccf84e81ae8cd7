// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What tests that take their inputs from a JSON table have in common: how a row is put on the wire, and its numbers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace swrnic::engine::test {

struct Mode {
    const char* name;
    bool crc, markers;
    std::size_t most;  // octets of one receive
};

// A string is a number as C writes it: 0x1000.
inline std::uint64_t number(const nlohmann::json& value) {
    return value.is_string() ? std::stoull(value.get<std::string>(), nullptr, 0) : value.get<std::uint64_t>();
}

}  // namespace swrnic::engine::test
