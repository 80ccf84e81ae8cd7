// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/rx.h"

#include "engine/core/qp_status.h"
#include "engine/core/receive_queue.h"

namespace swrnic::engine {

void Rx::start(bool crc, bool markers, bool short_first, bool rtr_send, bool bypass) {
    const bool foreign = memory_.foreign() != nullptr;
    parser_ = foreign && bypass && !markers ? Parser::kForeign
              : foreign || crc || markers   ? Parser::kFramed
                                            : Parser::kDirect;
    segment_.start(rtr_send);
    sizes_.start(short_first);
    input_.clear();
    direct_.start();
    framed_.start(crc, markers);
    foreign_.start();
}

Rx::Status Rx::step(const RxGuard&, Pass& pass) {
    segment_.begin_step();
    if (segment_.has_failed() || status_.has_fault()) return discard(pass);
    const Status status = segment_.stops() ? resume(pass) : parse(pass);
    rq_.tell(pass.outbox());
    return status;
}

Rx::Status Rx::parse(Pass& pass) {
    switch (parser_) {
        case Parser::kDirect:
            return direct_.step(pass);
        case Parser::kFramed:
            return framed_.step(pass, RxFramed::Reach::kFar);
        case Parser::kForeign:
            break;
    }
    return foreign_.step(pass);
}

// A receive may have been posted since, or the passes be over: takes up what was read already, and reads nothing.
Rx::Status Rx::resume(Pass& pass) {
    if (segment_.lacks_receive() && !rq_.take()) return Status::kStalled;
    const bool again = segment_.resume();
    ByteBuffer rest = input_.take_carried();
    if (parser_ == Parser::kDirect) {
        direct_.resume(again, rest.octets(), pass);
    } else {
        framed_.resume(again, rest.octets(), pass);
    }
    return input_.moved();
}

// The stream is read so that its end is seen.
Rx::Status Rx::discard(Pass& pass) {
    segment_.discard();
    framed_.drop();
    input_.clear();
    const IoSlice slice{pass.rx_staging().data(), pass.rx_staging().size()};
    const IoResult result = input_.read(&slice, 1);
    return result.status == IoStatus::kOk ? Status::kMoved : RxInput::ended(result.status, false);
}

void Rx::give_up_waiting(const RxGuard&) {
    if (!segment_.lacks_receive() || rq_.take()) return;
    const RxSegment::Header header = parser_ == Parser::kDirect ? direct_.header() : framed_.waiting_ulpdu();
    segment_.fail_of_receive(header);
}

std::uint32_t Rx::large_left() const {
    return parser_ == Parser::kDirect ? direct_.large_left() : framed_.large_left();
}

}  // namespace swrnic::engine
