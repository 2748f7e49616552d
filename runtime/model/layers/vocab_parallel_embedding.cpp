#include "runtime/model/layers/vocab_parallel_embedding.h"

#include <utility>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "runtime/model/layers/sequence_parallel.h"

namespace ptdp {

VocabShard vocab_shard(const LayerContext& context) {
  const std::int64_t width = padded_vocab_size(context.model(), context.tp()) / context.tp();
  return {.first = context.tensor_rank() * width,
          .width = width,
          .num_valid = context.model().vocab_size};
}

StoredParameter declare_vocab_matrix(const LayerContext& context, const std::string& name,
                                     GradientGroup group) {
  const VocabShard shard = vocab_shard(context);
  return context.declare({.name = name,
                          .block = {.first_row = shard.first,
                                    .rows = shard.width,
                                    .columns = context.hidden_size(),
                                    .total_columns = context.hidden_size()},
                          .total_rows = context.model().vocab_size,
                          .group = group,
                          .decays = true,
                          .deviation = context.model().init_method_std});
}

VocabParallelEmbedding::VocabParallelEmbedding(const LayerContext& context, StoredParameter table)
    : context_(context), table_(table) {
  if (context.model().position_embedding == PositionEmbedding::kLearned) {
    const std::int64_t s = context.model().seq_length;
    positions_ = context.declare({.name = "embedding.position.weight",
                                  .block = {.rows = s,
                                            .columns = context.hidden_size(),
                                            .total_columns = context.hidden_size()},
                                  .total_rows = s,
                                  .is_replicated = true,
                                  .decays = true,
                                  .deviation = context.model().init_method_std});
  }
}

Tensor VocabParallelEmbedding::forward(const Microbatch& microbatch) const {
  Backend& backend = context_.backend();
  Tensor sum = context_.tensor(context_.rows() * context_.hidden_size());
  backend.embedding(microbatch.tokens, table_.weights(), vocab_shard(context_).first, sum);
  sum_rows(context_, sum);
  if (context_.scatters_sequence()) {
    Tensor own = context_.tensor(context_.own_rows() * context_.hidden_size());
    backend.copy(own_rows(context_, sum), own);
    sum = std::move(own);
  }
  const TokenRange range = context_.range(microbatch);
  if (const double factor = context_.model().embedding_multiplier; factor != 1.0) {
    backend.scale(sum, factor);
  }
  if (positions_) {
    backend.add_positions(sum, positions_->weights(), range, context_.own_rows());
  }
  const Dropout dropout = context_.dropout(microbatch, 0, DropoutSite::kEmbedding);
  if (dropout.probability > 0.0) {
    backend.bias_dropout_add(
        {.x = sum, .dropout = dropout, .range = range, .y = sum, .rows = context_.own_rows()});
  }
  return sum;
}

void VocabParallelEmbedding::backward(const Microbatch& microbatch, Buffer gradient) const {
  const Dropout dropout = context_.dropout(microbatch, 0, DropoutSite::kEmbedding);
  if (dropout.probability > 0.0) {
    context_.backend().dropout_backward(gradient, dropout, /*scale=*/1.0,
                                        context_.range(microbatch), gradient, context_.own_rows());
  }
}

void VocabParallelEmbedding::weight_gradients(const Microbatch& microbatch, Buffer gradient,
                                              Buffer table_gradient) const {
  const AllRows rows(context_, gradient);
  if (positions_) {
    context_.backend().position_gradient(rows, positions_->gradient(),
                                         context_.range_of_all(microbatch), context_.rows());
  }
  // The rows are used no more.
  if (const double factor = context_.model().embedding_multiplier; factor != 1.0) {
    context_.backend().scale(rows, factor);
  }
  context_.backend().embedding_gradient(microbatch.tokens, rows, vocab_shard(context_).first,
                                        table_gradient);
}

}  // namespace ptdp
