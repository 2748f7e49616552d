// Counts copies around gathers and reduce-scatters of sequences.
#include "cost_model/layer/sequence_copies.h"

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/layer/layer_kernels.h"

namespace ptdp {

SequenceCopies sequence_copies(const Scenario& scenario, const ParallelConfig& config,
                               LayerKind kind) {
  const StackSpec& stack = scenario.stack;
  if (!stack.copies_sequences || stack.memory_model == MemoryModel::kPtdp ||
      !config.sequence_parallel || config.tp == 1) {
    return {};
  }
  constexpr double passes = 2.0;
  const TransformerConfig& model = scenario.job.model;
  const auto tokens = static_cast<double>(tokens_of_rank(model, config));
  const auto copied = [&](double element, double width) {
    return Bytes(passes * element * tokens * width);
  };
  const double element = element_bytes(stack.precision);
  const double gathered = gathered_activation_bytes(stack);
  const double h = model.hidden_size;
  const double to_attention = attention_input_width(model);
  const double to_mlp = dense_mlp_width(model, kind) > 0 ? h : 0.0;
  return {.gathers = copied(gathered, to_attention + to_mlp),
          .out_of_attention = copied(element, h),
          .out_of_mlp = copied(element, to_mlp),
          .backward = copied(gathered, h + to_mlp) + copied(element, to_attention + to_mlp)};
}

}  // namespace ptdp
