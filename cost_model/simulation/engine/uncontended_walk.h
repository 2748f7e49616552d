// State of the engine without a clock: how far every rank has come.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/engine/action_durations.h"
#include "cost_model/simulation/engine/step_engines.h"
#include "cost_model/simulation/engine/step_layout.h"

namespace ptdp {

/// What a schedule may have, as far as the inner loop cares: passes alone, which take half the
/// time, or a complete step.
enum class Extent : std::uint8_t { kPasses, kStep };

/// One simulation of a step in which nothing shares anything. Every rank goes on as far as it gets,
/// at its own time. What another rank comes to depend on is noted in tables of results. What
/// happens once per step is in uncontended_collectives.cpp, the rest in uncontended_engine.cpp.
class UncontendedWalk {
 public:
  /// Prepares a simulation; the schedule and the times must outlive it. Passes alone give no spans.
  UncontendedWalk(const Schedule& schedule, const StepTimes& times, Extent extent, SpansOut spans);

  /// Runs the simulation once. Throws Error at a deadlock.
  SimulatedTimes run();

 private:
  /// Times at which results are there [s]. A result that is not there has its sign set: it is −0 if
  /// a rank waits for it, else not a number.
  using Table = std::vector<double>;
  static constexpr double kNotThere = -std::numeric_limits<double>::quiet_NaN();
  static bool is_there(double result) { return !std::signbit(result); }
  /// Whether a rank waits for a result that is not there.
  static bool is_awaited(double result) { return result == 0.0; }
  static constexpr double kAwaited = -0.0;

  struct Lane {
    double free = 0.0;         ///< End of the last action on the lane [s].
    std::size_t position = 0;  ///< Position of the lane's next action, or one before that.
  };
  struct ComputeLane : Lane {
    double work = 0.0;
    int live = 0;  ///< Activations held.
    int peak = 0;
  };
  struct Rank {
    ComputeLane compute;
    /// Whether the rank waits for others, one of which will move its compute lane on.
    bool is_waiting = false;
    bool is_queued = false;
    /// Lanes of messages by direction; unused if messages block.
    std::array<Lane, kNumDirections> messages;
    double data_free = 0.0;
    double start = 0.0;  ///< Start of the rank's first action that computes [s].
    double compute_end = 0.0;
    double gathers = 0.0;  ///< Time the rank gathered before it could begin [s].
  };
  /// The result that an action waits for, and how long that result is under way [s].
  struct Input {
    double* result;
    double latency = 0.0;
  };
  /// State of one of a rank's virtual stages.
  struct Chunk {
    double first_gathered = 0.0;  ///< When the first bucket of its parameters is there [s].
    double gathered = 0.0;        ///< When the last bucket of its parameters is there [s].
    int num_gathers = 0;
    Span last_weight_gradient;  ///< Span of the last weight gradient that has run.
    int num_buckets = 0;        ///< Buckets of gradients, known once the first was met.
  };
  /// Ranks that wait for others to come to the same action.
  struct Rendezvous {
    std::vector<int> ranks = {};
    double latest = 0.0;
  };

  void wake(int rank) {
    if (!ranks_[rank].is_queued) {
      ranks_[rank].is_queued = true;
      runnable_.push_back(rank);
    }
  }

  void record(int rank, std::size_t position, double start, double end) {
    if (spans_ != nullptr) {
      (*spans_)[rank][position] = {Seconds(start), Seconds(end)};
    }
  }

  Table& made(Direction direction) { return made_[static_cast<std::size_t>(direction)]; }
  Table& arrived(Direction direction) { return arrived_[static_cast<std::size_t>(direction)]; }

  // The compute lane and the lanes of messages.
  /// Does the actions of all ranks. Everything in it is inlined, which GCC does not do by itself;
  /// that saves a quarter of the instructions. `flatten` has no effect at the definition of a
  /// template, nor on what is inlined itself.
  template <Extent kExtent>
  [[gnu::flatten, gnu::noinline]] void advance_all();
  void advance_passes(int rank);
  void advance_compute(int rank);
  void advance_messages(int rank, Direction direction);
  template <Extent kExtent>
  Input input_of(const Action& action, const ActionDurations::Passes& passes);
  template <Extent kExtent>
  bool compute(const Action& action, int rank, ComputeLane& lane);
  [[nodiscard]] double first_gathered_time(const Action& action, int rank) const;
  [[nodiscard]] double gathered_time(const Action& action, int rank) const;
  double gather_stall(const Action& action, int rank, double start, double duration);
  template <Extent kExtent>
  void finish(const Action& action, int rank, ComputeLane& lane, double start);
  void make(const Action& action, Direction direction, double end);
  bool send(const Action& action, int rank, Lane& lane);
  void deliver(Direction direction, int stage, int microbatch, double time);
  bool copy(const Action& action, int rank, Lane& lane);

  // What happens once per step.
  void collect(const Action& action, int rank, Rank& state);
  void count_buckets(int rank, std::size_t position);
  bool meet(Rendezvous& meeting, std::size_t num_ranks, double duration, int rank);
  void optimize(int rank, Rank& state);
  [[nodiscard]] RankTimes times_of(int rank) const;

  const Schedule& schedule_;
  StepLayout layout_;
  ActionDurations durations_;
  Extent extent_;
  bool is_blocking_;
  bool is_implied_;
  bool has_message_lanes_;
  DataMode data_;
  SpansOut spans_;
  // Tables by direction, stage and microbatch [s]. They say when F or the input gradient of a stage
  // is done and, if it is sent, when a stage has its activations or the gradient.
  std::array<Table, kNumDirections> made_;
  std::array<Table, kNumDirections> arrived_;
  /// When each message began; empty if nobody wants spans.
  std::array<Table, kNumDirections> sent_;
  /// The result that the first stage's forward pass waits for: always there.
  double always_ = 0.0;
  std::vector<Rank> ranks_;
  std::vector<Chunk> chunks_;
  std::vector<int> runnable_;
  Rendezvous tied_;
  Rendezvous norm_;
};

}  // namespace ptdp
