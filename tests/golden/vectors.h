// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The conformance vectors, and hex for tests. Everything throws std::runtime_error on malformed data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swrnic::golden {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view hex);  // pairs of digits; blanks between pairs are skipped
std::string to_hex(std::span<const std::byte> octets);

struct Vector {
    std::string id, kind, description;
    std::vector<std::string> requirements;
    Bytes bytes;                  // "hex"
    std::vector<Bytes> segments;  // "hex_list"
    nlohmann::json context;       // "base" already merged with "override"
    nlohmann::json expect;
};

std::filesystem::path golden_dir();

// All vectors of a kind ("crc", "mulpdu", "mpa_request", "mpa_reply", "negotiate", "fpdu_stream", "ddp_segment",
// "ddp_sequence", "terminate", "atomic_calc"), in file order; never empty.
std::vector<Vector> vectors(std::string_view kind);

// "FPDU-001" -> "FPDU_001"; any name -> one that GoogleTest takes.
std::string test_name(std::string_view id);

// For INSTANTIATE_TEST_SUITE_P(..., ValuesIn(vectors(kind)), VectorName{}).
struct VectorName {
    template <typename Info>
    std::string operator()(const Info& info) const {
        return test_name(info.param.id);
    }
};

std::ostream& operator<<(std::ostream& out, const Vector& vector);  // what GoogleTest prints: id and description

}  // namespace swrnic::golden
