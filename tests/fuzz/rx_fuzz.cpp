// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A hostile stream into one QP: FPDUs of any content, cut anywhere, between posts, sends and the end. Whatever comes,
// no octet changes but where the peer or a posted request may write, and every request is completed once.
#include <array>
#include <cstring>

#include "engine/support.h"
#include "fuzz/input.h"
#include "wire/byteorder.h"

namespace swrnic::fuzz {
namespace {

using engine::AsyncEvent;
using engine::PostResult;
using engine::WorkCompletion;
namespace access = engine::access;

constexpr std::size_t kPart = 4096;
// Every second part of the arena is a region; what lies between belongs to nobody.
enum Region : std::size_t { kRemote, kReadable, kLocal, kForeign, kReceives, kSink, kRegions };

class Target {
  public:
    explicit Target(Input& input) : input_(input) {
        const std::uint8_t settings = input.u8();
        parameters_ = engine::test::plain_stream();
        parameters_.initiator = (settings & 1) != 0;
        parameters_.crc = crc_ = (settings & 2) != 0;
        parameters_.markers_rx = markers_ = (settings & 4) != 0;
        parameters_.markers_tx = (settings & 8) != 0;
        parameters_.large_fpdu = (settings & 16) != 0;
        parameters_.p2p = (settings & 32) != 0;
        parameters_.short_first = parameters_.large_fpdu && (settings & 64) != 0;
        parameters_.rfc7306 = (settings & 128) != 0;
        parameters_.rtr = engine::rtr::kWrite;
        for (std::size_t i = 0; i < arena_.size(); ++i)
            arena_[i] = pattern(i);
        static constexpr std::array<std::uint32_t, kRegions> kRights = {
            engine::test::kAllRights, access::kRemoteRead, 0,
            engine::test::kAllRights, access::kLocalWrite, access::kLocalWrite};
        for (std::size_t i = 0; i < kRegions; ++i)
            stags_[i] = rig_.memory.add(i == kForeign ? 99 : engine::test::Rig::kPd, &arena_[place(i)], kPart, to(i),
                                        kRights[i]);
        require(rig_.start(parameters_), "the stream starts");
    }

    void run() {
        while (!input_.empty())
            step();
        rig_.receive();
        rig_.transmit();
        rig_.end(engine::CloseReason::kLost);
        poll();
        require(completed_ == posted_, "every request is completed once");
        check_memory();
    }

  private:
    static std::byte pattern(std::size_t at) { return static_cast<std::byte>(at * 131 >> 3); }
    static std::size_t place(std::size_t region) { return (2 * region + 1) * kPart; }
    static std::uint64_t to(std::size_t region) { return 0x100000 * (region + 1); }

    void step() {
        switch (input_.u8() % 13) {
            case 0: {
                const auto raw = input_.bytes(input_.u8());
                const auto* octets = reinterpret_cast<const std::byte*>(raw.data());
                rig_.script.inbound.insert(rig_.script.inbound.end(), octets, octets + raw.size());
                break;
            }
            case 1: {
                const auto raw = input_.bytes(input_.u16());
                frame({reinterpret_cast<const std::byte*>(raw.data()), raw.size()});
                break;
            }
            case 2:
                tagged();
                break;
            case 3:
                untagged();
                break;
            case 4:
                read_request();
                break;
            case 5:
                post_receive();
                break;
            case 6:
                post_send();
                break;
            case 7:
                rig_.script.most = std::size_t{input_.u8()} + 1;
                rig_.receive();
                break;
            case 8:
                rig_.script.most = engine::test::kNoLimit;
                rig_.receive();
                break;
            case 9:
                rig_.script.window = input_.u16();
                rig_.transmit();
                rig_.script.window = engine::test::kNoLimit;
                break;
            case 10:
                rig_.transmit();
                break;
            case 11:
                (input_.u8() & 1 ? rig_.script.fin : rig_.script.broken) = true;
                break;
            case 12:
                if (const std::uint8_t what = input_.u8(); what < kRegions)
                    rig_.memory.remove(stags_[what]);
                else
                    rig_.give_up_waiting();
                break;
        }
        poll();
    }

    void frame(std::span<const std::byte> ulpdu) {
        if (ulpdu.size() <= 0xffff && rig_.script.inbound.size() < (1 << 20))
            engine::test::append_fpdu(rig_.script.inbound, ulpdu, markers_, crc_);
    }
    void frame(std::span<const std::uint8_t> header, std::size_t payload) {
        engine::test::Bytes ulpdu(header.size() + payload, std::byte{0xee});
        std::memcpy(ulpdu.data(), header.data(), header.size());
        frame(ulpdu);
    }
    std::uint32_t stag() {
        const std::uint8_t which = input_.u8();
        return which < kRegions ? stags_[which] : which == 255 ? input_.u32() : stags_[which % kRegions] ^ which;
    }

    // RFC 5041 4.2: control, RDMAP control, STag, TO.
    void tagged() {
        std::array<std::uint8_t, 14> header{};
        header[0] = input_.u8();
        header[1] = input_.u8();
        put32(&header[2], stag());
        const std::uint64_t offset =
            to(input_.u8() % kRegions) +
            static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int16_t>(input_.u16())));
        put32(&header[6], static_cast<std::uint32_t>(offset >> 32));
        put32(&header[10], static_cast<std::uint32_t>(offset));
        frame(header, input_.u16() % 6000);
    }

    // RFC 5041 4.3: control, RDMAP control, for the ULP, QN, MSN, MO.
    void untagged() {
        std::array<std::uint8_t, 18> header = untagged_header();
        frame(header, input_.u16() % 6000);
    }
    std::array<std::uint8_t, 18> untagged_header() {
        std::array<std::uint8_t, 18> header{};
        header[0] = input_.u8();
        header[1] = input_.u8();
        put32(&header[2], stag());
        put32(&header[6], input_.u8());
        put32(&header[10], input_.u8());
        put32(&header[14], input_.u16());
        return header;
    }

    // RFC 5040 4.4: sink STag and TO, length, source STag and TO.
    void read_request() {
        std::array<std::uint8_t, 18 + 28> message{};
        const auto header = untagged_header();
        std::copy(header.begin(), header.end(), message.begin());
        put32(&message[18], input_.u32());
        put32(&message[26], input_.u32());
        put32(&message[30], input_.u16());
        put32(&message[34], stag());
        put32(&message[42], static_cast<std::uint32_t>(to(input_.u8() % kRegions)) + input_.u16());
        frame(message, 0);
    }

    static void put32(std::uint8_t* at, std::uint32_t value) {
        wire::store_be32(reinterpret_cast<std::byte*>(at), value);
    }

    engine::Sge sge(std::size_t region, std::uint32_t length) {
        return {reinterpret_cast<std::uintptr_t>(&arena_[place(region)]), length, stags_[region]};
    }
    void post_receive() {
        const engine::Sge into = sge(kReceives, input_.u16() % (kPart + 1));
        count(rig_.qp->post_recv({.wr_id = 1, .sges = {&into, 1}}));
    }
    void post_send() {
        const std::uint8_t kind = input_.u8();
        engine::Sge local = sge(kSink, input_.u16() % (kPart + 1));
        engine::SendWr wr{};
        wr.opcode = kind % 3 == 0   ? engine::WrOpcode::kSend
                    : kind % 3 == 1 ? engine::WrOpcode::kWrite
                                    : engine::WrOpcode::kRead;
        if ((kind & 0x20) != 0) {
            wr.opcode = kind % 3 == 0   ? engine::WrOpcode::kSendImm
                        : kind % 3 == 1 ? engine::WrOpcode::kWriteImm
                                        : engine::WrOpcode::kFetchAdd;
            if (kind % 3 == 2) local.length = 8;
        }
        wr.flags = engine::send_flag::kSignaled | (kind & 0x10 ? engine::send_flag::kFence : 0u);
        wr.sges = {&local, 1};
        wr.rkey = 0x1234;
        count(rig_.qp->post_send(wr));
    }
    void count(PostResult result) { posted_ += result == PostResult::kOk; }
    void poll() { completed_ += rig_.poll(rig_.send_cq).size() + rig_.poll(rig_.recv_cq).size(); }

    void check_memory() const {
        for (std::size_t i = 0; i < arena_.size(); ++i) {
            const std::size_t part = i / kPart, region = part / 2;
            const bool writable = part % 2 == 1 && (region == kRemote || region == kReceives || region == kSink);
            if (!writable) require(arena_[i] == pattern(i), "no octet changes but in regions that may be written");
        }
    }

    Input& input_;
    engine::StreamParameters parameters_{};
    bool crc_ = false, markers_ = false;
    std::vector<std::byte> arena_ = std::vector<std::byte>((2 * kRegions + 1) * kPart);
    engine::test::Rig rig_{{.sq_sig_all = true}};
    std::array<std::uint32_t, kRegions> stags_{};
    std::size_t posted_ = 0, completed_ = 0;
};

}  // namespace
}  // namespace swrnic::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    swrnic::fuzz::Input input(data, size);
    swrnic::fuzz::Target(input).run();
    return 0;
}
