// One process's end of a group of processes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/transport/message_communicator.h"
#include "runtime/transport/processes/process_engine.h"
#include "runtime/transport/request_table.h"

namespace ptdp {

/// The state that all ends of a world in this process share. The world ends with the last of its
/// ends.
class ProcessWorldState {
 public:
  ProcessWorldState(std::shared_ptr<ProcessEngine> engine, CollectiveAlgorithm algorithm)
      : engine_(std::move(engine)), algorithm_(algorithm), number_(engine_->begin_world()) {}
  ProcessWorldState(const ProcessWorldState&) = delete;
  ProcessWorldState& operator=(const ProcessWorldState&) = delete;
  ProcessWorldState(ProcessWorldState&&) = delete;
  ProcessWorldState& operator=(ProcessWorldState&&) = delete;
  ~ProcessWorldState() { engine_->end_world(); }

  [[nodiscard]] ProcessEngine& engine() const { return *engine_; }
  [[nodiscard]] CollectiveAlgorithm algorithm() const { return algorithm_; }
  /// Returns the number of the world within the job, from 1.
  [[nodiscard]] std::uint32_t number() const { return number_; }

 private:
  std::shared_ptr<ProcessEngine> engine_;
  CollectiveAlgorithm algorithm_;
  std::uint32_t number_;
};

/// A group of processes whose messages are separate from those of other groups.
struct ProcessGroup {
  /// A hash of what makes the group, which every member computes by itself. It has 64 bits, so that
  /// two of a thousand groups collide once in 10^13 jobs.
  std::uint64_t id = 0;
  std::vector<int> members;  ///< The members' ranks in the job, by rank in the group.
};

/// One process's end of a group of processes, made by JobWorld. A send copies its buffer; a message
/// is copied again when it is waited for. Only calls of this end touch the buffers.
class ProcessCommunicator final : public MessageCommunicator {
 public:
  ProcessCommunicator(std::shared_ptr<ProcessWorldState> world, ProcessGroup group, int rank,
                      Backend& backend);
  ProcessCommunicator(const ProcessCommunicator&) = delete;
  ProcessCommunicator& operator=(const ProcessCommunicator&) = delete;
  ProcessCommunicator(ProcessCommunicator&&) = delete;
  ProcessCommunicator& operator=(ProcessCommunicator&&) = delete;
  ~ProcessCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(group_.members.size()); }
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override;
  void abort(ExitStatus status) noexcept override { engine().abort(static_cast<int>(status)); }

 protected:
  [[nodiscard]] Request start_send(Buffer buffer, int to, Traffic traffic) override;
  [[nodiscard]] Request start_receive(Buffer buffer, int from, Traffic traffic,
                                      std::optional<Reduction> reduction) override;
  void wait_all(std::span<const Request> requests) override;
  void withdraw_collectives() noexcept override;

 private:
  /// Returns the number by which packets name this group and a kind of traffic.
  [[nodiscard]] std::uint64_t channel(Traffic traffic) const;
  /// Returns the rank in the job of rank `rank` of this group.
  [[nodiscard]] int member(int rank) const {
    return group_.members[static_cast<std::size_t>(rank)];
  }
  /// Returns the mailbox for messages of rank `from` of this group.
  [[nodiscard]] Mailbox& mailbox(int from, Traffic traffic);
  /// Copies an arrived packet into its buffer, or combines it, and frees `receive`. Throws
  /// Error(kRuntimeFault) when sizes or types differ.
  void take(ProcessReceive& receive);
  /// Combines elements in host memory with `to`, which may be in device memory.
  void combine_received(Buffer sent, Buffer to, Reduction reduction);

  [[nodiscard]] ProcessEngine& engine() const { return world_->engine(); }

  std::shared_ptr<ProcessWorldState> world_;
  ProcessGroup group_;
  int rank_;
  bool is_on_device_;
  /// Numbers of calls of group(), by ranks and tag.
  std::map<std::pair<std::vector<int>, int>, std::uint64_t> groups_made_;
  std::vector<Mailbox*> mailboxes_;  ///< Mailboxes by [traffic][from]; null before their first use.
  RequestTable<ProcessReceive> receives_;
};

}  // namespace ptdp
