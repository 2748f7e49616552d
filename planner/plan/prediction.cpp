// Predicts an iteration with intervals, and finds where that extrapolates from measurements.
#include "planner/plan/prediction.h"

#include <fmt/format.h>

#include <cmath>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/memory/memory.h"
#include "cost_model/network/collectives.h"
#include "planner/plan/term_intervals.h"

namespace ptdp {
namespace {

/// Adds a line when the size of a collective lies beyond the measured curve that times it.
void note_extrapolation(std::vector<std::string>& notes, std::string_view what, Bytes size,
                        const GroupPlacement& group, const ClusterSpec& cluster) {
  const MeasuredCurve* curve = group.size > 1 ? measured_curve(group, cluster) : nullptr;
  if (curve != nullptr && !curve->covers(size)) {
    notes.push_back(fmt::format(
        "{} all-reduces of {:.4g} MB lie outside the measured {:.4g} to {:.4g} MB of {}", what,
        size.value() / 1e6, curve->points().front().size.value() / 1e6,
        curve->points().back().size.value() / 1e6, cluster.name));
  }
}

/// Adds a line for an operation that is measured, but at no size near this one.
void note_extrapolation(std::vector<std::string>& notes, DeviceOperation operation,
                        const OperationSizes& sizes, const Scenario& scenario) {
  const GpuSpec& gpu = scenario.cluster.gpu;
  const MeasuredOperation* measured =
      find_measured(gpu.measured_operations, operation, scenario.stack.precision);
  if (measured != nullptr && !measured->covers(sizes)) {
    const std::vector<std::string> names = size_names(operation);
    notes.push_back(fmt::format(
        "{} of {} {:.0f}, {} {:.0f}, {} {:.0f} lies beyond a factor of 4 of all that is measured "
        "of {}",
        name_of(operation), names[0], sizes[0], names[1], sizes[1], names[2], sizes[2], gpu.name));
  }
}

/// Adds a line for each product of a dense layer, and its attention, that is measured at no size
/// near. Adds none for latent attention and experts, of which nothing is measured.
void note_operations(std::vector<std::string>& notes, const Scenario& scenario,
                     const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  if (has_latent_attention(model) || model.num_experts > 0) {
    return;
  }
  const auto tokens = static_cast<double>(tokens_of_rank(model, config));
  const double h = model.hidden_size;
  const double queries = static_cast<double>(query_width(model)) / config.tp;
  const double keys = static_cast<double>(key_width(model)) / config.tp;
  const double ffn = 1.0 * model.ffn_hidden_size / config.tp;
  const auto product = [&](double outputs, double inputs) {
    note_extrapolation(notes, DeviceOperation::kForwardProduct, {tokens, outputs, inputs},
                       scenario);
  };
  product(queries + 2.0 * keys, h);
  product(h, queries);
  product(static_cast<double>(mlp_up_width(model)) / config.tp, h);
  product(h, ffn);
  if (has_relative_positions(model)) {
    return;  // no kernel of attention computes them
  }
  // Sizes with which GPUs that share a sequence call the attention kernel.
  const ContextParallel kind = scenario.stack.context_parallel_kind;
  const int sharers = kind == ContextParallel::kAllToAll ? config.cp : 1;
  const int blocks = kind == ContextParallel::kRing ? config.cp : 1;
  note_extrapolation(
      notes,
      dropout_rates(model).attention > 0.0 ? DeviceOperation::kDropoutAttention
                                           : DeviceOperation::kAttention,
      {1.0 * config.micro_batch_size * model.num_attention_heads / config.tp / sharers,
       1.0 * model.seq_length / blocks, 1.0 * model.kv_channels},
      scenario);
}

std::vector<std::string> find_extrapolations(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  const RankGrid grid(job.config());
  const Bytes activations(2.0 * static_cast<double>(tokens_of_rank(model, job.config())) *
                          model.hidden_size);
  const Bytes gradients(rank_parameters(model, job.config(), 0).dense *
                        job.stack().reduced_gradient_bytes);
  std::vector<std::string> notes;
  note_extrapolation(notes, "tensor-parallel", activations,
                     place_group(grid, Dimension::kTensor, job.cluster()), job.cluster());
  note_extrapolation(notes, "data-parallel", gradients, place_replicas(grid, job.cluster()),
                     job.cluster());
  note_operations(notes, job.scenario(), job.config());
  const GpuSpec& gpu = job.cluster().gpu;
  if (gpu.is_assumed) {
    notes.push_back(fmt::format("what kernels reach on {} is assumed: the fractions measured on {}",
                                gpu.name, gpu.constants_of));
  }
  return notes;
}

}  // namespace

std::string Prediction::basis(const PlannedJob& job) const {
  if (support.all_runs > 0) {
    return "rests on " + to_text(support);
  }
  const StepErrors* const errors = step_errors(job);
  return fmt::format(
      "not calibrated: {}{}{}",
      has_measured_operations(job.scenario()) ? "operations and messages measured on that machine"
                                              : "data sheets and published measurements of parts",
      errors == nullptr ? "" : "; interval: ", errors == nullptr ? "" : errors->basis);
}

Estimate<Seconds> with_interval(const PlannedJob& job, Seconds calibrated,
                                const Calibration& calibration) {
  const StepErrors* const errors = calibration.support.all_runs > 0 ? nullptr : step_errors(job);
  const RelativeInterval factors =
      errors == nullptr ? calibration.interval : errors->step.interval();
  return {.value = calibrated, .low = calibrated * factors.low, .high = calibrated * factors.high};
}

Prediction predict(const PlannedJob& job, const Calibration& calibration) {
  const std::int64_t batch = job.scenario().job.global_batch_size;
  Prediction prediction;
  prediction.breakdown = iteration_cost(job);
  for (const CostTerm& term : kCostTerms) {
    prediction.breakdown.*term.time = prediction.breakdown.*term.time * calibration.factor;
  }
  const Seconds time = prediction.breakdown.total();
  prediction.iteration_time = with_interval(job, time, calibration);
  prediction.calibration_factor = calibration.factor;
  prediction.support = calibration.support;
  prediction.support.distance = 0.0;
  prediction.model_flops = model_flops(job.model(), batch);
  prediction.hardware_flops = hardware_flops(job.model(), batch, job.config());

  const std::int64_t gpus = job.config().world_size();
  const FlopsPerSecond peak = matmul_peak(job.scenario());
  const double tokens = static_cast<double>(batch) * job.model().seq_length;
  // Rates fall as the time grows, so the ends change places.
  const auto over_time = [&](auto rate) {
    const Estimate<Seconds>& interval = prediction.iteration_time;
    using Rate = decltype(rate(interval.value));
    return Estimate<Rate>{
        .value = rate(interval.value), .low = rate(interval.high), .high = rate(interval.low)};
  };
  prediction.per_gpu = over_time(
      [&](Seconds t) { return prediction.hardware_flops / t / static_cast<double>(gpus); });
  prediction.mfu =
      over_time([&](Seconds t) { return utilization(prediction.model_flops, t, gpus, peak); });
  prediction.hfu =
      over_time([&](Seconds t) { return utilization(prediction.hardware_flops, t, gpus, peak); });
  prediction.tokens_per_second = over_time([&](Seconds t) { return tokens / t.value(); });
  prediction.traffic = iteration_traffic(job, time);
  prediction.extrapolations = find_extrapolations(job);
  prediction.outside_runs = calibration.outside_runs;
  return prediction;
}

TrainingRun training_run(const Prediction& prediction, std::int64_t gpus, double tokens,
                         std::optional<double> price_per_gpu_hour) {
  const Estimate<double>& rate = prediction.tokens_per_second;
  const auto seconds_at = [&](double tokens_per_second) {
    return Seconds(tokens / tokens_per_second);
  };
  const auto hours_at = [&](double tokens_per_second) {
    return seconds_at(tokens_per_second).value() / 3600.0 * static_cast<double>(gpus);
  };
  TrainingRun run{
      .time = {.value = seconds_at(rate.value),
               .low = seconds_at(rate.high),
               .high = seconds_at(rate.low)},
      .gpu_hours = {
          .value = hours_at(rate.value), .low = hours_at(rate.high), .high = hours_at(rate.low)}};
  if (price_per_gpu_hour.has_value()) {
    run.cost = {.value = run.gpu_hours.value * *price_per_gpu_hour,
                .low = run.gpu_hours.low * *price_per_gpu_hour,
                .high = run.gpu_hours.high * *price_per_gpu_hour};
  }
  return run;
}

double log_deviation(const Estimate<Seconds>& time) {
  constexpr double quantile_of_95 = 1.6448536269514722;  // of the normal distribution
  return std::log(time.high / time.low) / (2.0 * quantile_of_95);
}

}  // namespace ptdp
