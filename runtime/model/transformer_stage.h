// The layers of one virtual stage of a GPT on one tensor-parallel rank: forward, backward, and the
// weight gradient by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/backend.h"
#include "runtime/model/layers/stage_settings.h"
#include "runtime/parameters/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// The part of the model that a virtual stage is.
struct StageLayers {
  int first = 0;
  int count = 0;
  bool begins_model = false;     ///< Embedding and positions.
  bool ends_model = false;       ///< Final norm, logits and loss.
  bool holds_both_ends = false;  ///< Of a tied embedding on this rank: one table, not two.
};

/// Told a place in the stage's flat coordinates [elements] (parameter_store.h). May be empty.
using PlaceListener = std::function<void(std::int64_t place)>;

/// Activations and their gradients are [s, b, h] in the working type, or this rank's 1/t of the
/// sequence with sequence parallelism. Forward, backward_input and backward_weights of a microbatch
/// are called once each, in this order, or forward and backward; other microbatches may come
/// between. What a microbatch keeps is allocated by forward and released piece by piece until
/// backward_weights returns; MEMORY.md lists it. All results have the same bits either way.
class TransformerStage {
 public:
  /// `backend` and `tensor_group` must outlive the stage. tp must divide heads, the MLP's width
  /// and, with sequence parallelism, s. `table` is the store that holds the tied embedding where
  /// another stage of this rank declared it (layers.holds_both_ends and not begins_model), else
  /// null.
  TransformerStage(Backend& backend, Communicator& tensor_group, const StageSettings& settings,
                   const StageLayers& layers, ParameterStore* table);
  TransformerStage(const TransformerStage&) = delete;
  TransformerStage& operator=(const TransformerStage&) = delete;
  TransformerStage(TransformerStage&&) = delete;
  TransformerStage& operator=(TransformerStage&&) = delete;
  ~TransformerStage();

  /// The stage's output; nothing where it ends the model, where the losses of all tokens are added
  /// to loss_total(). `input` is empty where it begins the model. `before_use` is called before
  /// parameters in front of a place are used, ascending, those of the ends of the model first.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Tensor input,
                               const PlaceListener& before_use = {});
  /// The gradient of the stage's input; nothing where it begins the model. `output_gradient` is
  /// empty where it ends it.
  [[nodiscard]] Tensor backward_input(const Microbatch& microbatch, Tensor output_gradient);
  /// `when_complete` is called as the gradients from a place on have all of this microbatch's
  /// part, descending; those in front of the last place do when it returns.
  void backward_weights(const Microbatch& microbatch, const PlaceListener& when_complete = {});
  /// Both, layer by layer: each layer's weight gradient directly after its input gradient, so that
  /// less memory is in use. What a schedule's undivided backward pass should call.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, Tensor output_gradient,
                                const PlaceListener& when_complete = {});
  /// After the last microbatch's weight gradients: sums what is kSummedOverTensor over the
  /// tensor-parallel group (one all-reduce in place, of shards one for each unit). Replicas'
  /// gradients may be summed before or after; before, one microbatch per replica gives the bits
  /// that accumulating them gives.
  void finish_gradients();

  [[nodiscard]] ParameterStore& parameters();
  /// Sum of the losses of all tokens since it was last set to 0 (f64, one element); empty where the
  /// stage does not end the model.
  [[nodiscard]] Buffer loss_total() const;
  /// Microbatches whose activations are held, from forward to backward_weights.
  [[nodiscard]] int activations_held() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ptdp
