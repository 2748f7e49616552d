// State of the event-driven engine: where every lane of every rank is, at one time for all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/engine/action_durations.h"
#include "cost_model/simulation/engine/activity_clock.h"
#include "cost_model/simulation/engine/step_engines.h"
#include "cost_model/simulation/engine/step_layout.h"

namespace ptdp {

/// One simulation of a step in which transfers share links or slow compute. What a lane does is an
/// activity of the clock. The activity of a message is that of the sender's lane of its direction,
/// even if messages occupy the lanes that compute. Compute is in contended_compute.cpp, the rest in
/// contended_engine.cpp.
class ContendedWalk {
 public:
  ContendedWalk(const Schedule& schedule, const StepTimes& times, SpansOut spans);

  /// Runs the simulation once. Throws Error at a deadlock.
  SimulatedTimes run();

 private:
  struct LaneState {
    /// Position of the action on the lane, or one before its next action.
    std::size_t position = 0;
    bool is_busy = false;
    /// Whether the lane waits for other ranks, one of which will start its action.
    bool is_waiting = false;
  };
  struct Rank {
    std::array<LaneState, kNumLanes> lanes;
    std::optional<double> start;
    double end = 0.0;
    double compute_end = 0.0;
    double gathers = 0.0;  ///< Time the rank gathered before it could begin [s].
    double work = 0.0;
    int live = 0;  ///< Activations held.
    int peak = 0;
  };
  /// State of one of a rank's virtual stages.
  struct Chunk {
    std::size_t last_weight_gradient = 0;  ///< Position of the stage's last weight gradient.
    int num_buckets = 0;                   ///< Buckets of gradients that are reduced.
    int num_ready = 0;                     ///< Buckets of gradients that may be reduced by now.
    int num_gathers = 0;                   ///< Buckets of parameters that are gathered.
    int num_missing = 0;                   ///< Buckets of parameters that are not gathered yet.
  };
  /// What the event of an activity is the end of.
  enum class Phase : std::uint8_t { kIdle, kWaitForInput, kCompute, kRun, kLatency, kTransfer };
  /// What the clock does not know about an activity.
  struct Activity {
    double start = 0.0;
    int receiver = 0;
    Phase phase = Phase::kIdle;
    /// Whether a forward pass waits until more of its parameters are there.
    bool is_stalled = false;
  };
  /// Ranks that wait for others to come to the same action.
  using Rendezvous = std::vector<int>;

  static int id_of(int rank, Lane lane) { return rank * kNumLanes + static_cast<int>(lane); }
  static Lane lane_of(Direction direction) {
    return direction == Direction::kForward ? Lane::kForwardMessages : Lane::kBackwardMessages;
  }
  LaneState& lane(int rank, Lane lane) {
    return ranks_[rank].lanes[static_cast<std::size_t>(lane)];
  }
  /// Returns the lane that a message of this rank occupies.
  LaneState& message_lane(int rank, Direction direction) {
    return lane(rank, is_blocking_ ? Lane::kCompute : lane_of(direction));
  }
  /// Whether a collective has a lane of its own.
  [[nodiscard]] bool overlaps(ActionKind kind) const {
    return ptdp::lane_of(kind, MessageMode::kBlocking, data_) == Lane::kData;
  }
  /// Returns the lane of the collective that a rank runs; it runs one at a time.
  LaneState& collective_lane(int rank) {
    LaneState& data = lane(rank, Lane::kData);
    return data.is_busy ? data : lane(rank, Lane::kCompute);
  }
  const Action& head(int rank, Lane on) { return schedule_.orders[rank][lane(rank, on).position]; }
  Chunk& chunk_of(const Action& action, int rank) {
    return chunks_[layout_.chunk_slot(action.stage, rank)];
  }
  template <class T>
  static T& of(std::array<T, kNumDirections>& tables, Direction direction) {
    return tables[static_cast<std::size_t>(direction)];
  }

  void look_ahead(int rank);
  void handle(int id);
  void expect_done(int rank) const;

  /// Starts what can start on a rank.
  void advance(int rank);
  void advance_data(int rank);
  void advance_messages(int rank, Direction direction);
  void advance_compute(int rank);

  // Messages and collectives.
  void send(const Action& action, int rank, LaneState& state);
  void collect(const Action& action, int rank, LaneState& state);
  void begin_transfer(int id, const TransferTime& time, int receiver, bool is_within_node);
  void finish_transfer(int id);
  void finish_message(int sender, int receiver, Direction direction, double start);
  void finish_collective(int rank, double start);

  // What is on the compute lane.
  void compute(const Action& action, int rank, const LaneState& state);
  bool copy(const Action& action, int rank, LaneState& state);
  void meet(Rendezvous& meeting, std::size_t num_ranks, double duration, int rank);
  double input_time(const Action& action, int rank, bool is_in_pair);
  void occupy(int rank, Phase phase, double duration);
  void plan_buckets(int id, int rank);
  bool plan_gathers(int id, int rank);
  void use_gathered(int rank);
  void count_ready_buckets(int id, int rank, double left);
  template <class Visit>
  void for_each_reducing(int rank, const Visit& visit);
  void compute_on(int id, int rank);
  void finish_compute(int id, int rank);
  void note_result(const Action& action, int rank);
  void make(const Action& action, int rank, Direction direction);

  /// Whether the data lane has done what stands before the action of the compute lane.
  bool has_drained(int rank) {
    return data_ == DataMode::kBlocking ||
           lane(rank, Lane::kData).position > lane(rank, Lane::kCompute).position;
  }
  /// Returns the rate of compute that is not stalled.
  double compute_rate(int rank) {
    return lane(rank, Lane::kData).is_busy ? 1.0 - times_.overlap_slowdown : 1.0;
  }
  void start_phase(int id, Phase phase, double duration, double rate = 1.0) {
    activities_[id].phase = phase;
    clock_.start(id, duration, rate);
  }
  void rest(int id) {
    activities_[id].phase = Phase::kIdle;
    clock_.rest(id);
  }
  void record(int rank, std::size_t position, double start) {
    ranks_[rank].end = clock_.now();
    if (spans_ != nullptr) {
      (*spans_)[rank][position] = {Seconds(start), Seconds(clock_.now())};
    }
  }

  const Schedule& schedule_;
  const StepTimes& times_;
  StepLayout layout_;
  ActionDurations durations_;
  bool is_blocking_;
  bool is_implied_;
  bool has_message_lanes_;
  DataMode data_;
  SpansOut spans_;
  ActivityClock clock_;
  std::vector<Activity> activities_;  ///< Activities by rank and lane.
  // Tables by direction, stage and microbatch. They say whether F or the input gradient is done;
  // whether a stage has its message, and when that was; and when an implied message arrives [s].
  std::array<std::vector<bool>, kNumDirections> made_;
  std::array<std::vector<bool>, kNumDirections> delivered_;
  /// Spans of messages; empty if nobody wants spans.
  std::array<std::vector<Span>, kNumDirections> messages_;
  std::array<std::vector<double>, kNumDirections> implied_arrivals_;
  std::vector<Rank> ranks_;
  std::vector<Chunk> chunks_;
  Rendezvous tied_;
  Rendezvous norm_;
};

}  // namespace ptdp
