// A communicator for running one rank of a large plan alone: every message is free.
#pragma once

#include <memory>
#include <span>

#include "runtime/transport/communicator.h"

namespace ptdp {

/// One rank's end of a group whose other ranks do not exist. Sends go nowhere; receives and
/// collectives leave their buffers unchanged. The rank thus does the work of its place, on
/// meaningless values.
///
/// Bytes that it would send are counted, for collectives as the ring sends them. A
/// reduce-scatter sends all but this rank's part, and an all-gather all but the next rank's part.
/// Parts differ in size when the group size does not divide the buffer.
class SoloCommunicator final : public Communicator {
 public:
  SoloCommunicator(int rank, int size);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override;

  [[nodiscard]] Request send(Buffer buffer, int to) override;
  [[nodiscard]] Request receive(Buffer buffer, int from) override;
  void wait(Request request) override;
  void all_reduce(Buffer whole, Reduction reduction) override;
  void reduce_scatter(Buffer whole) override;
  void all_gather(Buffer whole) override;
  void barrier() override;
  [[nodiscard]] const SentBytes& sent() const override { return sent_; }
  void abort(ExitStatus) noexcept override {}  // nobody waits

 private:
  /// Adds one message of `bytes` bytes to the counts of `kind`.
  void count(CollectiveKind kind, std::int64_t bytes);

  int rank_;
  int size_;
  SentBytes sent_ = {};
};

}  // namespace ptdp
