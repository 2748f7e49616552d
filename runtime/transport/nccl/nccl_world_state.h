// The state that all ends of NCCL's communicators in this process share, the thread that watches
// them, and how they end.
#pragma once

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/transport/nccl/nccl_blocks.h"
#include "runtime/transport/nccl/nccl_library.h"
#include "runtime/transport/nccl/nccl_world.h"

namespace ptdp {

/// How a part of a communicator is made.
struct SplitOptions {
  /// Whether calls return when NCCL has queued their work. Otherwise NCCL makes each call on a
  /// thread of its own, which takes some 50 microseconds of the thread that asks.
  bool is_blocking = true;
  int most_blocks = NcclBlocks{}.collective;  ///< Most blocks of its kernels.
};

/// One rank's end of an NCCL communicator. One thread makes its calls, and another may abort it at
/// any time, so every call is made under a lock. Calls of the world do not block (config.blocking =
/// 0): one that is unfinished when it returns is polled without the lock. Calls of its parts do,
/// and may wait for a rank that never comes; only an abort then ends them.
class NcclEnd {
 public:
  /// `rank` is the rank in the world. `name` is for error messages.
  NcclEnd(NcclWorldState& world, int rank, std::string name)
      : world_(world), rank_(rank), name_(std::move(name)) {}

  /// Joins the ranks that have `id`, as rank `place` of `size`. Kernels have at most `most_blocks`
  /// blocks. Throws as call() does.
  void join(const NcclId& id, int size, int place, int most_blocks);
  /// Makes `part` this rank's end of a communicator of the ranks that give the same color, in the
  /// order of their keys. With color NCCL_SPLIT_NOCOLOR `part` stays empty. All ranks call it.
  /// Throws as call() does.
  void split(int colour, int key, const SplitOptions& options, NcclEnd& part);
  /// Makes an NCCL call, `make(communicator)`, and waits until NCCL has queued its work. Throws
  /// Error(kRuntimeFault), with NCCL's text, when the call fails or exceeds the deadline. Throws
  /// what ended the world, if anything did.
  template <class Make>
  void call(std::string_view name, const Make& make) {
    std::unique_lock lock(mutex_);
    throw_if_ended();
    call_began_ = now_ns();
    finish(lock, name, make(communicator_));
    call_began_ = 0;
  }
  /// Ends the communicator once the queued work is done. Returns false when that fails.
  [[nodiscard]] bool close() noexcept;
  /// Aborts the communicator, also in the middle of a call that does not return. The watching
  /// thread calls it.
  void abort() noexcept;
  /// Returns the error that NCCL has found since, or that a call which blocks exceeds the deadline.
  /// Returns "" when there is none or the end is in use.
  [[nodiscard]] std::string fault();

  /// Returns the rank in the world.
  [[nodiscard]] int rank() const { return rank_; }
  /// Returns whether a call is in progress or has thrown.
  [[nodiscard]] bool is_in_call() const { return call_began_ != 0; }

 private:
  [[nodiscard]] static std::int64_t now_ns();
  void throw_if_ended() const;
  /// Polls until the call with `result` is done. Throws as call() does.
  void finish(std::unique_lock<std::mutex>& lock, std::string_view name, ncclResult_t result);
  [[nodiscard]] std::string described(std::string_view call, const std::string& what) const;

  NcclWorldState& world_;
  int rank_;
  std::string name_;
  std::mutex mutex_;
  ncclComm_t communicator_ = nullptr;
  std::atomic<bool> is_gone_ = false;         ///< The communicator was destroyed or aborted.
  std::atomic<bool> is_blocking_ = false;     ///< Whether calls block.
  std::atomic<std::int64_t> call_began_ = 0;  ///< When the call in progress began [ns]; 0: none.
};

/// The state that all NCCL ends of one world in this process share, with the thread that watches
/// them. Any thread may call its functions.
class NcclWorldState {
 public:
  NcclWorldState(const NcclId& id, int size, const NcclOptions& options);
  NcclWorldState(const NcclWorldState&) = delete;
  NcclWorldState& operator=(const NcclWorldState&) = delete;
  NcclWorldState(NcclWorldState&&) = delete;
  NcclWorldState& operator=(NcclWorldState&&) = delete;
  /// Stops the watching thread. All ends must be closed before, or the world aborted.
  ~NcclWorldState();

  /// Adds and returns an end without a communicator.
  [[nodiscard]] std::shared_ptr<NcclEnd> add(int rank, std::string name);
  /// Ends a communicator once its queued work is done. Aborts the world when that fails.
  void close(const std::shared_ptr<NcclEnd>& end) noexcept;

  /// Makes the watching thread abort all communicators; does not wait for it.
  void abort() noexcept;
  [[nodiscard]] bool is_aborted() const noexcept { return is_aborted_; }
  /// If the world has ended, throws Error in the rank whose communicator failed, and Aborted in the
  /// others.
  void throw_if_ended(int rank);
  [[nodiscard]] const NcclId& id() const { return id_; }
  /// Returns the number of ranks in the world.
  [[nodiscard]] int size() const { return size_; }
  /// Returns how long a call may stay in progress.
  [[nodiscard]] Seconds deadline() const { return options_.deadline; }

 private:
  using Ends = std::vector<std::shared_ptr<NcclEnd>>;

  /// Runs the watching thread.
  void watch();
  /// Records the first failure, of rank `rank`, and aborts the world.
  void fail(int rank, std::string failure);
  static void abort_all(Ends ends) noexcept;

  NcclId id_;
  int size_;
  NcclOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Ends ends_;  ///< Ends of all ranks here; what was split comes after what it was split from.
  std::string failure_;     ///< Error message of `failed_rank_`.
  int failed_rank_ = -1;    ///< Rank whose communicator failed; −1 for none.
  bool is_ending_ = false;  ///< The watching thread is to stop.
  std::atomic<bool> is_aborted_ = false;
  /// The watching thread. It is the last member, because it uses the others from its start.
  std::thread watcher_;
};

}  // namespace ptdp
