// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a refused access is called on the wire.
#pragma once

#include "engine/core/memory.h"
#include "wire/terminate.h"

namespace swrnic::engine {

// RFC 5041 7.2 for a Write, RFC 5040 7.2 for a Read Request.
constexpr wire::TerminateCode write_code(MemoryError error) {
    switch (error) {
        case MemoryError::kWrongPd:
            return wire::fault::kTaggedNotAssociated;
        case MemoryError::kAccess:
            return wire::fault::kTaggedAccess;
        case MemoryError::kWrap:
            return wire::fault::kTaggedWrap;
        case MemoryError::kBounds:
            return wire::fault::kTaggedBounds;
        default:
            return wire::fault::kTaggedInvalidStag;
    }
}

constexpr wire::TerminateCode read_code(MemoryError error) {
    switch (error) {
        case MemoryError::kWrongPd:
            return wire::fault::kReadNotAssociated;
        case MemoryError::kAccess:
            return wire::fault::kReadAccess;
        case MemoryError::kWrap:
            return wire::fault::kReadWrap;
        case MemoryError::kBounds:
            return wire::fault::kReadBounds;
        default:
            return wire::fault::kReadInvalidStag;
    }
}

// RFC 7306 8.2.
constexpr wire::TerminateCode atomic_code(MemoryError error) {
    return error == MemoryError::kMisaligned ? wire::fault::kAtomicMisaligned : read_code(error);
}

constexpr AsyncEvent atomic_event(MemoryError error) {
    return error == MemoryError::kMisaligned ? AsyncEvent::kQpReqErr : AsyncEvent::kQpAccessErr;
}

}  // namespace swrnic::engine
