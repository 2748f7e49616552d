// One rank of a large plan alone: every message is free.
#pragma once

#include <memory>
#include <span>

#include "runtime/transport/communicator.h"

namespace ptdp {

/// An end whose other ranks are not there. Sends go nowhere; receives and collectives leave their
/// buffers as they are, so that a rank does the work of its place on values without meaning. What
/// it would send is counted, for collectives as the ring sends it: where the group does not divide
/// a buffer, that is all of it but the part of this rank (reduce-scatter) or of the next one
/// (all-gather).
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
  void count(CollectiveKind kind, std::int64_t bytes);

  int rank_;
  int size_;
  SentBytes sent_ = {};
};

}  // namespace ptdp
