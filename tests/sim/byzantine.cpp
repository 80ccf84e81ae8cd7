// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/byzantine.h"

#include "wire/rdmap.h"
#include "wire/terminate.h"

namespace swrnic::engine::sim {

namespace {

struct Field {
    std::size_t at, size;
    std::size_t number;  // in kLiedAbout
};
constexpr Field kControls[] = {{0, 1, 2}, {1, 1, 3}};
constexpr Field kTagged[] = {{2, 4, 4}, {6, 8, 5}};
constexpr Field kUntagged[] = {{2, 4, 6}, {6, 4, 7}, {10, 4, 8}, {14, 4, 9}};
constexpr Field kReadRequest[] = {{18, 4, 10}, {22, 8, 11}, {30, 4, 12}, {34, 4, 13}, {38, 8, 14}};
constexpr Field kAtomicRequest[] = {{18, 4, 15}, {22, 4, 16}, {26, 4, 17}, {30, 8, 18}};
constexpr Field kAtomicResponse[] = {{18, 4, 16}};
constexpr Field kImmediate[] = {{22, 4, 19}};
constexpr Field kTerminate[] = {{18, 4, 20}, {22, 2, 21}, {24, 8, 22}};

}  // namespace

void ByzantineWire::sent(std::span<const std::byte> octets) {
    while (!octets.empty() && deframer_->feed(octets) == wire::FpduStream::Event::kUlpdu) {
        Bytes ulpdu(deframer_->ulpdu().begin(), deframer_->ulpdu().end());
        if (!rng_.chance(about_ == lies_.size() ? percent_ : std::max(percent_, 30u))) {
            push(ulpdu);
            continue;
        }
        lied = true;
        if (about_ != lies_.size()) {
            lie_in_one_field(ulpdu);
            continue;
        }
        switch (rng_.below(8)) {
            case 0:
                push(ulpdu);
                push(ulpdu);
                break;
            case 1:
                break;
            case 2:
                push(ulpdu);
                push(invented());
                break;
            case 3:
                push(invented());
                push(ulpdu);
                break;
            default:
                lie(ulpdu);
                push(ulpdu);
                break;
        }
    }
}

// Honest until there is an occasion.
void ByzantineWire::lie_in_one_field(Bytes& ulpdu) {
    if (about_ >= kTerminate[0].number) {
        if (rng_.chance(70)) return push(ulpdu);
        ulpdu = terminate();
    }
    if (about_ >= kControls[0].number) lie_about_a_field(ulpdu);
    push(ulpdu);
}

// As the other end's engine would send it, about something that it was sent.
Bytes ByzantineWire::terminate() {
    const Bytes about = invented();
    std::array<std::byte, wire::kMaxTerminateUlpdu> ulpdu;
    const wire::TerminateCode code{static_cast<std::uint8_t>(rng_.below(3)), static_cast<std::uint8_t>(rng_.below(3)),
                                   static_cast<std::uint8_t>(rng_.below(10))};
    const std::size_t length = wire::build_terminate(code, about, about.size(), ulpdu);
    return Bytes(ulpdu.begin(), ulpdu.begin() + static_cast<std::ptrdiff_t>(length));
}

void ByzantineWire::push(std::span<const std::byte> ulpdu) {
    const std::size_t pad = wire::pad_len(ulpdu.size());
    Bytes logical(wire::kFpduHeaderLen + ulpdu.size() + pad);
    std::size_t length = ulpdu.size();
    if (about_ == 0 ? rng_.chance(percent_)
                    : about_ == lies_.size() && rng_.below(400) == 0) {  // now and then one that is not true
        length = rng_.below(65536);
        ++lies_[0];
    }
    wire::store_be16(logical.data(), static_cast<std::uint16_t>(length));
    std::copy(ulpdu.begin(), ulpdu.end(), logical.begin() + wire::kFpduHeaderLen);
    if (pad != 0 && (about_ == 1 || about_ == lies_.size()) && rng_.chance(10)) {
        logical.back() = std::byte(rng_.below(256));
        ++lies_[1];
    }
    const std::uint64_t position = link_.total;
    Bytes raw(markers_ ? wire::fpdu_size_with_markers(position, ulpdu.size()) : wire::fpdu_size(ulpdu.size()));
    if (markers_) {
        wire::insert_markers(position, logical, raw);
    } else {
        std::copy(logical.begin(), logical.end(), raw.begin());
    }
    wire::seal_fpdu(raw, crc_);
    link_.push(raw);
}

// One whole field: a value next to the true one, an extreme one, another region's, or any.
bool ByzantineWire::lie_about_a_field(Bytes& ulpdu) {
    std::vector<Field> fields(std::begin(kControls), std::end(kControls));
    const auto add = [&](const auto& more) { fields.insert(fields.end(), std::begin(more), std::end(more)); };
    if (wire::is_tagged(std::to_integer<std::uint8_t>(ulpdu[0]))) {
        add(kTagged);
    } else {
        add(kUntagged);
        const auto opcode = wire::opcode_of(std::to_integer<std::uint8_t>(ulpdu[1]));
        if (opcode == wire::Opcode::kReadRequest) add(kReadRequest);
        if (opcode == wire::Opcode::kAtomicRequest) add(kAtomicRequest);
        if (opcode == wire::Opcode::kAtomicResponse) add(kAtomicResponse);
        if (opcode == wire::Opcode::kImmediate || opcode == wire::Opcode::kImmediateSolicited) add(kImmediate);
        if (opcode == wire::Opcode::kTerminate) add(kTerminate);
    }
    if (about_ != lies_.size()) std::erase_if(fields, [&](const Field& field) { return field.number != about_; });
    if (fields.empty()) return false;
    const Field field = fields[rng_.below(fields.size())];
    if (field.at + field.size > ulpdu.size()) return false;
    ++lies_[field.number];
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < field.size; ++i)
        value = value << 8 | std::to_integer<std::uint64_t>(ulpdu[field.at + i]);
    const Target& region = target();
    value =
        rng_.pick<std::uint64_t>({value + 1, value - 1, value ^ 1ull << rng_.below(8 * field.size), 0,
                                  ~std::uint64_t{0}, rng_.next(), field.size == 8 ? near(region, 16) : region.stag});
    for (std::size_t i = field.size; i-- != 0; value >>= 8)
        ulpdu[field.at + i] = std::byte(value & 0xff);
    return true;
}

// Where a check may be wrong by one: at the ends of a region, of the address space, or anywhere.
std::uint64_t ByzantineWire::near(const Target& region, std::size_t payload) {
    switch (rng_.below(4)) {
        case 0:
            return region.to + region.length - payload + rng_.below(5) - 2;
        case 1:
            return region.to + rng_.below(5) - 2;
        case 2:
            return ~std::uint64_t{0} - payload + rng_.below(5) - 2;
        default:
            return rng_.next();
    }
}

Bytes ByzantineWire::invented() {
    const auto opcode = rng_.chance(40) ? wire::Opcode::kWrite : wire::Opcode(rng_.below(16));
    const Target& region = target();
    const std::uint32_t stag = rng_.chance(80) ? region.stag : static_cast<std::uint32_t>(rng_.next());
    const std::uint32_t payload =
        static_cast<std::uint32_t>(rng_.pick<std::uint64_t>({0, 0, 1, 8, 12, 28, 52, 64, 3000}));
    Bytes ulpdu;
    if (wire::traits_of(wire::rdmap_control(opcode)).tagged) {
        ulpdu.resize(wire::kTaggedHeaderLen + payload);
        wire::TaggedHeader{rng_.chance(50), wire::rdmap_control(opcode), stag, near(region, payload)}.emit(
            ulpdu.data());
    } else {
        ulpdu.resize(wire::kUntaggedHeaderLen + payload);
        wire::UntaggedHeader{rng_.chance(80),
                             wire::rdmap_control(opcode),
                             stag,
                             wire::traits_of(wire::rdmap_control(opcode)).qn,
                             static_cast<std::uint32_t>(rng_.between(1, 20)),
                             rng_.chance(80) ? 0 : static_cast<std::uint32_t>(rng_.below(300))}
            .emit(ulpdu.data());
        if (opcode == wire::Opcode::kReadRequest && payload >= wire::kReadRequestLen) {
            wire::ReadRequest{stag, rng_.next(), payload, stag, near(region, payload)}.emit(ulpdu.data() +
                                                                                            wire::kUntaggedHeaderLen);
        }
        if (opcode == wire::Opcode::kAtomicRequest && payload >= wire::kAtomicRequestLen) {
            wire::AtomicRequest{rng_.pick({wire::AtomicOpcode::kFetchAdd, wire::AtomicOpcode::kCmpSwap}),
                                static_cast<std::uint32_t>(rng_.next()),
                                stag,
                                rng_.chance(50) ? near(region, 8) & ~std::uint64_t{7} : near(region, 8),
                                rng_.next(),
                                rng_.chance(50) ? 0 : rng_.next(),
                                0,
                                rng_.chance(50) ? 0 : rng_.next()}
                .emit(ulpdu.data() + wire::kUntaggedHeaderLen);
        }
    }
    return ulpdu;
}

void ByzantineWire::lie(Bytes& ulpdu) {
    if (rng_.chance(50) && lie_about_a_field(ulpdu)) return;
    const std::size_t headers = std::min<std::size_t>(ulpdu.size(), wire::kReadRequestSegmentLen);
    const bool tagged = wire::is_tagged(std::to_integer<std::uint8_t>(ulpdu[0]));
    switch (rng_.below(9)) {
        case 0:
            ulpdu[rng_.below(headers)] ^= std::byte(1 << rng_.below(8));
            break;
        case 1:
            ulpdu[1] = std::byte(wire::kRdmapVersion | rng_.below(16));
            break;
        case 2:
            ulpdu[0] ^= std::byte(wire::kLast);
            break;
        case 3:
            ulpdu[0] ^= std::byte(wire::kTagged);
            break;
        case 4:
            wire::store_be32(ulpdu.data() + 2, target().stag);
            break;
        case 5: {  // STag and TO, or what stands there in an untagged header
            const Target& region = target();
            const bool fitting = ulpdu.size() >= wire::kTaggedHeaderLen;
            wire::store_be32(ulpdu.data() + 2, region.stag);
            if (fitting) wire::store_be64(ulpdu.data() + 6, near(region, ulpdu.size() - wire::kTaggedHeaderLen));
            break;
        }
        case 6:
            if (!tagged && ulpdu.size() >= wire::kUntaggedHeaderLen)
                wire::store_be32(ulpdu.data() + 14, static_cast<std::uint32_t>(rng_.next() >> rng_.below(64)));
            break;
        case 7:
            ulpdu.resize(rng_.below(ulpdu.size() + 1));
            break;
        default:
            ulpdu.resize(std::min<std::size_t>(0xffff, ulpdu.size() + rng_.below(5000)));
            break;
    }
}

}  // namespace swrnic::engine::sim
