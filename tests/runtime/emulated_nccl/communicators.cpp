// Communicators of the emulated NCCL: how they begin, fail and end.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <tuple>

#include "tests/runtime/emulated_nccl/emulation.h"

namespace ptdp::emulated_nccl {
namespace {

Plan current_plan;
std::vector<std::string> noted;
std::int64_t num_calls = 0;
std::map<std::string, std::int64_t> calls_by_name;
std::int64_t last_id = 0;
std::map<ncclComm_t, std::shared_ptr<ncclComm>> alive;
/// Communicators that are beginning, by id.
std::map<std::int64_t, std::shared_ptr<Clique>> cliques;
std::map<int, std::thread::id> threads;  ///< Threads that make the calls, by device.

/// Counts a call. Returns true for the k-th call, which fails, whatever it is.
bool fails() {
  return ++num_calls == current_plan.failing_call;
}

std::shared_ptr<ncclComm> make_end(const std::shared_ptr<Clique>& clique, int rank, bool blocks,
                                   int device) {
  if (std::none_of(alive.begin(), alive.end(),
                   [=](const auto& other) { return other.second->device == device; })) {
    threads.erase(device);  // the next job may use another thread
  }
  auto end = std::make_shared<ncclComm>();
  end->clique = clique;
  end->rank = rank;
  end->device = device;
  end->blocks = blocks;
  end->bytes = current_plan.bytes_each;
  emulated_gpu::take_memory_beside(device, end->bytes);
  alive[end.get()] = end;
  return end;
}

/// Ends a communicator that is alive, and gives its memory back.
void end_life(ncclComm_t communicator) {
  emulated_gpu::take_memory_beside(communicator->device, -communicator->bytes);
  alive.erase(communicator);
}

/// Returns the most blocks of a kernel: 32 unless the configuration says fewer, as NCCL's own.
int most_blocks(const ncclConfig_t& config) {
  const bool has_limit = config.maxCTAs != INT_MIN && !current_plan.ignores_most_blocks;
  return has_limit ? config.maxCTAs : 32;
}

/// Makes the parts of a split communicator, once all ranks have asked for theirs.
void make_parts(std::vector<Clique::Part> parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::tie(a.colour, a.key, a.rank) < std::tie(b.colour, b.key, b.rank);
  });
  for (auto first = parts.begin(); first != parts.end();) {
    const auto last = std::find_if(first, parts.end(),
                                   [&](const auto& part) { return part.colour != first->colour; });
    if (first->colour != NCCL_SPLIT_NOCOLOR) {
      const auto clique = std::make_shared<Clique>(static_cast<int>(last - first));
      for (auto part = first; part != last; ++part) {
        if (part->result != nullptr) {  // else it was aborted
          const auto rank = static_cast<int>(part - first);
          const auto end = make_end(clique, rank, part->blocks, part->device);
          end->blocks_of_kernels = part->most_blocks;
          clique->ends[static_cast<std::size_t>(rank)] = end;
          *part->result = end.get();
        }
      }
    }
    first = last;
  }
}

}  // namespace

void reset(const Plan& plan) {
  const std::lock_guard lock(emulated_gpu::mutex());
  current_plan = plan;
  noted.clear();
  num_calls = 0;
  calls_by_name.clear();
  threads.clear();
}

void change(const std::function<void(Plan& plan)>& how) {
  const std::lock_guard lock(emulated_gpu::mutex());
  how(current_plan);
  emulated_gpu::notify();
}

std::vector<std::string> faults() {
  const std::lock_guard lock(emulated_gpu::mutex());
  return noted;
}

std::int64_t calls() {
  const std::lock_guard lock(emulated_gpu::mutex());
  return num_calls;
}

std::int64_t calls(const std::string& name) {
  const std::lock_guard lock(emulated_gpu::mutex());
  return calls_by_name[name];
}

int communicators() {
  const std::lock_guard lock(emulated_gpu::mutex());
  return static_cast<int>(alive.size());
}

std::vector<int> blocks_of_communicators() {
  const std::lock_guard lock(emulated_gpu::mutex());
  std::vector<int> blocks;
  blocks.reserve(alive.size());
  for (const auto& [key, communicator] : alive) {
    blocks.push_back(communicator->blocks_of_kernels);
  }
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

const Plan& plan() {
  return current_plan;
}

void note(std::string fault) {
  noted.push_back(std::move(fault));
}

ncclResult_t enter(ncclComm_t communicator, const char* name) {
  const auto found = alive.find(communicator);
  if (found == alive.end()) {
    note(std::string(name) + ": of a communicator that is gone");
    return ncclInvalidArgument;
  }
  const auto [thread, is_first] = threads.emplace(communicator->device, std::this_thread::get_id());
  if (thread->second != std::this_thread::get_id()) {
    note(std::string(name) + ": a second thread calls for device " +
         std::to_string(communicator->device));
  }
  if (communicator->polls > 0 || (communicator->is_ready && !communicator->is_ready())) {
    note(std::string(name) + ": before the last call was done");
    return ncclInvalidArgument;
  }
  ++calls_by_name[name];
  return fails() ? ncclSystemError : ncclSuccess;
}

bool is_alive(ncclComm_t communicator) {
  return alive.contains(communicator);
}

ncclResult_t begun(ncclComm_t communicator, std::function<bool()> is_ready) {
  communicator->is_ready = std::move(is_ready);
  communicator->polls = 1;
  emulated_gpu::notify();
  return ncclInProgress;
}

}  // namespace ptdp::emulated_nccl

using namespace ptdp::emulated_nccl;
using Guard = std::lock_guard<std::recursive_mutex>;

ncclResult_t ncclGetVersion(int* version) {
  *version = 22'809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Guard lock(ptdp::emulated_gpu::mutex());
  if (fails()) {
    return ncclSystemError;
  }
  *id = {};
  ++last_id;
  std::memcpy(id->internal, &last_id, sizeof(last_id));
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
      return "unhandled system error";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "invalid usage";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  return "emulated";
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Guard lock(ptdp::emulated_gpu::mutex());
  if (fails()) {
    return ncclSystemError;
  }
  std::int64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  std::shared_ptr<Clique>& clique = cliques[number];
  if (clique == nullptr) {
    clique = std::make_shared<Clique>(ranks);
  }
  int device = 0;
  static_cast<void>(cudaGetDevice(&device));
  for (const std::weak_ptr<ncclComm>& kept : clique->ends) {
    if (const auto other = kept.lock(); other != nullptr && other->device == device) {
      return ncclInvalidUsage;  // "Duplicate GPU detected"
    }
  }
  const auto end = make_end(clique, rank, config->blocking == 1, device);
  end->blocks_of_kernels = most_blocks(*config);
  clique->ends[static_cast<std::size_t>(rank)] = end;
  ++clique->arrived;
  *communicator = end.get();
  const std::shared_ptr<Clique> whole = clique;
  if (whole->arrived == whole->size) {
    cliques.erase(number);
  }
  return begun(*communicator,
               [whole] { return !plan().never_starts && whole->arrived == whole->size; });
}

ncclResult_t ncclCommSplit(ncclComm_t communicator, int colour, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  const Guard lock(ptdp::emulated_gpu::mutex());
  if (const ncclResult_t result = enter(communicator, "ncclCommSplit"); result != ncclSuccess) {
    return result;
  }
  const std::shared_ptr<Clique> clique = communicator->clique;
  const std::int64_t number = communicator->splits++;
  std::vector<Clique::Part>& parts = clique->splits[number];
  parts.push_back({.colour = colour,
                   .key = key,
                   .rank = communicator->rank,
                   .result = part,
                   .blocks = config->blocking == 1,
                   .most_blocks = most_blocks(*config),
                   .device = communicator->device});
  if (static_cast<int>(parts.size()) == clique->size) {
    make_parts(parts);
    clique->splits.erase(number);
  }
  // As in NCCL 2.28: the call itself says that all is well, and the communicator that is split says
  // when it is done.
  static_cast<void>(
      begun(communicator, [clique, number] { return !clique->splits.contains(number); }));
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const Guard lock(ptdp::emulated_gpu::mutex());
  if (!alive.contains(communicator)) {
    note("ncclCommGetAsyncError: of a communicator that is gone");
    return ncclInvalidArgument;
  }
  if (communicator->has_failed || communicator->device == plan().broken_device) {
    *error = ncclRemoteError;
    return ncclSuccess;
  }
  *error = ncclSuccess;
  if (communicator->polls > 0) {
    --communicator->polls;
    *error = ncclInProgress;
  } else if (communicator->is_ready) {
    if (communicator->is_ready()) {
      communicator->is_ready = nullptr;
    } else {
      *error = ncclInProgress;
    }
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const Guard lock(ptdp::emulated_gpu::mutex());
  if (const ncclResult_t result = enter(communicator, "ncclCommFinalize"); result != ncclSuccess) {
    return result;
  }
  communicator->is_finalized = true;
  return begun(communicator, [communicator] { return finish_kernels(*communicator); });
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const Guard lock(ptdp::emulated_gpu::mutex());
  if (const ncclResult_t result = enter(communicator, "ncclCommDestroy"); result != ncclSuccess) {
    return result;
  }
  if (!communicator->is_finalized || !finish_kernels(*communicator)) {
    note("ncclCommDestroy: with work that is not done");
  }
  end_life(communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const Guard lock(ptdp::emulated_gpu::mutex());
  const auto found = alive.find(communicator);
  if (found == alive.end()) {
    note("ncclCommAbort: of a communicator that is gone");
    return ncclInvalidArgument;
  }
  const std::shared_ptr<ncclComm> end = found->second;
  end->is_aborted = true;
  for (auto& [number, parts] : end->clique->splits) {
    for (Clique::Part& part : parts) {
      part.result = part.rank == end->rank ? nullptr : part.result;
    }
  }
  end->is_ready = nullptr;
  for (const std::weak_ptr<ncclComm>& kept : end->clique->ends) {
    if (const auto other = kept.lock(); other != nullptr && plan().reports_aborts) {
      other->has_failed = true;
    }
  }
  end_life(communicator);
  ptdp::emulated_gpu::notify();
  return ncclSuccess;
}
