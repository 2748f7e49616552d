// Makes units of a sharded store whole for the passes that work with them (ZeRO-2 and -3).
#pragma once

#include <map>

#include "kernels/backend.h"
#include "runtime/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// How a stage's parameters are sharded between passes.
struct Sharding {
  /// The ranks that hold the same parameters, for calls within passes; null: nothing is sharded.
  Communicator* group = nullptr;
  bool of_weights = false;  ///< ZeRO-3; else gradients alone, ZeRO-2.
  /// Whether gathered weights stay from a microbatch's forward pass to its backward pass.
  bool keeps_weights = false;
};

/// What a pass does around each unit. All ranks of the group call it in the same order. Nothing
/// happens where nothing is sharded.
class ShardedUnits {
 public:
  /// What is referred to must outlive it.
  ShardedUnits(Backend& backend, ParameterStore& store, const Sharding& sharding)
      : backend_(backend), store_(store), sharding_(sharding) {}

  void begin_forward(int unit);
  void end_forward(int unit);
  /// Before a unit's input gradient: with whole weights its gradients are whole too.
  void begin_backward(int unit);
  /// The unit's weights are not needed any more by this microbatch.
  void end_backward(int unit);
  /// Before weight gradients are formed apart from input gradients.
  void open_gradients(int unit);
  /// Adds this rank's part of the sum over the group to its shard, and releases the whole.
  void reduce_gradients(int unit);

 private:
  void gather_weights(int unit);
  void release_weights(int unit);

  Backend& backend_;
  ParameterStore& store_;
  Sharding sharding_;
  std::map<int, int> users_;  ///< By unit: microbatches that need its weights whole.
};

}  // namespace ptdp
