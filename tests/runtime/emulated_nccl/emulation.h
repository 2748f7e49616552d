// What tests ask of the emulated NCCL, and what its files share. Everything under the lock of the
// emulated GPUs.
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

/// What goes wrong, on purpose.
struct Plan {
  std::int64_t failing_call = 0;  ///< The k-th call from reset() on fails; 0: none.
  /// Communicators of this device have failed, as the other end of a socket tells; −1: none.
  int broken_device = -1;
  bool never_starts = false;    ///< Communicators stay in progress.
  bool reports_aborts = false;  ///< Ranks hear of another's abort, as over a network.
  bool sums_in_order = false;   ///< ((x0 + x1) + x2) + ..., else as a ring.
};
void reset(const Plan& plan = {});
void change(const std::function<void(Plan& plan)>& how);

/// What NCCL would not have survived, since reset(): it hangs, or corrupts.
[[nodiscard]] std::vector<std::string> faults();
/// Calls that may fail, since reset().
[[nodiscard]] std::int64_t calls();
/// Communicators that are neither destroyed nor aborted.
[[nodiscard]] int communicators();

// --- shared ---

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast, kSend, kReceive };

/// A call of one rank.
struct Call {
  Kind kind = Kind::kAllReduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t operation = ncclSum;
  int other = 0;  ///< Root or peer.
  cudaStream_t stream = nullptr;
  bool has_come = false;  ///< Its stream.
  bool is_done = false;
};
using Calls = std::vector<std::shared_ptr<Call>>;

/// The ranks of a communicator.
struct Clique {
  explicit Clique(int ranks)
      : size(ranks), ends(static_cast<std::size_t>(ranks)), numbers(ends.size()) {}
  int size;
  int arrived = 0;
  std::vector<std::weak_ptr<ncclComm>> ends;  ///< By rank; those that are alive.
  /// Collectives by their number: what each rank asked for.
  std::map<std::int64_t, Calls> collectives = {};
  std::vector<std::int64_t> numbers;  ///< The next, by rank.
  /// Messages from one rank to another, in order.
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
    int device = 0;
  };
  std::map<std::int64_t, std::vector<Part>> splits = {};  ///< By their number.
};

class Kernel;
}  // namespace ptdp::emulated_nccl

struct ncclComm : std::enable_shared_from_this<ncclComm> {
  std::shared_ptr<ptdp::emulated_nccl::Clique> clique = {};
  int rank = 0;
  int device = 0;
  bool blocks = false;
  bool is_aborted = false;
  bool is_finalized = false;
  bool has_failed = false;
  int polls = 0;  ///< How often it is in progress yet.
  std::int64_t splits = 0;
  std::function<bool()> is_ready = {};  ///< Empty: yes.
  std::vector<std::weak_ptr<ptdp::emulated_nccl::Kernel>> kernels = {};
};

namespace ptdp::emulated_nccl {

/// Counts a call of the communicator's and says what it returns: ncclSuccess where it may go on.
/// Calls of one device come from one thread, and none before the last is done.
[[nodiscard]] ncclResult_t enter(ncclComm_t communicator, const char* name);
/// What a call returns that is done later.
ncclResult_t begun(ncclComm_t communicator, std::function<bool()> is_ready = {});
void note(std::string fault);
[[nodiscard]] const Plan& plan();
/// Whether everything queued for it is over; runs what can run.
[[nodiscard]] bool finish_kernels(ncclComm& communicator);
/// Does what all ranks asked for, and notes where they do not ask for the same.
void compute(const Clique& clique, const Calls& calls);
void deliver(const Call& send, const Call& receive);

}  // namespace ptdp::emulated_nccl
