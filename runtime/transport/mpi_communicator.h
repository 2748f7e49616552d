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
#include "runtime/transport/mpi_engine.h"
#include "runtime/transport/request_places.h"

namespace ptdp {

/// What the ends of a world share. The world ends with the last of them.
class MpiWorldState {
 public:
  MpiWorldState(std::shared_ptr<MpiEngine> engine, CollectiveAlgorithm algorithm)
      : engine_(std::move(engine)), algorithm_(algorithm), number_(engine_->begin_world()) {}
  MpiWorldState(const MpiWorldState&) = delete;
  MpiWorldState& operator=(const MpiWorldState&) = delete;
  MpiWorldState(MpiWorldState&&) = delete;
  MpiWorldState& operator=(MpiWorldState&&) = delete;
  ~MpiWorldState() { engine_->end_world(); }

  [[nodiscard]] MpiEngine& engine() const { return *engine_; }
  [[nodiscard]] CollectiveAlgorithm algorithm() const { return algorithm_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }

 private:
  std::shared_ptr<MpiEngine> engine_;
  CollectiveAlgorithm algorithm_;
  std::uint32_t number_;
};

/// Processes that talk to each other, apart from other groups.
struct MpiGroup {
  /// Formed alike by all members, each by itself, out of what makes a group: 64 bits, so that two
  /// of a thousand groups are the same once in 10^13 jobs.
  std::uint64_t id = 0;
  std::vector<int> members;  ///< Ranks of the job.
};

/// Made by MpiWorld. Sends are copied; a message is copied again when it is waited for. Buffers are
/// touched in calls of this end alone.
class MpiCommunicator final : public MessageCommunicator {
 public:
  MpiCommunicator(std::shared_ptr<MpiWorldState> world, MpiGroup group, int rank, Backend& backend);
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  MpiCommunicator(MpiCommunicator&&) = delete;
  MpiCommunicator& operator=(MpiCommunicator&&) = delete;
  ~MpiCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(group_.members.size()); }
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override;
  void abort(ExitStatus status) noexcept override { engine().abort(static_cast<int>(status)); }

 protected:
  [[nodiscard]] Request start_send(Buffer buffer, int to, Traffic traffic) override;
  [[nodiscard]] Request start_receive(Buffer buffer, int from, Traffic traffic) override;
  [[nodiscard]] Request start_combine(Buffer to, int from, Reduction reduction) override;
  void wait_all(std::span<const Request> requests) override;
  void withdraw_collectives() noexcept override;

 private:
  [[nodiscard]] Request expect(Buffer buffer, int from, Traffic traffic,
                               std::optional<Reduction> reduction);
  [[nodiscard]] std::uint64_t channel(Traffic traffic) const;
  [[nodiscard]] int member(int rank) const {
    return group_.members[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Mailbox& mailbox(int from, Traffic traffic);
  void take(MpiReceive& receive);
  void combine_received(Buffer sent, Buffer to, Reduction reduction);

  [[nodiscard]] MpiEngine& engine() const { return world_->engine(); }

  std::shared_ptr<MpiWorldState> world_;
  MpiGroup group_;
  int rank_;
  bool is_on_device_;
  std::map<std::pair<std::vector<int>, int>, std::uint64_t> groups_made_;  ///< By ranks and tag.
  std::vector<Mailbox*> mailboxes_;  ///< [traffic][from]; null before their first use.
  RequestPlaces<MpiReceive> receives_;
};

}  // namespace ptdp
