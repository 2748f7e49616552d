// AdamW over what a rank holds of the model, with or without sharded states (ZeRO).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "runtime/parameters/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// The ranges in a store's flat coordinates that bucket k of n reduces and gathers, one collective
/// each. The tied embedding is a range of bucket 0 by itself, so that the first and the last stage
/// cut it alike; the rest is cut into n. The units of a sharded store are a range each.
[[nodiscard]] std::vector<Part> reduction_ranges(const ParameterStore& store, int bucket,
                                                 int num_buckets);

/// A store, and this rank's share in the work on it.
struct StoreShare {
  ParameterStore* store = nullptr;  ///< Allocated; outlives the optimizer.
  int num_buckets = 1;
  int group_size = 1;  ///< Ranks that hold the same of the model and sum gradients: d.
  int group_rank = 0;  ///< This one's place among them, i.
  /// ZeRO: of each range of reduction_ranges the rank updates part_of(range, d, i) alone; else it
  /// updates all.
  bool shards_states = false;
  /// Whether the tied embedding's gradient counts in the norm here: on one of the stages that hold
  /// it.
  bool counts_tied = true;
  /// Whether gradients of replicated parameters do: on one tensor-parallel rank.
  bool counts_replicated = true;
  /// Whether any of them do: on one of the ranks of a pipeline that hold the same stage, unless
  /// they shard it.
  bool counts = true;
};

/// A run of elements of one parameter that this rank updates.
struct OwnedSlice {
  ParameterId parameter = 0;
  Part range;      ///< In the store's flat coordinates.
  Buffer weights;  ///< Working type.
  Buffer gradient;
  Buffer master;  ///< Accumulator type; the weights themselves where that is their type.
  Buffer moment1;
  Buffer moment2;
};

/// AdamW on the parameters of a rank's stores. Working types f64 and f32 are updated in place; bf16
/// and fp16 have f32 masters, which begin as the initial values before they were rounded. States
/// exist for what the rank updates, nothing else.
class Optimizer {
 public:
  /// Allocates the states.
  Optimizer(Backend& backend, std::vector<StoreShare> shares);

  /// total (f64, one element) += Σ g² of the gradients that this rank updates with and that count.
  /// Summed over the ranks of a replica, or where states are sharded over all ranks, each parameter
  /// of the model counts once. Gradients must be reduced.
  void add_squares(Buffer total);

  /// One step on what this rank updates: new states, and new weights there. `weight_decay` applies
  /// to parameters that decay. Afterwards all gradients are 0.
  void step(const AdamW& settings);
  /// Instead of a step that is skipped.
  void zero_gradients();

  /// What this rank updates of the n-th store, ascending.
  [[nodiscard]] std::span<const OwnedSlice> owned_slices(int store) const {
    return states_[store].slices;
  }
  /// What of it this rank saves: all ranks together save every parameter of the model once.
  [[nodiscard]] std::vector<OwnedSlice> saved_slices(int store) const;
  [[nodiscard]] std::span<const StoreShare> shares() const { return shares_; }

  /// Weights of what this rank updates from its masters, after these were filled from a checkpoint.
  /// Where states are sharded the others' weights must be gathered.
  void round_masters();

 private:
  /// Of one store.
  struct States {
    Tensor masters;  ///< Empty where the weights are the masters.
    Tensor moments1;
    Tensor moments2;
    std::vector<OwnedSlice> slices;
    std::vector<Part> counted;  ///< Whose squares count.
    std::vector<Part> saved;
  };

  [[nodiscard]] States make_states(const StoreShare& share);

  Backend* backend_;
  std::vector<StoreShare> shares_;
  std::vector<States> states_;
};

/// By how much gradients are multiplied so that their norm is at most `largest_norm` (0: any):
/// min(1, largest_norm/(norm + 10^-6)). Source: clip_grad_norm_ of PyTorch, as Megatron-LM.
[[nodiscard]] double clipping_coefficient(double norm, double largest_norm);

/// AdamW::gradient_scale for gradients that carry a loss scale (1: none). `squares` is Σ g² of all,
/// as stored; where it is not finite the step must be skipped.
[[nodiscard]] double gradient_scale(double squares, double largest_norm, double loss_scale);

}  // namespace ptdp
