// All that this process does with MPI.
#pragma once

#include <mpi.h>

#include <deque>
#include <string>
#include <vector>

#include "runtime/transport/processes/process_engine.h"

namespace ptdp {

/// Over MPI, which only touches memory of the engine's own.
class MpiEngine final : public ProcessEngine {
 public:
  /// Initialises MPI: once per process. Throws Error(kRuntimeFault).
  MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;
  MpiEngine(MpiEngine&&) = delete;
  MpiEngine& operator=(MpiEngine&&) = delete;
  ~MpiEngine() override;

  [[nodiscard]] std::string transport() const override { return "mpi"; }
  /// After an abort, where a process does not come within two seconds, MPI_Abort ends the job with
  /// the status and this does not return.
  [[nodiscard]] int finish(int status) noexcept override;

 protected:
  void start_send(Packet packet, int to) override;
  void progress() override;
  [[nodiscard]] bool has_unsent() const override { return !send_requests_.empty(); }
  void spread_abort(int status) override;

 private:
  struct Arrival {
    int from = 0;
    int tag = 0;
    Packet packet;
    MPI_Request request = MPI_REQUEST_NULL;
    bool is_complete = false;
  };

  void accept(MPI_Message message, const MPI_Status& status);
  void complete_arrivals();
  void complete_sends();
  [[nodiscard]] bool all_came();

  MPI_Comm all_ = MPI_COMM_NULL;
  MPI_Datatype block_ = MPI_DATATYPE_NULL;
  std::deque<Arrival> arrivals_;
  std::vector<MPI_Request> send_requests_;
  std::vector<Packet> sent_packets_;  ///< Beside them.
  std::vector<int> done_;
};

}  // namespace ptdp
