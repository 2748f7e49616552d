// Computes what is whole at each moment of a microbatch.
#include "cost_model/memory/unit_memory.h"

#include <cmath>
#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/operations/host_scratch.h"
#include "cost_model/pipeline_rank/aligned_ranges.h"
#include "cost_model/pipeline_rank/rank_parameters.h"

namespace ptdp {
namespace {

/// Returns what a sum of gradients over the replicas takes beside them. On a GPU it is 0, since
/// none of the memory is this runtime's.
Bytes scratch_of(Bytes gradients, const Scenario& scenario, const ParallelConfig& config) {
  return scenario.stack.workspace.value() > 0.0
             ? Bytes(0.0)
             : reduction_scratch(std::llround(gradients.value()), config.dp,
                                 accumulator_bytes(scenario.stack.precision));
}

}  // namespace

UnitMemory unit_memory(const PlannedJob& job) {
  if (!shards_gradients(job.config()) || job.config().dp == 1) {
    return {};
  }
  const TransformerConfig& model = job.model();
  const double layers = model.num_layers;
  const double ends = end_parameters(model, job.config(), 0);
  const double layer = (rank_parameters(model, job.config(), 0).total() - ends) / layers;
  const auto with_padding = [sharers = num_sharers(job.config())](double parameters) {
    return static_cast<double>(padded(std::llround(parameters), sharers));
  };
  const double of_ends = with_padding(ends);
  const double of_layer = with_padding(layer);
  const double element = shards_weights(job.config()) ? element_bytes(job.stack().precision) : 0.0;
  const double accumulator = accumulator_bytes(job.stack().precision);
  const Bytes weights(of_layer * element);
  const Bytes end_weights(of_ends * element);
  const Bytes gradients(of_layer * accumulator);
  const Bytes end_gradients(of_ends * accumulator);
  const bool keeps = !gathers_again(job.config());
  const Bytes kept = keeps ? layers * weights : Bytes(0.0);
  const Bytes at_work = keeps ? kept : weights;
  return {.forward = end_weights + at_work,
          .embedding = end_weights,
          .logits = end_weights + kept,
          .end = end_weights + kept + end_gradients,
          .backward = at_work + gradients + end_gradients,
          .reducing_layer = (keeps ? kept - weights : Bytes(0.0)) + gradients + end_gradients +
                            scratch_of(gradients, job.scenario(), job.config()),
          .ends = end_gradients,
          .reducing_ends = end_gradients + scratch_of(end_gradients, job.scenario(), job.config()),
          .put_off = layers * gradients + end_gradients};
}

}  // namespace ptdp
