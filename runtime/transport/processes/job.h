// This process as one of a job: a launcher starts one process for each rank.
#pragma once

#include <memory>
#include <string>

#include "cost_model/error.h"
#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Thrown when another process of the job is gone or cannot be reached; the message names its rank
/// and host. The exit status is kRuntimeFault. One of the remaining processes throws it and the
/// others throw Aborted. When the process of rank 0 is gone, all throw it.
class PeerLost : public Error {
 public:
  explicit PeerLost(const std::string& what) : Error(what, ExitStatus::kRuntimeFault) {}
};

/// A world whose ranks are processes of a job.
class JobWorld {
 public:
  JobWorld() = default;
  JobWorld(const JobWorld&) = delete;
  JobWorld& operator=(const JobWorld&) = delete;
  JobWorld(JobWorld&&) = delete;
  JobWorld& operator=(JobWorld&&) = delete;
  virtual ~JobWorld() = default;

  /// Returns the end of this process, which must be one of the ranks; call it once. `backend` must
  /// outlive the end and the groups made from it. Different threads may use ends of different
  /// groups at once. Buffers are in host memory, or in memory of a backend that copies to and from
  /// the host and reduces.
  [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(Backend& backend) = 0;
  /// Ends all communication on all processes: pending waits and all later calls throw Aborted.
  /// Other processes learn of it in their next call. The job ends with `status`, unless another
  /// process aborted first. Any thread may call it; it takes at most 0.1 s.
  virtual void abort(int status) noexcept = 0;
  /// Returns whether any process aborted this world.
  [[nodiscard]] virtual bool is_aborted() const noexcept = 0;
};

/// This process as one of a job. A process makes one such object in its life. The destructor ends
/// the whole job with status kBug unless finish() was called.
class JobProcess {
 public:
  JobProcess() = default;
  JobProcess(const JobProcess&) = delete;
  JobProcess& operator=(const JobProcess&) = delete;
  JobProcess(JobProcess&&) = delete;
  JobProcess& operator=(JobProcess&&) = delete;
  virtual ~JobProcess() = default;

  /// Returns how messages travel: "mpi" or "tcp".
  [[nodiscard]] virtual std::string transport() const = 0;
  /// Returns the rank of this process in the job, 0..size()-1.
  [[nodiscard]] virtual int rank() const = 0;
  /// Returns the number of processes in the job.
  [[nodiscard]] virtual int size() const = 0;
  /// Returns the name of this host.
  [[nodiscard]] virtual const std::string& host() const = 0;
  /// Returns the address by which other processes reach this host; empty stands for any address of
  /// the host.
  [[nodiscard]] virtual const std::string& address() const = 0;
  /// Returns the number of processes of the job on this host, including this one.
  [[nodiscard]] virtual int ranks_on_host() const = 0;
  /// Returns this process's place among those of the job on this host, from 0.
  [[nodiscard]] virtual int place_on_host() const = 0;

  /// Makes a world whose ranks are the first `size` processes. All processes make the same worlds
  /// in the same order, one at a time: the next one after the last world and its ends are gone. The
  /// call does not wait for other processes. The job must outlive the world.
  [[nodiscard]] virtual std::unique_ptr<JobWorld> make_world(int size,
                                                             CollectiveAlgorithm algorithm) = 0;

  /// Waits for all processes and returns `status`, for main() to return. It is the last call of
  /// every process. After JobWorld::abort() by any process it returns the status given there. If a
  /// process then does not come within two seconds, it ends the job with that status and does not
  /// return.
  [[nodiscard]] virtual int finish(int status) noexcept = 0;
  /// Returns the rank that finish() waits for first. On rank 0 that is a rank that has not come; on
  /// other ranks it is rank 0. Any thread may call it.
  [[nodiscard]] virtual int awaited_at_end() const noexcept = 0;
  /// Returns the message of the PeerLost that this process would throw or threw, which says which
  /// process is gone. It is empty when none is gone or another process throws it.
  [[nodiscard]] virtual std::string loss() const = 0;
};

}  // namespace ptdp
