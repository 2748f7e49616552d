#include "runtime/model/layers/vocab_parallel_cross_entropy.h"

#include "runtime/model/layers/vocab_parallel_embedding.h"

namespace ptdp {

CrossEntropyActivations VocabParallelCrossEntropy::forward(const Microbatch& microbatch,
                                                           Buffer logits, Buffer total) const {
  const std::int64_t rows = context_.rows();
  const VocabShard shard = vocab_shard(context_);
  Backend& backend = context_.backend();
  CrossEntropyActivations activations = {.maxima = context_.accumulator(rows),
                                         .sums = context_.accumulator(2 * rows)};
  backend.row_maxima(logits, shard, activations.maxima, rows);
  if (context_.tp() > 1) {
    context_.tensor_group().all_reduce(activations.maxima, Reduction::kMaximum);
  }
  backend.softmax_sums(logits, shard, microbatch.targets, activations.maxima, activations.sums,
                       rows);
  if (context_.tp() > 1) {
    context_.tensor_group().all_reduce(activations.sums, Reduction::kSum);
  }
  backend.add_losses(activations.sums, total, rows);
  return activations;
}

void VocabParallelCrossEntropy::backward(const Microbatch& microbatch,
                                         const CrossEntropyActivations& activations,
                                         Buffer logits) const {
  context_.backend().cross_entropy_backward(
      {.logits = logits,
       .shard = vocab_shard(context_),
       .targets = microbatch.targets,
       .maxima = activations.maxima,
       .sums = activations.sums,
       .scale = microbatch.gradient_scale * context_.model().logits_multiplier,
       .soft_cap = context_.model().final_logit_softcapping,
       .rows = context_.rows()});
}

}  // namespace ptdp
