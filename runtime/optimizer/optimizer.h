// AdamW over what a rank holds of the model, with or without sharded states (ZeRO).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "runtime/parameters/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Returns the ranges in a store's flat coordinates that bucket k of n reduces and gathers, one
/// collective each. The tied embedding is a range of bucket 0 by itself, so that the first and the
/// last stage cut it alike. The rest is cut into n. In a sharded store each unit is a range. All
/// begin and end at multiples of 64·d, with d the store's shards().group_size, and include padding.
[[nodiscard]] std::vector<Part> reduction_ranges(const ParameterStore& store, int bucket,
                                                 int num_buckets);

/// A parameter store, and this rank's share in the work on it.
struct StoreShare {
  /// The store, already allocated; it must outlive the optimizer.
  ParameterStore* store = nullptr;
  /// Number of buckets that the store is cut into.
  int num_buckets = 1;
  int group_size = 1;  ///< Number d of ranks that hold the same parameters and sum gradients.
  int group_rank = 0;  ///< Place i of this rank among them.
  /// Whether optimizer states are sharded (ZeRO). Then the rank updates only part_of(range, d, i)
  /// of each range of reduction_ranges(), and the store's shards().group_size must be d. Otherwise
  /// it updates all.
  bool shards_states = false;
  /// Whether the tied embedding's gradient counts in the norm here. It must count on one of the
  /// stages that hold it.
  bool counts_tied = true;
  /// Whether gradients of replicated parameters count in the norm here. They must count on one
  /// tensor-parallel rank.
  bool counts_replicated = true;
  /// Whether any gradients of the store count in the norm here. With two ranks of a pipeline on one
  /// stage, they must count on one of the ranks, unless the ranks shard it.
  bool counts = true;
};

/// A run of elements of one parameter that this rank updates.
struct OwnedSlice {
  ParameterId parameter = 0;
  Part range;      ///< The elements, in the store's flat coordinates.
  Buffer weights;  ///< Weights of these elements, in the working type.
  Buffer gradient;
  /// Masters of these elements, in the accumulator type; the weights themselves when that is the
  /// weights' type.
  Buffer master;
  Buffer moment1;
  Buffer moment2;
};

/// AdamW on the parameters of a rank's stores. Weights of type f64 and f32 are updated in place.
/// Weights of bf16 and fp16 have f32 masters, which begin as the unrounded initial values. States
/// exist only for what the rank updates, padding included, so that they lie to multiples of 64
/// elements as their weights do.
class Optimizer {
 public:
  /// Allocates the states and rounds the weights from their masters.
  Optimizer(Backend& backend, std::vector<StoreShare> shares);

  /// Adds Σ g² to `total` (f64, one element), over the gradients that this rank updates with and
  /// that count. When summed over the ranks of a replica, each parameter of the model counts once.
  /// When states are sharded, sum over all ranks instead. Gradients must be reduced.
  void add_squares(Buffer total);

  /// Does one step on what this rank updates: new states, and new weights there. Weight decay
  /// applies only to parameters that decay. Afterwards all gradients are 0.
  void step(const AdamW& settings);
  /// Sets all gradients to 0, instead of a step that is skipped.
  void zero_gradients();

  /// Returns the slices that this rank updates in store number `store`, ascending.
  [[nodiscard]] std::span<const OwnedSlice> owned_slices(int store) const {
    return states_[store].slices;
  }
  /// Returns the slices that this rank saves of store number `store`. All ranks together save every
  /// parameter of the model once.
  [[nodiscard]] std::vector<OwnedSlice> saved_slices(int store) const;
  [[nodiscard]] std::span<const StoreShare> shares() const { return shares_; }
  /// Returns the bytes of the masters and moments of store number `store`, padding included.
  [[nodiscard]] std::int64_t state_bytes(int store) const;

  /// Rounds weights that this rank updates from its masters, after these were filled from a
  /// checkpoint. When states are sharded, weights of other ranks must then be gathered.
  void round_masters();

 private:
  /// Optimizer states of one store.
  struct States {
    Tensor masters;  ///< Masters of all slices; empty when the weights are the masters.
    Tensor moments1;
    Tensor moments2;
    /// Parts of the store that this rank updates, by parameter.
    std::vector<OwnedSlice> slices;
    std::vector<Part> counted;  ///< Ranges whose squares count in the norm.
    /// Ranges that this rank saves.
    std::vector<Part> saved;
  };

  [[nodiscard]] States make_states(const StoreShare& share);

  Backend* backend_;
  std::vector<StoreShare> shares_;
  std::vector<States> states_;
};

}  // namespace ptdp
