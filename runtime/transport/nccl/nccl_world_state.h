// What the ends of NCCL's communicators in this process share: the thread that watches them, and
// how they end.
#pragma once

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/transport/nccl/nccl_library.h"
#include "runtime/transport/nccl/nccl_world.h"

namespace ptdp {

/// One rank's end of a communicator of NCCL's. One thread makes its calls; another may abort it at
/// any time, so every call is made under a lock. Calls do not block (config.blocking = 0): what
/// NCCL has not done when it returns is asked for again and again, without the lock.
class NcclEnd {
 public:
  /// `rank` is the rank's in the world; `name` is for messages.
  NcclEnd(NcclWorldState& world, int rank, std::string name)
      : world_(world), rank_(rank), name_(std::move(name)) {}

  /// Joins the ranks that have `id`. Throws as call().
  void join(const NcclId& id, int size, int place);
  /// A part of this one's ranks: those that give the same colour, in the order of their keys; with
  /// NCCL_SPLIT_NOCOLOR `part` stays empty. All ranks call it. Throws as call().
  void split(int colour, int key, bool is_blocking, NcclEnd& part);
  /// Makes a call, `make(communicator)`, and waits until NCCL is done with it, which is when its
  /// work is queued. Throws Error(kRuntimeFault), with what NCCL says, where the call fails or
  /// lasts longer than the deadline, and what ended the world.
  template <class Make>
  void call(std::string_view name, const Make& make) {
    std::unique_lock lock(mutex_);
    throw_if_ended();
    is_in_call_ = true;
    finish(lock, name, make(communicator_));
    is_in_call_ = false;
  }
  /// Ends it once what was queued is done; false where that fails.
  [[nodiscard]] bool close() noexcept;
  /// Of the watching thread.
  void abort() noexcept;
  /// What NCCL found wrong since; empty: nothing, or the end is in use.
  [[nodiscard]] std::string fault();

  [[nodiscard]] int rank() const { return rank_; }
  /// Whether a call is made, or threw.
  [[nodiscard]] bool is_in_call() const { return is_in_call_; }

 private:
  void throw_if_ended() const;
  void finish(std::unique_lock<std::mutex>& lock, std::string_view name, ncclResult_t result);
  [[nodiscard]] std::string described(std::string_view call, const std::string& what) const;

  NcclWorldState& world_;
  int rank_;
  std::string name_;
  std::mutex mutex_;
  ncclComm_t communicator_ = nullptr;
  bool is_gone_ = false;  ///< Destroyed, or aborted.
  std::atomic<bool> is_in_call_ = false;
};

/// Of any thread.
class NcclWorldState {
 public:
  NcclWorldState(const NcclId& id, int size, const NcclOptions& options);
  NcclWorldState(const NcclWorldState&) = delete;
  NcclWorldState& operator=(const NcclWorldState&) = delete;
  NcclWorldState(NcclWorldState&&) = delete;
  NcclWorldState& operator=(NcclWorldState&&) = delete;
  /// All ends are closed by then, or the world is aborted.
  ~NcclWorldState();

  /// An end without a communicator yet.
  [[nodiscard]] std::shared_ptr<NcclEnd> add(int rank, std::string name);
  /// Ends it once what was queued is done; aborts the world where that fails.
  void close(const std::shared_ptr<NcclEnd>& end) noexcept;

  void abort() noexcept;
  [[nodiscard]] bool is_aborted() const noexcept { return is_aborted_; }
  /// Throws Error in the rank whose communicator failed, Aborted in the others.
  void throw_if_ended(int rank);
  [[nodiscard]] const NcclId& id() const { return id_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] Seconds deadline() const { return options_.deadline; }

 private:
  using Ends = std::vector<std::shared_ptr<NcclEnd>>;

  void watch();
  void fail(int rank, std::string failure);
  static void abort_all(Ends ends) noexcept;

  NcclId id_;
  int size_;
  NcclOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Ends ends_;  ///< Of all ranks here; what was split behind what it was split from.
  std::string failure_;
  int failed_rank_ = -1;
  bool is_ending_ = false;
  std::atomic<bool> is_aborted_ = false;
  std::thread watcher_;  ///< The last member: it begins when the others are there.
};

}  // namespace ptdp
