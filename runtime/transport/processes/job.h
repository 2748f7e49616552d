// The processes that a launcher started, one for each rank.
#pragma once

#include <memory>
#include <string>

#include "cost_model/error.h"
#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Another process of the job is gone, or cannot be reached: names its rank and host. Status
/// kRuntimeFault. Of the processes that are left one throws it, the others Aborted; where that of
/// rank 0 is gone, all do.
class PeerLost : public Error {
 public:
  explicit PeerLost(const std::string& what) : Error(what, ExitStatus::kRuntimeFault) {}
};

/// Processes of a job as ranks.
class JobWorld {
 public:
  JobWorld() = default;
  JobWorld(const JobWorld&) = delete;
  JobWorld& operator=(const JobWorld&) = delete;
  JobWorld(JobWorld&&) = delete;
  JobWorld& operator=(JobWorld&&) = delete;
  virtual ~JobWorld() = default;

  /// The end of this process, one of the ranks; to be called once. `backend` must outlive it and
  /// the groups made of it. Ends of different groups may be used by different threads at once.
  /// Buffers are in the host's memory, or in a backend's that copies from and to it and reduces.
  [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(Backend& backend) = 0;
  /// Ends all communication, on all processes: whoever waits for a message, and every call from
  /// here on, throws Aborted; other processes hear of it in their next call. `status` is what the
  /// job ends with unless another process's came first. Of any thread, takes 0.1 s at most.
  virtual void abort(int status) noexcept = 0;
  [[nodiscard]] virtual bool is_aborted() const noexcept = 0;
};

/// This process as one of a job. One object at a time, and one in the life of a process, whose
/// destructor ends the whole job with status kBug unless finish() was called.
class JobProcess {
 public:
  JobProcess() = default;
  JobProcess(const JobProcess&) = delete;
  JobProcess& operator=(const JobProcess&) = delete;
  JobProcess(JobProcess&&) = delete;
  JobProcess& operator=(JobProcess&&) = delete;
  virtual ~JobProcess() = default;

  /// How messages travel: "mpi", "tcp".
  [[nodiscard]] virtual std::string transport() const = 0;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual const std::string& host() const = 0;
  /// The address of this host by which the others reach it; empty: any that it has.
  [[nodiscard]] virtual const std::string& address() const = 0;
  /// Processes of the job on this host, this one included.
  [[nodiscard]] virtual int ranks_on_host() const = 0;
  /// Its place among them, from 0.
  [[nodiscard]] virtual int place_on_host() const = 0;

  /// The first `size` processes as the ranks of a world. All processes make the same worlds in the
  /// same order, one at a time: the next once the last and its ends are gone. Nobody waits for the
  /// others in it. The job must outlive it.
  [[nodiscard]] virtual std::unique_ptr<JobWorld> make_world(int size,
                                                             CollectiveAlgorithm algorithm) = 0;

  /// The last call, of all processes, which wait for each other in it: returns `status`, for main
  /// to return. After JobWorld::abort, of any process, it returns the status given there; where a
  /// process does not come within two seconds, it ends the job with that status and does not
  /// return.
  [[nodiscard]] virtual int finish(int status) noexcept = 0;
  /// The rank that finish() waits for first, of any thread: of rank 0 one that did not come, of the
  /// others rank 0.
  [[nodiscard]] virtual int awaited_at_end() const noexcept = 0;
  /// What this process would throw, or threw, as PeerLost: which other process is gone; empty where
  /// none is, or another process says so.
  [[nodiscard]] virtual std::string loss() const = 0;
};

}  // namespace ptdp
