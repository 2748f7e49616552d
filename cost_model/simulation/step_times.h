// How long the actions of a schedule take, and what they share: what the simulator is given.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/units.h"

namespace ptdp {

/// How long the actions of one virtual stage take for one microbatch.
struct StageDurations {
  Seconds forward;
  Seconds backward;  ///< The whole; as a rule the sum of the two below.
  Seconds input_gradient;
  Seconds weight_gradient;
  Seconds recompute;  ///< Where it is an action of its own; else part of backward.
  /// What a forward pass, and a whole backward pass, takes longer before the first backward pass of
  /// its rank and after the last forward one: nothing else hides the dispatch to experts there.
  Seconds alone = {};
};

/// The same with whole backward passes as long as their halves.
[[nodiscard]] StageDurations stage_durations(Seconds forward, Seconds input_gradient,
                                             Seconds weight_gradient, Seconds alone = {});

/// Adds so much to the passes of a model on one stage, cut into as many chunks as there are.
void add_to_passes(Seconds forward, Seconds backward, std::vector<StageDurations>& stages);

/// A message or a collective that has the links to itself takes latency + transfer.
struct TransferTime {
  Seconds latency;   ///< During which no link is busy.
  Seconds transfer;  ///< At the full rate of the link.

  [[nodiscard]] Seconds total() const { return latency + transfer; }
};

/// A rank of the pipeline that computes slower than the others.
struct Straggler {
  int rank = 0;
  double factor = 1.0;  ///< Of the time of its compute; above 1: slower.
};

/// Random durations: each compute action times a factor of its own, exp(σz) with a standard normal
/// z that depends on the seed, the rank and the action alone.
struct Jitter {
  double sigma = 0.0;
  std::uint64_t seed = 0;
};

/// Everything that a step's timing rests on besides its schedule. Per rank means per rank of one
/// pipeline: the members of a tensor-parallel group and the replicas do the same at the same time.
struct StepTimes {
  std::vector<StageDurations> stages;  ///< By virtual stage; one stands for all.

  MessageMode messages = MessageMode::kOverlapped;
  TransferTime within_node;       ///< One message between neighbours on a node.
  TransferTime across_nodes;      ///< Likewise on two.
  std::vector<int> node_of = {};  ///< By rank of the pipeline; empty: all on one node.
  /// By rank of the pipeline, a message to the next one, of the last to the first, and back; empty:
  /// one of the two above.
  std::vector<TransferTime> hops = {};
  /// Whether transfers that use a rank's link in the same direction at the same time share it.
  bool shares_links = false;

  std::vector<TransferTime> reductions = {};  ///< By virtual stage: one bucket. One stands for all.
  std::vector<TransferTime> gathers = {};     ///< Likewise, of parameters.
  DataMode data = DataMode::kOverlapped;
  bool data_is_across_nodes = false;  ///< Which link the two above use.
  TransferTime tied;                  ///< The tied embedding's all-reduce.
  Seconds norm;
  bool ranks_meet = true;  ///< For the two above; else each goes on as soon as it has come there.
  std::vector<Seconds> optimizer = {};  ///< By rank; one stands for all.
  double overlap_slowdown = 0.0;        ///< Compute lost while a collective of the data lane runs.

  std::vector<Straggler> stragglers = {};
  Jitter jitter = {};
};

/// Whether two ranks of the pipeline lie on one node.
[[nodiscard]] bool is_within_node(const StepTimes& times, int rank, int other);
/// What a message between neighbouring ranks of the pipeline takes, either way.
[[nodiscard]] const TransferTime& message_between(const StepTimes& times, int rank, int other);

}  // namespace ptdp
