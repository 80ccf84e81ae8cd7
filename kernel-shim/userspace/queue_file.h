// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Descriptors to read events from.
#pragma once

#include <deque>
#include <iterator>
#include <utility>

#include "file.h"
#include "state.h"

namespace swrnic::shim {

// A File with a queue, readable exactly while the queue holds something: its eventfd holds a token then. A reader who
// finds the queue empty takes the token by a plain read(2), so blocking, O_NONBLOCK, signals with and without
// SA_RESTART and cancellation are the kernel's own, and then looks again. Entries that are there cost no system call,
// but for the first, which brings the token, and the last, with which it goes.
class QueueFile : public File {
  public:
    void shut(Locked& locked);  // whoever reads or polls wakes, and gets EIO from now on
    bool is_shut() const { return shut_; }

  protected:
    // Without the lock, while the queue is empty. 0: took_token() follows, with it; or -errno.
    long wait_token(int fd);
    void took_token(Locked&) { token_ = false; }
    // The queue has changed.
    void show(Locked& locked);

  private:
    virtual bool is_filled() const = 0;
    bool take_token_now();
    void lost_token();

    bool shut_ = false;
    bool token_ = false;  // was written, and nobody who took it has had the lock since
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
        for (bool has_token = false;;) {
            {
                Locked locked;
                if (has_token) took_token(locked);
                if (is_shut()) return -EIO;
                if (is_filled()) {
                    const long result = take(locked);
                    show(locked);
                    return result;
                }
            }
            if (const long error = wait_token(fd); error != 0) return error;
            has_token = true;
        }
    }

    std::deque<Entry> queue_;

  private:
    bool is_filled() const override { return !queue_.empty(); }
};

}  // namespace swrnic::shim
