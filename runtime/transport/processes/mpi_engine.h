// All calls that this process makes to MPI.
#pragma once

#include <mpi.h>

#include <deque>
#include <string>
#include <vector>

#include "runtime/transport/processes/process_engine.h"

namespace ptdp {

/// An engine that moves packets by MPI, which only touches memory of the engine.
class MpiEngine final : public ProcessEngine {
 public:
  /// Initializes MPI, which works once per process. Throws Error(kRuntimeFault) when MPI fails or
  /// lacks MPI_THREAD_SERIALIZED.
  MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;
  MpiEngine(MpiEngine&&) = delete;
  MpiEngine& operator=(MpiEngine&&) = delete;
  ~MpiEngine() override;

  [[nodiscard]] std::string transport() const override { return "mpi"; }
  /// Waits for all processes, ends MPI and returns `status`, or the status of an abort. If a
  /// process does not come within two seconds of an abort, MPI_Abort ends the job and the call does
  /// not return.
  [[nodiscard]] int finish(int status) noexcept override;

 protected:
  void start_send(Packet packet, int to) override;
  void progress() override;
  [[nodiscard]] bool has_unsent() const override { return !send_requests_.empty(); }
  void spread_abort(int status) override;

 private:
  /// A packet that MPI is receiving.
  struct Arrival {
    int from = 0;
    int tag = 0;
    Packet packet;
    MPI_Request request = MPI_REQUEST_NULL;
    bool is_complete = false;
  };

  /// Begins to receive the packet that a probe found.
  void accept(MPI_Message message, const MPI_Status& status);
  /// Hands complete packets to sort(), in the order of their sends.
  void complete_arrivals();
  /// Gives back the packets of finished sends.
  void complete_sends();
  /// Waits for all processes to come to finish(). Returns false when one has not come within two
  /// seconds of an abort.
  [[nodiscard]] bool all_came();

  MPI_Comm all_ = MPI_COMM_NULL;
  MPI_Datatype block_ = MPI_DATATYPE_NULL;
  std::deque<Arrival> arrivals_;
  std::vector<MPI_Request> send_requests_;
  std::vector<Packet> sent_packets_;  ///< Packets of `send_requests_`, at the same indices.
  std::vector<int> done_;             ///< Room for the indices that MPI_Testsome fills.
};

}  // namespace ptdp
