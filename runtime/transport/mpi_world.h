// Ranks as processes, started by mpirun or srun.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

class MpiEngine;
class MpiWorldState;

/// Whether this program was built with MPI.
[[nodiscard]] bool has_mpi();

/// This process as one of a job. One object at a time, and one in the life of a process.
class MpiProcess {
 public:
  /// Initialises MPI; waits for all processes of the job. Throws Error(kBadInput) where the program
  /// was built without MPI, Error(kRuntimeFault) where MPI does not start.
  MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;
  MpiProcess(MpiProcess&&) = delete;
  MpiProcess& operator=(MpiProcess&&) = delete;
  /// Ends the whole job with status kBug unless finish() was called.
  ~MpiProcess();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const std::string& host() const;
  /// Processes of the job on this host, this one included.
  [[nodiscard]] int ranks_on_host() const;
  /// Its place among them, from 0.
  [[nodiscard]] int place_on_host() const;

  /// The last call, of all processes, which wait for each other in it: ends MPI and returns
  /// `status`, for main to return. After MpiWorld::abort, of any process, it returns the status
  /// given there; where a process does not come within two seconds, it ends the job with that
  /// status and does not return.
  [[nodiscard]] int finish(int status) noexcept;

  [[nodiscard]] const std::shared_ptr<MpiEngine>& engine() const { return engine_; }

 private:
  std::shared_ptr<MpiEngine> engine_;
};

/// The first `size` processes of a job as the ranks of a world. All processes make the same worlds
/// in the same order, one at a time: the next once the last and its ends are gone. Nobody waits for
/// the others in it.
class MpiWorld {
 public:
  MpiWorld(MpiProcess& process, int size, CollectiveAlgorithm algorithm);

  /// The end of this process, one of the first `size`; to be called once. `backend` must outlive it
  /// and the groups made of it. Ends of different groups may be used by different threads at once.
  /// Buffers are in the host's memory, or in a backend's that copies from and to it and reduces.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(Backend& backend);
  /// Ends all communication, on all processes: whoever waits for a message, and every call from
  /// here on, throws Aborted; other processes hear of it in their next call. `status` is what the
  /// job ends with unless another process's came first. Of any thread, takes 0.1 s at most.
  void abort(int status) noexcept;
  [[nodiscard]] bool is_aborted() const noexcept;

 private:
  std::shared_ptr<MpiWorldState> state_;
  int size_ = 1;
};

}  // namespace ptdp
