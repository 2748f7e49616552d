#include "runtime/model/transformer_stage.h"

#include <cassert>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/host_values.h"
#include "runtime/model/executed_fields.h"
#include "runtime/model/layers/output_layer.h"
#include "runtime/model/layers/rotary_angles.h"
#include "runtime/model/layers/transformer_block.h"
#include "runtime/model/layers/vocab_parallel_embedding.h"

namespace ptdp {
namespace {

/// Name of the token table.
constexpr const char* kTable = "embedding.word.weight";
constexpr int kEnds = 0;  // Number of the unit of embedding, positions, final norm and output.
constexpr int kFirstBlock = 1;  // Number of the first block's unit; each block has its own.

/// What a microbatch keeps of a stage.
struct StageActivations {
  std::vector<BlockActivations> blocks;
  OutputActivations output;
  Tensor embedding_gradient;  ///< Set by the input gradient when the stage begins the model.
};

/// Returns how a parameter store is sharded.
StoreShards shards_of(const Sharding& sharding) {
  if (sharding.group == nullptr) {
    return {.group_size = sharding.group_size};
  }
  return {.group_size = sharding.group->size(),
          .group_rank = sharding.group->rank(),
          .of_gradients = true,
          .of_weights = sharding.of_weights};
}

void tell(const PlaceListener& listener, std::int64_t place) {
  if (listener) {
    listener(place);
  }
}

}  // namespace

/// The implementation of TransformerStage.
class TransformerStage::Parts {
 public:
  Parts(Backend& backend, Communicator& tensor_group, const StageSettings& settings,
        const StageLayers& layers, ParameterStore* table);

  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Tensor input,
                               const PlaceListener& before_use);
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, Tensor gradient, WeightGradients when,
                                const PlaceListener& when_complete);
  void weight_gradients(const Microbatch& microbatch, const PlaceListener& when_complete);
  void finish_gradients();

  [[nodiscard]] ParameterStore& parameters() { return parameters_; }
  [[nodiscard]] Buffer loss_total() const { return loss_total_; }
  [[nodiscard]] int activations_held() const { return static_cast<int>(held_.size()); }

 private:
  void declare_ends(const StageLayers& layers, ParameterStore* table);
  void make_rotary_angles();
  void find_blocks(const std::vector<std::size_t>& first_declared);
  [[nodiscard]] std::int64_t first_own(std::size_t declared, std::int64_t end) const;
  /// Returns when the logits' weight gradient is formed, in a backward pass that forms all others
  /// as `when` says.
  [[nodiscard]] WeightGradients when_of_output(WeightGradients when) const {
    return adds_uses_together_ ? WeightGradients::kLater : when;
  }
  [[nodiscard]] static int unit_of(std::size_t block) {
    return kFirstBlock + static_cast<int>(block);
  }
  /// Forms the weight gradients of the ends of the model that were left for later.
  void end_gradients(const Microbatch& microbatch, StageActivations& held);

  ParameterStore parameters_;
  ShardedUnits units_;
  LayerContext context_;
  std::optional<StoredParameter> table_;  ///< Table of tokens, when the stage begins the model.
  /// Whether both ends share the table and each microbatch adds one sum to its gradient.
  bool adds_uses_together_ = false;
  std::optional<VocabParallelEmbedding> embedding_;
  std::vector<TransformerBlock> blocks_;
  /// Place of each block's first parameter, and the place behind the last block.
  std::vector<std::int64_t> first_of_block_;
  std::optional<OutputLayer> output_;
  Tensor rotary_angles_;
  Tensor loss_total_;
  std::map<int, StageActivations> held_;  ///< Activations by microbatch.
};

TransformerStage::Parts::Parts(Backend& backend, Communicator& tensor_group,
                               const StageSettings& settings, const StageLayers& layers,
                               ParameterStore* table)
    : units_(backend, parameters_, settings.sharding),
      context_(backend, tensor_group, parameters_, settings) {
  assert(find_unsupported_feature(settings.model).empty());
  declare_ends(layers, table);
  blocks_.reserve(static_cast<std::size_t>(layers.count));
  std::vector<std::size_t> first_declared;
  for (int layer = layers.first; layer < layers.first + layers.count; ++layer) {
    first_declared.push_back(parameters_.parameters().size());
    parameters_.begin_unit();
    blocks_.emplace_back(context_, layer);
  }
  parameters_.allocate(backend, settings.type, settings.seed, shards_of(settings.sharding));
  find_blocks(first_declared);
  make_rotary_angles();
  if (layers.ends_model) {
    loss_total_ = Tensor(backend, DataType::kFloat64, 1);
    backend.fill(loss_total_, 0.0);
  }
}

void TransformerStage::Parts::make_rotary_angles() {
  if (blocks_.empty() || rotary_width(context_.model()) == 0) {
    return;
  }
  const std::vector<double> angles = rotary_angles(context_.model());
  rotary_angles_ = context_.accumulator(std::ssize(angles));
  copy_rounded(context_.backend(), angles, rotary_angles_);
  context_.set_rotary_angles(rotary_angles_);
}

void TransformerStage::Parts::find_blocks(const std::vector<std::size_t>& first_declared) {
  first_of_block_.assign(blocks_.size() + 1, parameters_.size());
  const auto units = parameters_.units();
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    first_of_block_[i] = units.empty() ? first_own(first_declared[i], first_of_block_[i + 1])
                                       : units[kFirstBlock + i].range.first;
  }
}

// Returns the place of the first kOwn parameter among those declared from number `declared` on, or
// `end` without one. Parameters that are summed over other ranks lie in front of all kOwn ones.
std::int64_t TransformerStage::Parts::first_own(std::size_t declared, std::int64_t end) const {
  for (const Parameter& parameter : parameters_.parameters().subspan(declared)) {
    if (parameter.group == GradientGroup::kOwn) {
      return parameter.first;
    }
  }
  return end;
}

void TransformerStage::Parts::declare_ends(const StageLayers& layers, ParameterStore* table) {
  const bool is_tied = !context_.model().untied_embeddings;
  const bool is_split =
      is_tied && !layers.holds_both_ends && layers.begins_model != layers.ends_model;
  const GradientGroup group = is_split ? GradientGroup::kTied : GradientGroup::kOwn;
  if (layers.begins_model) {
    table_ = declare_vocab_matrix(context_, kTable, group);
    embedding_.emplace(context_, *table_);
  }
  if (!layers.ends_model) {
    return;
  }
  if (!is_tied) {
    output_.emplace(context_, declare_vocab_matrix(context_, "output.weight", group));
  } else if (table_) {
    adds_uses_together_ = context_.settings().adds_gradients_apart;
    output_.emplace(context_, *table_);
  } else if (table != nullptr) {
    output_.emplace(context_, StoredParameter{.store = table, .id = table->id_of(kTable)});
  } else {
    assert(!layers.holds_both_ends);
    output_.emplace(context_, declare_vocab_matrix(context_, kTable, group));
  }
}

Tensor TransformerStage::Parts::forward(const Microbatch& microbatch, Tensor input,
                                        const PlaceListener& before_use) {
  assert(!held_.contains(microbatch.index));
  StageActivations& held = held_[microbatch.index];
  held.blocks.resize(blocks_.size());
  tell(before_use, first_of_block_.front());
  units_.begin_forward(kEnds);
  Tensor x = embedding_ ? embedding_->forward(microbatch) : std::move(input);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    tell(before_use, first_of_block_[i + 1]);
    units_.begin_forward(unit_of(i));
    x = blocks_[i].forward(microbatch, std::move(x), held.blocks[i]);
    units_.end_forward(unit_of(i));
  }
  if (output_) {
    output_->forward(microbatch, std::exchange(x, {}), held.output, loss_total_);
  }
  units_.end_forward(kEnds);
  return x;
}

Tensor TransformerStage::Parts::backward(const Microbatch& microbatch, Tensor gradient,
                                         WeightGradients when, const PlaceListener& when_complete) {
  StageActivations& held = held_.at(microbatch.index);
  units_.begin_backward(kEnds);
  if (output_) {
    gradient = output_->backward(microbatch, when_of_output(when), held.output);
  }
  units_.end_backward(kEnds);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    units_.begin_backward(unit_of(i));
    blocks_[i].backward(microbatch, gradient, when, held.blocks[i]);
    units_.end_backward(unit_of(i));
    if (when == WeightGradients::kAtOnce) {
      units_.reduce_gradients(unit_of(i));
    }
    tell(when_complete, first_of_block_[i]);
  }
  if (embedding_) {
    embedding_->backward(microbatch, gradient);
    held.embedding_gradient = std::move(gradient);
    gradient = Tensor();
  }
  if (when == WeightGradients::kAtOnce) {
    end_gradients(microbatch, held);
    units_.reduce_gradients(kEnds);
    held_.erase(microbatch.index);
  }
  return gradient;
}

void TransformerStage::Parts::end_gradients(const Microbatch& microbatch, StageActivations& held) {
  if (adds_uses_together_) {
    const Buffer total = table_->gradient();
    const Tensor sum = context_.accumulator(total.size);
    output_->weight_gradients_apart(held.output, sum);
    embedding_->weight_gradients(microbatch, held.embedding_gradient, sum);
    context_.backend().add(sum, total);
    return;
  }
  if (!held.output.normed.empty()) {
    output_->weight_gradients(held.output);
  }
  if (embedding_) {
    embedding_->weight_gradients(microbatch, held.embedding_gradient, table_->gradient());
  }
}

void TransformerStage::Parts::weight_gradients(const Microbatch& microbatch,
                                               const PlaceListener& when_complete) {
  StageActivations& held = held_.at(microbatch.index);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    units_.open_gradients(unit_of(i));
    blocks_[i].weight_gradients(held.blocks[i]);
    units_.reduce_gradients(unit_of(i));
    tell(when_complete, first_of_block_[i]);
  }
  units_.open_gradients(kEnds);
  end_gradients(microbatch, held);
  units_.reduce_gradients(kEnds);
  held_.erase(microbatch.index);
}

void TransformerStage::Parts::finish_gradients() {
  for (const Part& part : parameters_.summed_over_tensor()) {
    if (part.count > 0) {
      context_.tensor_group().all_reduce(parameters_.kept_gradients(part), Reduction::kSum);
    }
  }
}

TransformerStage::TransformerStage(Backend& backend, Communicator& tensor_group,
                                   const StageSettings& settings, const StageLayers& layers,
                                   ParameterStore* table)
    : parts_(std::make_unique<Parts>(backend, tensor_group, settings, layers, table)) {}

TransformerStage::~TransformerStage() = default;

Tensor TransformerStage::forward(const Microbatch& microbatch, Tensor input,
                                 const PlaceListener& before_use) {
  return parts_->forward(microbatch, std::move(input), before_use);
}

Tensor TransformerStage::backward_input(const Microbatch& microbatch, Tensor output_gradient) {
  return parts_->backward(microbatch, std::move(output_gradient), WeightGradients::kLater, {});
}

void TransformerStage::backward_weights(const Microbatch& microbatch,
                                        const PlaceListener& when_complete) {
  parts_->weight_gradients(microbatch, when_complete);
}

Tensor TransformerStage::backward(const Microbatch& microbatch, Tensor output_gradient,
                                  const PlaceListener& when_complete) {
  return parts_->backward(microbatch, std::move(output_gradient), WeightGradients::kAtOnce,
                          when_complete);
}

void TransformerStage::finish_gradients() {
  parts_->finish_gradients();
}

ParameterStore& TransformerStage::parameters() {
  return parts_->parameters();
}

Buffer TransformerStage::loss_total() const {
  return parts_->loss_total();
}

int TransformerStage::activations_held() const {
  return parts_->activations_held();
}

}  // namespace ptdp
