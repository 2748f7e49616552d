// Compares what the ranks of a run measured with what was predicted for it.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "cost_model/iteration/communication_volume.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/measured/quantile.h"
#include "cost_model/memory/memory.h"
#include "cost_model/memory/runtime_stack.h"
#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/validator/validator.h"
#include "planner/plan/plan_simulation.h"
#include "planner/plan/run_terms.h"
#include "planner/plan/term_intervals.h"
#include "runtime/faults/straggler.h"
#include "runtime/transport/nccl/nccl_blocks.h"
#include "tools/run/call_comparison.h"
#include "tools/run/measured_terms.h"
#include "tools/run/run_plan.h"

namespace ptdp {
namespace {

using ActionKey = std::pair<ActionKind, int>;  ///< Kind and virtual stage.

double median_of(std::vector<double> values) {
  return values.empty() ? 0.0 : median(std::move(values));
}

std::size_t num_steps(const RunRecord& record) {
  return record.ranks.front().steps.size();
}

/// Returns the first rank of a pipeline rank: tensor rank 0 of replica 0.
const RankRecord& rank_at(const PreparedRun& run, const RunRecord& record, int pipeline_rank) {
  const ParallelConfig& config = run.settings.config;
  return record.ranks[static_cast<std::size_t>(pipeline_rank) * config.tp * config.dp];
}

std::vector<TermComparison> compare_terms(const PreparedRun& run, const MeasuredTerms& measured) {
  const RunTerms predicted =
      run.is_predicted ? predicted_run_terms(run.executed, measured.stage) : RunTerms();
  const StepErrors* const errors =
      run.is_predicted ? step_errors({run.executed.scenario, run.executed.config}) : nullptr;
  std::vector<TermComparison> terms;
  terms.reserve(kNumRunTerms);
  for (int number = 0; number < kNumRunTerms; ++number) {
    const auto term = static_cast<RunTerm>(number);
    TermComparison& compared = terms.emplace_back(
        TermComparison{.name = std::string(kRunTermNames[static_cast<std::size_t>(number)]),
                       .time = {predicted[term], measured.terms[term]}});
    if (const auto time =
            errors == nullptr ? std::nullopt : errors->estimate(term, predicted[term])) {
      compared.low = time->low;
      compared.high = time->high;
    }
  }
  return terms;
}

/// Lengths of the actions that take time [s], by kind and virtual stage.
using ActionTimes = std::map<ActionKey, std::vector<double>>;

void add_times(ActionTimes& times, const std::vector<Action>& order,
               const std::vector<Span>& spans) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (occupies_lane(order[i].kind) && order[i].kind != ActionKind::kCopyForward &&
        order[i].kind != ActionKind::kCopyBackward) {
      times[{order[i].kind, order[i].stage}].push_back(spans[i].length().value());
    }
  }
}

std::vector<ActionComparison> compare_actions(const PreparedRun& run, const RunRecord& record,
                                              std::size_t warm_up) {
  const Schedule& schedule = run.settings.schedule;
  const std::size_t first_step = first_detailed_step(record, warm_up);
  ActionTimes measured;
  for (int rank = 0; rank < schedule.pp; ++rank) {
    const RankRecord& here = rank_at(run, record, rank);
    for (std::size_t step = first_step; step < here.steps.size(); ++step) {
      add_times(measured, schedule.orders[rank], here.steps[step].actions);
    }
  }
  ActionTimes predicted;
  if (run.is_predicted) {
    const PlanSimulation simulation = simulate_plan(run.executed, {});
    for (int rank = 0; rank < schedule.pp; ++rank) {
      add_times(predicted, simulation.schedule.orders[rank], simulation.timeline.spans[rank]);
    }
  }
  std::vector<ActionComparison> actions;
  for (const auto& [key, times] : measured) {
    const auto found = predicted.find(key);
    actions.push_back(
        {.kind = std::string(spelling_of(key.first)),
         .stage = key.second,
         .count = static_cast<std::int64_t>(times.size() / (num_steps(record) - first_step)),
         .time = {Seconds(found == predicted.end() ? 0.0 : median_of(found->second)),
                  Seconds(median_of(times))}});
  }
  return actions;
}

/// Whether each rank has a GPU to itself, as over NCCL, so that what is taken of it is known.
bool has_gpu_each(const PreparedRun& run) {
  return run.device.is_gpu() && (run.uses_nccl || run.settings.config.world_size() == 1);
}

std::vector<MemoryComparison> compare_memory(const PreparedRun& run, const RunRecord& record) {
  const ParallelConfig& config = run.settings.config;
  const std::vector<MemoryBreakdown> predicted =
      memory_by_rank({run.executed.scenario, run.executed.config});
  const std::vector<int> activations = peak_activations(run.settings.schedule);
  std::vector<MemoryComparison> memory(static_cast<std::size_t>(config.pp));
  for (std::size_t rank = 0; rank < record.ranks.size(); ++rank) {
    MemoryComparison& here = memory[static_cast<std::size_t>(pipeline_rank(config, rank))];
    const RankRecord& there = record.ranks[rank];
    here.size.measured = std::max(here.size.measured, Bytes(static_cast<double>(there.peak_bytes)));
    if (has_gpu_each(run)) {  // Else it is other ranks' memory, too.
      here.beside.measured =
          std::max(here.beside.measured, Bytes(static_cast<double>(there.bytes_beside)));
    }
    here.activations.measured = std::max(here.activations.measured, there.peak_activations);
  }
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    if (run.is_predicted) {
      memory[rank].size.predicted = predicted[rank].total() - predicted[rank].reserve;
      memory[rank].beside.predicted = predicted[rank].reserve;
    }
    memory[rank].activations.predicted = activations[rank];
  }
  return memory;
}

/// Returns the volumes in the order of CollectiveKind.
std::array<std::int64_t, kNumCollectiveKinds> by_kind(const KindVolumes<std::int64_t>& volumes) {
  return {volumes.all_reduce, volumes.reduce_scatter, volumes.all_gather, volumes.send};
}

TrafficTable expected_traffic(const PreparedRun& run) {
  Scenario scenario = run.executed.scenario;
  scenario.stack.precision = run.precision;
  GroupVolumes<std::int64_t> volumes = job_volumes({scenario, run.executed.config});
  volumes.data.all_reduce += volumes.loss.all_reduce;  // over the same ranks
  TrafficTable table;
  for (std::size_t group = 0; group < table.size(); ++group) {
    table[group] = by_kind(volumes.*kVolumeGroups<std::int64_t>[group].volumes);
  }
  return table;
}

std::vector<TrafficComparison> compare_traffic(const PreparedRun& run, const RunRecord& record) {
  const TrafficTable expected = expected_traffic(run);
  const auto num_measured = static_cast<std::int64_t>(num_steps(record));
  std::vector<TrafficComparison> traffic;
  for (std::size_t group = 0; group < kTrafficGroups.size(); ++group) {
    for (std::size_t kind = 0; kind < kCollectiveNames.size(); ++kind) {
      std::int64_t sent = 0;
      for (const RankRecord& rank : record.ranks) {
        sent += (rank.*kTrafficGroups[group].sent).bytes[kind];
      }
      const std::int64_t predicted = expected[group][kind];
      if (sent > 0 || predicted > 0) {
        const std::int64_t each = sent / num_measured;
        // A surplus of fewer bytes than steps counts as one byte.
        const bool is_more = each == predicted && sent > predicted * num_measured;
        traffic.push_back({.group = std::string(kTrafficGroups[group].name),
                           .collective = std::string(kCollectiveNames[kind]),
                           .bytes = {predicted, each + (is_more ? 1 : 0)}});
      }
    }
  }
  return traffic;
}

/// Returns the most memory that this runtime on a host should hold on each pipeline rank, whatever
/// stack the plan is for. Empty on a GPU and for --reproducible, whose extra buffers no formula
/// counts.
std::vector<Bytes> expected_peaks(const PreparedRun& run) {
  if (run.device.is_gpu() || run.settings.is_reproducible) {
    return {};
  }
  Scenario scenario = run.executed.scenario;
  scenario.stack = runtime_stack(run.precision);
  scenario.stack.tensor_parallel_overlap = run.settings.overlaps_tensor;
  scenario.stack.scatter_gather = run.settings.scatters_messages;
  std::vector<Bytes> peaks;
  for (const MemoryBreakdown& stage :
       memory_by_rank({scenario, run.executed.config}, run.settings.schedule)) {
    peaks.push_back(stage.total() - stage.reserve);
  }
  return peaks;
}

/// Returns the hosts, each once, in the order of their first ranks.
std::vector<std::string> each_once(const std::vector<std::string>& hosts) {
  std::vector<std::string> result;
  for (const std::string& host : hosts) {
    if (std::find(result.begin(), result.end(), host) == result.end()) {
      result.push_back(host);
    }
  }
  return result;
}

RunExecution describe_run(const PreparedRun& run, const RunRequest& request,
                          const RunRecord& record) {
  // NCCL's own variable overrides the limits.
  const bool has_limits =
      run.uses_nccl && std::getenv("NCCL_MAX_CTAS") == nullptr;  // NOLINT(concurrency-mt-unsafe)
  const NcclBlocks blocks = has_limits
                                ? blocks_beside_compute(run.device.gpus.front().num_multiprocessors)
                                : NcclBlocks{.collective = 0, .link = 0};
  return {.transport = run.uses_nccl ? "nccl" : request.meeting,
          .collective_blocks = blocks.collective,
          .message_blocks = blocks.link,
          .hosts = each_once(record.hosts),
          .ranks = std::ssize(record.ranks),
          .device = run.device.name(),
          .precision = run.precision,
          .first_step = record.first_step,
          .requested_steps = request.steps,
          .steps = static_cast<std::int64_t>(num_steps(record)),
          .warm_up = std::min(request.warm_up, static_cast<std::int64_t>(num_steps(record)) - 1),
          .seed = request.seed,
          .data = request.data.value_or("synthetic"),
          .basis = run.basis,
          .dropout = run.settings.dropout,
          .is_reproducible = request.is_reproducible,
          .is_shrunk = request.shrinks,
          .model = run.settings.model,
          .global_batch_size = run.settings.global_batch_size,
          .dp = run.settings.config.dp};
}

}  // namespace

namespace {

/// Returns the predicted compute of a step [s], by pipeline rank; empty when nothing is predicted.
std::vector<double> predicted_compute(const PreparedRun& run) {
  std::vector<double> times;
  if (run.is_predicted) {
    const PlanSimulation simulation = simulate_plan(run.executed, {});
    for (std::size_t rank = 0; rank < simulation.schedule.orders.size(); ++rank) {
      times.push_back(0.0);
      for (std::size_t i = 0; i < simulation.schedule.orders[rank].size(); ++i) {
        const Span& span = simulation.timeline.spans[rank][i];
        times.back() +=
            is_compute(simulation.schedule.orders[rank][i].kind) ? span.length().value() : 0.0;
      }
    }
  }
  return times;
}

}  // namespace

StepExpectation expected_step(const PreparedRun& run) {
  return {.sent = expected_traffic(run), .peak_memory = expected_peaks(run)};
}

std::optional<PlannedMemory> planned_memory(const PreparedRun& run) {
  if (!run.is_predicted || !has_gpu_each(run)) {
    return std::nullopt;
  }
  const auto least =
      std::min_element(run.device.gpus.begin(), run.device.gpus.end(),
                       [](const Gpu& a, const Gpu& b) { return a.memory < b.memory; });
  PlannedMemory planned{.device = least->memory};
  for (const MemoryBreakdown& rank : memory_by_rank({run.executed.scenario, run.executed.config})) {
    planned.peaks.push_back(rank.total() - rank.reserve);
    planned.reserve = rank.reserve;
  }
  return planned;
}

RunReport make_report(const PreparedRun& run, const RunRequest& request, const RunRecord& record) {
  RunReport report{.plan = run.plan, .execution = describe_run(run, request, record)};
  const auto warm_up = static_cast<std::size_t>(report.execution.warm_up);
  const std::vector<double> measured = undisturbed_step_times(record, warm_up);
  report.measured_time = Seconds(median_of(measured));
  report.fastest = Seconds(*std::min_element(measured.begin(), measured.end()));
  report.slowest = Seconds(*std::max_element(measured.begin(), measured.end()));
  if (run.is_predicted) {
    report.predicted_time = run.executed.predicted.iteration_time;
  }
  report.hardware_flops = hardware_flops(run.settings.model, run.settings.global_batch_size,
                                         run.settings.config.recompute);
  const MeasuredTerms terms = measure_terms(run.settings.schedule, run.settings.config, record,
                                            first_detailed_step(record, warm_up));
  report.terms = compare_terms(run, terms);
  report.execution.terms_rank = terms.stage;
  if (const auto straggler =
          find_straggler(run.settings, record.ranks, first_detailed_step(record, warm_up),
                         predicted_compute(run), report.measured_time)) {
    report.execution.straggler = {
        .rank = straggler->rank, .factor = straggler->factor, .lost = straggler->lost};
  }
  report.actions = compare_actions(run, record, warm_up);
  report.memory = compare_memory(run, record);
  report.traffic = compare_traffic(run, record);
  report.differences = record.differences;
  report.calls = compare_calls(record, run.settings.config, first_detailed_step(record, warm_up),
                               run.is_predicted ? &run.executed : nullptr);
  for (std::size_t step = 0; step < num_steps(record); ++step) {
    for (const RankRecord& rank : record.ranks) {
      if (rank.steps[step].loss) {
        report.losses.push_back(*rank.steps[step].loss);
        report.gradient_norms.push_back(rank.steps[step].gradient_norm);
        report.skipped_steps += rank.steps[step].is_skipped ? 1 : 0;
        break;
      }
    }
  }
  return report;
}

Timeline measured_timeline(const PreparedRun& run, const RunRecord& record, std::int64_t warm_up) {
  const std::vector<double> times = measured_step_times(record);
  const std::size_t first = first_detailed_step(record, static_cast<std::size_t>(warm_up));
  std::vector<std::size_t> steps = undisturbed_steps(record, first);
  std::sort(steps.begin(), steps.end(),
            [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  const std::size_t step = steps[steps.size() / 2];

  const Schedule& schedule = run.settings.schedule;
  double start = rank_at(run, record, 0).steps[step].step.start.value();
  for (int rank = 0; rank < schedule.pp; ++rank) {
    start = std::min(start, rank_at(run, record, rank).steps[step].step.start.value());
  }
  Timeline timeline;
  for (int rank = 0; rank < schedule.pp; ++rank) {
    const StepRecord& measured = rank_at(run, record, rank).steps[step];
    RankTimes times_of_rank{.peak_activations = rank_at(run, record, rank).peak_activations};
    std::vector<Span> spans;
    bool has_computed = false;
    for (std::size_t i = 0; i < measured.actions.size(); ++i) {
      const Span span{.start = measured.actions[i].start - Seconds(start),
                      .end = measured.actions[i].end - Seconds(start)};
      spans.push_back(span);
      times_of_rank.end = std::max(times_of_rank.end, span.end);
      if (is_compute(schedule.orders[rank][i].kind)) {
        times_of_rank.start = has_computed ? times_of_rank.start : span.start;
        has_computed = true;
        times_of_rank.compute_end = span.end;
        times_of_rank.work += span.length();
      }
    }
    timeline.spans.push_back(std::move(spans));
    timeline.times.ranks.push_back(times_of_rank);
  }
  return timeline;
}

RunRecording recording_of(const PreparedRun& run, const RunRecord& record, std::int64_t warm_up) {
  return {.step_seconds = measured_step_times(record),
          .step = RecordedStep{.schedule = run.settings.schedule,
                               .timeline = measured_timeline(run, record, warm_up),
                               .messages = run.settings.messages},
          .predicted =
              run.is_predicted ? std::optional(simulate_plan(run.executed, {})) : std::nullopt};
}

}  // namespace ptdp
