// The layers of one virtual stage of a model on one tensor-parallel rank: forward pass, backward
// pass, and the weight gradient by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/backend.h"
#include "runtime/model/layers/stage_settings.h"
#include "runtime/parameters/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// The layers that a virtual stage has, and its place in the model.
struct StageLayers {
  /// Number of the first layer, counted over the model.
  int first = 0;
  /// Number of layers.
  int count = 0;
  bool begins_model = false;  ///< Whether the stage has the embedding and positions.
  bool ends_model = false;    ///< Whether the stage has the final norm, logits and loss.
  /// Whether both ends of the model are on this rank, so that a tied embedding is one table, not
  /// two.
  bool holds_both_ends = false;
};

/// A callback with a place in the stage's flat coordinates [elements] (parameter_store.h). It may
/// be empty.
using PlaceListener = std::function<void(std::int64_t place)>;

/// The layers of one virtual stage on one rank. Activations and their gradients are [s, b, h] in
/// the working type; with sequence parallelism, this rank's 1/t of the sequence. For each
/// microbatch, call forward, backward_input and backward_weights once each in this order, or
/// forward and backward. Results have the same bits either way. Calls for other microbatches may
/// come between. forward() allocates what a microbatch keeps, and it is released piece by piece
/// until backward_weights() returns; MEMORY.md lists it.
class TransformerStage {
 public:
  /// Declares and initializes the parameters. `backend` and `tensor_group` must outlive the stage.
  /// tp must divide the query heads, the key heads, the MLP's width and, with sequence
  /// parallelism, s. `table` is the store of the tied embedding when another stage of this rank
  /// declared it (layers.holds_both_ends and not begins_model). Otherwise it is null.
  TransformerStage(Backend& backend, Communicator& tensor_group, const StageSettings& settings,
                   const StageLayers& layers, ParameterStore* table);
  TransformerStage(const TransformerStage&) = delete;
  TransformerStage& operator=(const TransformerStage&) = delete;
  TransformerStage(TransformerStage&&) = delete;
  TransformerStage& operator=(TransformerStage&&) = delete;
  ~TransformerStage();

  /// Returns the stage's output. A stage that ends the model returns an empty tensor and adds the
  /// losses of all tokens to loss_total(). `input` is empty when the stage begins the model.
  /// `before_use` is called before parameters in front of a place are used. Its places ascend;
  /// parameters of the ends of the model come first.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Tensor input,
                               const PlaceListener& before_use = {});
  /// Returns the gradient of the stage's input; empty when the stage begins the model.
  /// `output_gradient` is empty when the stage ends it.
  [[nodiscard]] Tensor backward_input(const Microbatch& microbatch, Tensor output_gradient);
  /// Adds this microbatch's weight gradients. `when_complete` is called when the gradients from a
  /// place on have all of this microbatch's part. Its places descend. The gradients in front of the
  /// last place are complete when backward_weights() returns.
  void backward_weights(const Microbatch& microbatch, const PlaceListener& when_complete = {});
  /// Computes both gradients layer by layer and returns the input's. Each layer's weight gradient
  /// follows directly on its input gradient, so that less memory is in use. Use it for a schedule's
  /// undivided backward pass.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, Tensor output_gradient,
                                const PlaceListener& when_complete = {});
  /// Sums the kSummedOverTensor gradients over the tensor-parallel group, after the last
  /// microbatch's weight gradients. It is one all-reduce in place, or one for each unit when
  /// gradients are sharded. Gradients of replicas may be summed before or after. If before,
  /// replicas of one microbatch each give the same bits as one replica that accumulates those
  /// microbatches.
  void finish_gradients();

  /// Returns the parameters that this stage declared.
  [[nodiscard]] ParameterStore& parameters();
  /// Returns the sum of the losses of all tokens since it was last set to 0 (f64, one element). It
  /// is empty when the stage does not end the model.
  [[nodiscard]] Buffer loss_total() const;
  /// Returns the number of microbatches whose activations are held, from forward() to
  /// backward_weights().
  [[nodiscard]] int activations_held() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ptdp
