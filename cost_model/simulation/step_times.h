// What the simulator is given: how long the actions of a schedule take, and what they share.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/units.h"

namespace ptdp {

/// How long the actions of one virtual stage take for one microbatch.
struct StageDurations {
  Seconds forward;
  Seconds backward;  ///< A whole backward pass; as a rule the sum of input and weight gradient.
  Seconds input_gradient;
  Seconds weight_gradient;
  /// A recomputation that is an action of its own; otherwise it is part of `backward`.
  Seconds recompute;
  /// Extra time of a forward pass before its rank's first backward pass, and of a whole backward
  /// pass after its rank's last forward pass. No other pass hides the dispatch to experts there.
  Seconds alone = {};

  friend bool operator==(const StageDurations&, const StageDurations&) = default;
};

/// Returns the durations of a stage whose whole backward pass takes as long as its two halves.
[[nodiscard]] StageDurations stage_durations(Seconds forward, Seconds input_gradient,
                                             Seconds weight_gradient, Seconds alone = {});

/// Adds `forward` and `backward` to the passes of a model that lies on one pipeline rank, in equal
/// shares over its chunks `stages`. The backward share goes to the input gradients.
void add_to_passes(Seconds forward, Seconds backward, std::vector<StageDurations>& stages);

/// Time of a message or a collective that has the links to itself: latency + transfer.
struct TransferTime {
  Seconds latency;   ///< Time during which no link is busy.
  Seconds transfer;  ///< Time at the full rate of the link.

  [[nodiscard]] Seconds total() const { return latency + transfer; }
};

/// A pipeline rank that computes slower than the others.
struct Straggler {
  int rank = 0;
  double factor = 1.0;  ///< Factor on the time of the rank's compute; above 1 is slower.
};

/// Random durations. Each compute action takes a factor of its own, exp(σz), z standard normal. z
/// depends on the seed, the rank and the action alone.
struct Jitter {
  double sigma = 0.0;
  std::uint64_t seed = 0;
};

/// Everything that a step's timing rests on besides its schedule. "Per rank" means per rank of one
/// pipeline: the members of a tensor-parallel group and the replicas do the same at the same time.
struct StepTimes {
  std::vector<StageDurations> stages;  ///< Durations by virtual stage; one stands for all.

  MessageMode messages = MessageMode::kOverlapped;
  TransferTime within_node;       ///< One message between pipeline neighbors on one node.
  TransferTime across_nodes;      ///< One message between pipeline neighbors on two nodes.
  std::vector<int> node_of = {};  ///< Node of each pipeline rank; empty: all on one node.
  /// One message between each pipeline rank and the next (the last and the first), either way.
  /// Empty: within_node or across_nodes.
  std::vector<TransferTime> hops = {};
  /// Whether transfers that use a rank's link in the same direction at the same time share it.
  bool shares_links = false;

  /// One bucket of gradients, by virtual stage; one stands for all.
  std::vector<TransferTime> reductions = {};
  /// One bucket of parameters, by virtual stage; one stands for all.
  std::vector<TransferTime> gathers = {};
  DataMode data = DataMode::kOverlapped;
  bool data_is_across_nodes = false;  ///< Whether reductions and gathers use links across nodes.
  TransferTime tied;                  ///< The tied embedding's all-reduce.
  /// The all-reduce of the gradients' norm.
  Seconds norm;
  /// Whether ranks wait for one another at TIED and NORM; if not, each goes on as it has come
  /// there.
  bool ranks_meet = true;
  std::vector<Seconds> optimizer = {};  ///< Optimizer step by pipeline rank; one stands for all.
  /// Share of compute that is lost while a collective of the data lane runs.
  double overlap_slowdown = 0.0;

  std::vector<Straggler> stragglers = {};
  Jitter jitter = {};
};

/// Whether two pipeline ranks lie on one node.
[[nodiscard]] bool is_within_node(const StepTimes& times, int rank, int other);
/// Returns what a message between neighboring pipeline ranks takes, either way.
[[nodiscard]] const TransferTime& message_between(const StepTimes& times, int rank, int other);

}  // namespace ptdp
