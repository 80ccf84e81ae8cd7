// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Descriptors to read events from.
#pragma once

#include <deque>
#include <iterator>
#include <utility>

#include "file.h"
#include "state.h"

namespace swrnic::shim {

// A File with a queue. Its eventfd holds a token for each entry: writing one wakes whoever waits for an edge, entry by
// entry, as the kernel's files do, and the descriptor is readable until the last is taken. A reader who finds the queue
// empty takes a token by a plain read(2), so blocking, O_NONBLOCK, signals with and without SA_RESTART and cancellation
// are the kernel's own, and then looks again.
class QueueFile : public File {
  public:
    void shut(Locked& locked);  // whoever reads or polls wakes, and gets EIO from now on
    bool is_shut() const { return shut_; }

  protected:
    // Which tokens are counted: of those that were written earlier nobody knows how many are left.
    std::uint64_t series() const { return series_; }
    // Without the lock, while the queue is empty. 0: took_token() follows, with it; or -errno.
    long wait_token(int fd);
    void took_token(Locked& locked, std::uint64_t series);  // that was current before it waited
    // The queue has changed.
    void show(Locked& locked);

  private:
    virtual std::size_t entries() const = 0;
    bool take_token_now();
    void count_anew(Locked& locked);

    bool shut_ = false;
    std::size_t tokens_ = 0;  // were written, and nobody who took them has had the lock since
    std::uint64_t series_ = 0;
};

template <typename Entry>
class Queue : public QueueFile {
  public:
    void push(Locked& locked, Entry entry) {
        if (any_fd() < 0) return;
        queue_.push_back(std::move(entry));
        show(locked);
    }
    template <typename Predicate>
    void remove_if(Locked& locked, Predicate&& predicate) {
        for (auto it = queue_.begin(); it != queue_.end();)
            it = predicate(*it) ? queue_.erase(it) : std::next(it);
        show(locked);
    }

  protected:
    // Waits, as the descriptor says, until the queue holds something, and calls take(locked), which may leave it there.
    // What that returns, or -errno; -EIO: the file was shut.
    template <typename Take>
    long take_from_queue(int fd, Take&& take) {
        std::uint64_t known = 0;
        for (bool has_token = false;;) {
            {
                Locked locked;
                if (has_token) took_token(locked, known);
                if (is_shut()) return -EIO;
                if (!queue_.empty()) {
                    const long result = take(locked);
                    show(locked);
                    return result;
                }
                known = series();
            }
            if (const long error = wait_token(fd); error != 0) return error;
            has_token = true;
        }
    }

    std::deque<Entry> queue_;

  private:
    std::size_t entries() const override { return queue_.size(); }
};

}  // namespace swrnic::shim
