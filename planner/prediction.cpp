#include "planner/prediction.h"

#include "cost_model/analytic/flops.h"

namespace ptdp {

std::string Prediction::basis() const {
  return calibration_runs == 0
             ? "data sheets and microbenchmarks only"
             : "calibrated on " + std::to_string(calibration_runs) + " published runs";
}

Prediction predict(const Scenario& scenario, const ParallelConfig& config,
                   const Calibration& calibration) {
  const TrainingJob& job = scenario.job;
  Prediction prediction;
  prediction.breakdown = iteration_cost(scenario, config);
  for (const CostTerm& term : kCostTerms) {
    prediction.breakdown.*term.time = prediction.breakdown.*term.time * calibration.factor;
  }
  const Seconds time = prediction.breakdown.total();
  prediction.iteration_time = {.value = time,
                               .low = time * calibration.interval.low,
                               .high = time * calibration.interval.high};
  prediction.calibration_factor = calibration.factor;
  prediction.calibration_runs = calibration.num_runs;
  prediction.model_flops = model_flops(job.model, job.global_batch_size);
  prediction.hardware_flops = hardware_flops(job.model, job.global_batch_size, config.recompute);

  const std::int64_t gpus = config.world_size();
  const FlopsPerSecond peak = scenario.cluster.gpu.peak(scenario.stack.precision);
  const double tokens = static_cast<double>(job.global_batch_size) * job.model.seq_length;
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
  prediction.traffic = iteration_traffic(scenario, config, time);
  return prediction;
}

TrainingRun training_run(const Prediction& prediction, std::int64_t gpus, double tokens) {
  const Estimate<double>& rate = prediction.tokens_per_second;
  const TrainingRun run{.time = {.value = Seconds(tokens / rate.value),
                                 .low = Seconds(tokens / rate.high),
                                 .high = Seconds(tokens / rate.low)}};
  return {.time = run.time,
          .gpu_hours = run.time.value.value() / 3600.0 * static_cast<double>(gpus)};
}

}  // namespace ptdp
