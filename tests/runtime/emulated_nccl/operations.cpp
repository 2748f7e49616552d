// Queues the operations of the emulated NCCL as work of streams.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "tests/runtime/emulated_nccl/emulation.h"

namespace ptdp::emulated_nccl {
namespace {

bool is_message(Kind kind) {
  return kind == Kind::kSend || kind == Kind::kReceive;
}

/// Returns the calls of a message's sender and receiver, as many as there are yet.
Clique::Pair& pair_of(Clique& clique, int rank, const Call& call) {
  return clique
      .pairs[call.kind == Kind::kSend ? std::pair(rank, call.other) : std::pair(call.other, rank)];
}

/// Whether a rank has aborted or destroyed its communicator; its memory may then be gone.
bool has_left(const Clique& clique, int rank) {
  const std::shared_ptr<ncclComm> end = clique.ends[static_cast<std::size_t>(rank)].lock();
  return end == nullptr || end->is_aborted;
}

/// Whether both ranks have called for the message of this number.
bool is_whole(const Clique::Pair& pair, std::size_t number) {
  return number < std::min(pair.sends.size(), pair.receives.size());
}

}  // namespace

/// What one group of calls launches on a stream.
class Kernel final : public emulated_gpu::Rendezvous {
 public:
  explicit Kernel(std::shared_ptr<ncclComm> end) : end_(std::move(end)) {}

  void add(const std::shared_ptr<Call>& call) {
    Clique& clique = *end_->clique;
    Asked asked{.call = call};
    if (is_message(call->kind)) {
      Clique::Pair& pair = pair_of(clique, end_->rank, *call);
      Calls& own = call->kind == Kind::kSend ? pair.sends : pair.receives;
      asked.number = static_cast<std::int64_t>(own.size());
      own.push_back(call);
    } else {
      asked.number = clique.numbers[static_cast<std::size_t>(end_->rank)]++;
      Calls& all = clique.collectives[asked.number];
      all.resize(static_cast<std::size_t>(clique.size));
      all[static_cast<std::size_t>(end_->rank)] = call;
    }
    asked_.push_back(std::move(asked));
  }

  /// Whether every message's two ranks are connected. NCCL connects two ranks when both ask for
  /// their first message.
  [[nodiscard]] bool is_connected() const {
    return std::all_of(asked_.begin(), asked_.end(), [&](const Asked& asked) {
      return !is_message(asked.call->kind) ||
             is_whole(pair_of(*end_->clique, end_->rank, *asked.call), 0);
    });
  }

  [[nodiscard]] bool is_over() override {
    if (is_over_ || end_->is_aborted) {
      is_over_ = true;
      return true;
    }
    for (const Asked& asked : asked_) {
      if (!asked.call->has_come) {
        asked.call->has_come = true;
        complete(asked);
      }
    }
    is_over_ = std::all_of(asked_.begin(), asked_.end(),
                           [](const Asked& asked) { return asked.call->is_done; });
    return is_over_;
  }

  [[nodiscard]] std::vector<cudaStream_t> awaited() override {
    std::vector<cudaStream_t> streams;
    for (const Asked& asked : asked_) {
      if (asked.call->is_done) {
        continue;
      }
      for (const std::shared_ptr<Call>& call : others(asked)) {
        if (call != nullptr && !call->has_come) {
          streams.push_back(call->stream);
        }
      }
    }
    return streams;
  }

  [[nodiscard]] int multiprocessors() const override { return end_->blocks_of_kernels; }

  [[nodiscard]] cudaStream_t stream() const { return asked_.front().call->stream; }
  [[nodiscard]] bool was_over() const { return is_over_ || end_->is_aborted; }

 private:
  struct Asked {
    std::shared_ptr<Call> call;
    std::int64_t number = 0;
  };

  [[nodiscard]] Calls others(const Asked& asked) const {
    Clique& clique = *end_->clique;
    if (!is_message(asked.call->kind)) {
      const auto found = clique.collectives.find(asked.number);
      return found == clique.collectives.end() ? Calls{} : found->second;
    }
    const Clique::Pair& pair = pair_of(clique, end_->rank, *asked.call);
    const auto number = static_cast<std::size_t>(asked.number);
    return is_whole(pair, number) ? Calls{pair.sends[number], pair.receives[number]} : Calls{};
  }

  /// Whether a rank of the call was aborted, so that the call will never be done.
  [[nodiscard]] bool is_broken(const Call& call) const {
    const Clique& clique = *end_->clique;
    if (is_message(call.kind)) {
      return has_left(clique, call.other);
    }
    for (int rank = 0; rank < clique.size; ++rank) {
      if (has_left(clique, rank)) {
        return true;
      }
    }
    return false;
  }

  void complete(const Asked& asked) {
    if (is_broken(*asked.call)) {
      return;
    }
    const Calls calls = others(asked);
    if (calls.empty() || !std::all_of(calls.begin(), calls.end(), [](const auto& call) {
          return call != nullptr && call->has_come;
        })) {
      return;
    }
    if (is_message(asked.call->kind)) {
      deliver(*calls.front(), *calls.back());
    } else {
      compute(*end_->clique, calls);
      end_->clique->collectives.erase(asked.number);
    }
    for (const std::shared_ptr<Call>& call : calls) {
      call->is_done = true;
    }
    emulated_gpu::notify();
  }

  std::shared_ptr<ncclComm> end_;
  std::vector<Asked> asked_;
  bool is_over_ = false;
};

bool finish_kernels(ncclComm& communicator) {
  return std::all_of(communicator.kernels.begin(), communicator.kernels.end(),
                     [](const std::weak_ptr<Kernel>& kept) {
                       const std::shared_ptr<Kernel> kernel = kept.lock();
                       while (kernel != nullptr && !kernel->was_over() &&
                              emulated_gpu::advance(kernel->stream())) {
                       }
                       return kernel == nullptr || kernel->was_over();
                     });
}

namespace {

/// Depth of nested groups on the calling thread.
thread_local int depth = 0;
thread_local std::vector<std::pair<ncclComm_t, Call>> grouped;
/// Result of the group; after an error nothing of the group is launched.
thread_local ncclResult_t group_result = ncclSuccess;

ncclResult_t of_group(ncclResult_t result) {
  group_result = depth > 0 ? result : ncclSuccess;
  return result;
}

/// Waits, if the communicator blocks, until a call of it is done or it is aborted. A real call may
/// wait for ever; here a minute is a fault, so that a test ends. Call it without the lock.
ncclResult_t finished(ncclComm_t communicator, ncclResult_t result) {
  const auto latest = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (result == ncclInProgress) {
    {
      const std::lock_guard lock(emulated_gpu::mutex());
      if (!is_alive(communicator)) {
        return ncclSystemError;
      }
      if (!communicator->blocks) {
        return result;
      }
      static_cast<void>(ncclCommGetAsyncError(communicator, &result));
      if (result == ncclInProgress && std::chrono::steady_clock::now() > latest) {
        note("a call that blocks is not done after a minute");
        return ncclSystemError;
      }
    }
    std::this_thread::yield();
  }
  return result;
}

ncclResult_t launch(const std::vector<std::pair<ncclComm_t, Call>>& calls) {
  if (calls.empty()) {
    return ncclSuccess;
  }
  ncclComm& communicator = *calls.front().first;
  const auto kernel = std::make_shared<Kernel>(communicator.shared_from_this());
  for (const auto& [of, call] : calls) {
    if (of != &communicator || call.stream != calls.front().second.stream) {
      note("a group of several communicators or streams");
    }
    kernel->add(std::make_shared<Call>(call));
  }
  communicator.kernels.push_back(kernel);
  if (emulated_gpu::queue(calls.front().second.stream, kernel) != cudaSuccess) {
    return ncclUnhandledCudaError;
  }
  return begun(&communicator, [kernel] { return kernel->is_connected(); });
}

ncclResult_t ask(ncclComm_t communicator, const char* name, const Call& call) {
  if (emulated_gpu::make_room(call.stream) != cudaSuccess) {
    return of_group(ncclUnhandledCudaError);
  }
  std::unique_lock lock(emulated_gpu::mutex());
  if (const ncclResult_t result = enter(communicator, name); result != ncclSuccess) {
    return of_group(result);
  }
  if (call.type == ncclNumTypes || call.other < 0 || call.other >= communicator->clique->size) {
    return of_group(ncclInvalidArgument);
  }
  if (communicator->is_finalized) {
    note(std::string(name) + ": of a communicator that is finalized");
  }
  if (is_message(call.kind) && call.other == communicator->rank && depth == 0) {
    return ncclInvalidUsage;
  }
  if (depth > 0) {
    grouped.emplace_back(communicator, call);
    return ncclSuccess;
  }
  const ncclResult_t result = launch({{communicator, call}});
  lock.unlock();
  return finished(communicator, result);
}

}  // namespace
}  // namespace ptdp::emulated_nccl

using namespace ptdp::emulated_nccl;

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  std::unique_lock lock(ptdp::emulated_gpu::mutex());
  if (--depth > 0) {
    return ncclSuccess;
  }
  const std::vector<std::pair<ncclComm_t, Call>> calls = std::exchange(grouped, {});
  const ncclResult_t result = std::exchange(group_result, ncclSuccess);
  if (result != ncclSuccess || calls.empty()) {
    return result;
  }
  const ncclResult_t launched = launch(calls);
  lock.unlock();
  return finished(calls.front().first, launched);
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* information) {
  const std::lock_guard lock(ptdp::emulated_gpu::mutex());
  if (grouped.empty() || !grouped.front().first->blocks) {
    return ncclGroupEnd();  // as NCCL 2.28 does: group.cc, ncclGroupEndInternal
  }
  --depth;
  // 1 GB/s.
  information->estimatedTime = static_cast<float>(grouped.back().second.count) * 4e-3F;
  grouped.clear();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, "ncclAllReduce",
             {Kind::kAllReduce, from, to, count, type, operation, 0, stream});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t communicator,
                               cudaStream_t stream) {
  return ask(communicator, "ncclReduceScatter",
             {Kind::kReduceScatter, from, to, count, type, operation, 0, stream});
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, "ncclAllGather",
             {Kind::kAllGather, from, to, count, type, ncclSum, 0, stream});
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t communicator,
                        cudaStream_t stream) {
  return ask(communicator, "ncclReduce",
             {Kind::kReduce, from, to, count, type, operation, root, stream});
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, "ncclBroadcast",
             {Kind::kBroadcast, from, to, count, type, ncclSum, root, stream});
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, "ncclSend",
             {Kind::kSend, from, nullptr, count, type, ncclSum, peer, stream});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, "ncclRecv",
             {Kind::kReceive, nullptr, to, count, type, ncclSum, peer, stream});
}
