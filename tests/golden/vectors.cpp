// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "golden/vectors.h"

#include <fstream>
#include <ostream>
#include <stdexcept>

namespace swrnic::golden {

namespace {

unsigned digit(char c) {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
    throw std::runtime_error("not a hex digit");
}

const nlohmann::json& document() {
    static const nlohmann::json kDocument = [] {
        std::ifstream in(golden_dir() / "vectors.json");
        if (!in) throw std::runtime_error("no vectors.json in " + golden_dir().string());
        return nlohmann::json::parse(in);
    }();
    return kDocument;
}

nlohmann::json resolved(const nlohmann::json& context) {
    if (!context.contains("base")) return context;
    nlohmann::json merged = document().at("contexts").at(context.at("base").get<std::string>());
    if (context.contains("override")) merged.update(context.at("override"));
    return merged;
}

Vector load(const nlohmann::json& row) {
    Vector vector;
    vector.id = row.at("id");
    vector.kind = row.at("kind");
    vector.description = row.at("description");
    vector.requirements = row.at("req").get<std::vector<std::string>>();
    if (row.contains("hex")) vector.bytes = from_hex(row.at("hex").get<std::string>());
    if (row.contains("hex_list"))
        for (const auto& hex : row.at("hex_list"))
            vector.segments.push_back(from_hex(hex.get<std::string>()));
    vector.context = resolved(row.value("context", nlohmann::json::object()));
    vector.expect = row.at("expect");
    return vector;
}

}  // namespace

Bytes from_hex(std::string_view hex) {
    Bytes octets;
    for (std::size_t i = 0; i < hex.size();) {
        if (hex[i] == ' ' || hex[i] == '\n') {
            ++i;
            continue;
        }
        if (i + 1 == hex.size()) throw std::runtime_error("odd number of hex digits");
        octets.push_back(std::byte(digit(hex[i]) << 4 | digit(hex[i + 1])));
        i += 2;
    }
    return octets;
}

std::string to_hex(std::span<const std::byte> octets) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    hex.reserve(octets.size() * 2);
    for (const std::byte octet : octets) {
        hex += kDigits[std::to_integer<unsigned>(octet) >> 4];
        hex += kDigits[std::to_integer<unsigned>(octet) & 15];
    }
    return hex;
}

std::filesystem::path golden_dir() {
    return SWRNIC_GOLDEN_DIR;
}

std::vector<Vector> vectors(std::string_view kind) {
    std::vector<Vector> found;
    for (const auto& row : document().at("vectors"))
        if (row.at("kind") == kind) found.push_back(load(row));
    if (found.empty()) throw std::runtime_error("no vectors of kind " + std::string(kind));
    return found;
}

std::string test_name(std::string_view id) {
    std::string name(id);
    for (char& c : name)
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))) c = '_';
    return name;
}

std::ostream& operator<<(std::ostream& out, const Vector& vector) {
    return out << vector.id << ": " << vector.description;
}

}  // namespace swrnic::golden
