// What tests ask of the emulated NCCL, and what its files share. All of it is used under the lock
// of the emulated GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nccl.h>

namespace ptdp::emulated_nccl {

/// The faults that the emulation has on purpose.
struct Plan {
  std::int64_t failing_call = 0;  ///< Number k of the call since reset() that fails; 0 for none.
  /// Device whose communicators have failed, as the other end of a socket reports; −1 for none.
  int broken_device = -1;
  bool never_starts = false;    ///< Whether communicators stay in progress for ever.
  bool reports_aborts = false;  ///< Whether ranks hear of another rank's abort, as over a network.
  /// Whether sums are ((x0 + x1) + x2) + ..., instead of in the order of a ring.
  bool sums_in_order = false;
  /// Whether kernels have as many blocks as NCCL may take, whatever communicators ask for.
  bool ignores_most_blocks = false;
  std::int64_t bytes_each = 0;  ///< Memory that a communicator takes on each of its devices [B].
};
void reset(const Plan& plan = {});
void change(const std::function<void(Plan& plan)>& how);

/// Returns the misuses since reset() that the real NCCL would not survive: it would hang or corrupt
/// data.
[[nodiscard]] std::vector<std::string> faults();
/// Returns the number of calls since reset() that may fail.
[[nodiscard]] std::int64_t calls();
/// Returns the number of calls of a function since reset(), such as "ncclReduce".
[[nodiscard]] std::int64_t calls(const std::string& name);
/// Returns the number of communicators that are neither destroyed nor aborted.
[[nodiscard]] int communicators();
/// Returns the blocks of a kernel of each such communicator, ascending.
[[nodiscard]] std::vector<int> blocks_of_communicators();

// --- shared ---

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast, kSend, kReceive };

/// A call that one rank made.
struct Call {
  Kind kind = Kind::kAllReduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t operation = ncclSum;
  int other = 0;  ///< Root of a collective, or peer of a message.
  cudaStream_t stream = nullptr;
  bool has_come = false;  ///< Whether the call's stream has come to it.
  bool is_done = false;
};
using Calls = std::vector<std::shared_ptr<Call>>;

/// The state that the ranks of a communicator share.
struct Clique {
  explicit Clique(int ranks)
      : size(ranks), ends(static_cast<std::size_t>(ranks)), numbers(ends.size()) {}
  int size;
  int arrived = 0;
  /// The ranks' communicators by rank, as far as they are alive.
  std::vector<std::weak_ptr<ncclComm>> ends;
  /// What each rank asked for in each collective, by the collective's number.
  std::map<std::int64_t, Calls> collectives = {};
  std::vector<std::int64_t> numbers;  ///< Number of the next collective, by rank.
  /// The messages from one rank to another, in order.
  struct Pair {
    Calls sends = {};
    Calls receives = {};
  };
  std::map<std::pair<int, int>, Pair> pairs = {};

  struct Part {
    int colour = 0;
    int key = 0;
    int rank = 0;
    ncclComm_t* result = nullptr;
    bool blocks = false;
    int most_blocks = 32;
    int device = 0;
  };
  std::map<std::int64_t, std::vector<Part>> splits = {};  ///< Splits under way, by their number.
};

class Kernel;
}  // namespace ptdp::emulated_nccl

struct ncclComm : std::enable_shared_from_this<ncclComm> {
  std::shared_ptr<ptdp::emulated_nccl::Clique> clique = {};
  int rank = 0;
  int device = 0;
  bool blocks = false;
  /// Blocks of a kernel, each of which takes a multiprocessor; at first as many as NCCL may take.
  int blocks_of_kernels = 32;
  bool is_aborted = false;
  bool is_finalized = false;
  bool has_failed = false;
  int polls = 0;  ///< Number of polls for which the communicator is still in progress.
  std::int64_t splits = 0;
  std::int64_t bytes = 0;  ///< Memory that it takes of its device.
  /// Whether the communicator is ready; empty means that it is.
  std::function<bool()> is_ready = {};
  std::vector<std::weak_ptr<ptdp::emulated_nccl::Kernel>> kernels = {};
};

namespace ptdp::emulated_nccl {

/// Counts a call on a communicator and returns its result: ncclSuccess if the call may go on. Notes
/// a fault for calls of one device from several threads, and for a call before the last is done.
[[nodiscard]] ncclResult_t enter(ncclComm_t communicator, const char* name);
/// Returns whether a communicator is neither destroyed nor aborted.
[[nodiscard]] bool is_alive(ncclComm_t communicator);
/// Returns the result of a call that is completed later.
ncclResult_t begun(ncclComm_t communicator, std::function<bool()> is_ready = {});
void note(std::string fault);
[[nodiscard]] const Plan& plan();
/// Runs what can run. Returns whether everything queued for the communicator is over.
[[nodiscard]] bool finish_kernels(ncclComm& communicator);
/// Computes what all ranks asked for. Notes a fault if they did not ask for the same.
void compute(const Clique& clique, const Calls& calls);
void deliver(const Call& send, const Call& receive);

}  // namespace ptdp::emulated_nccl
