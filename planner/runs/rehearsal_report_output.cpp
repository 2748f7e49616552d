// Prints the report of a rehearsal for people.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "planner/runs/rehearsal_report.h"

namespace ptdp {
namespace {

std::string rehearsal_heading(const RehearsalReport& report) {
  const RehearsalExecution& run = report.execution;
  std::string text = fmt::format(
      "Rehearsal of {} with {}: {} of {} of the pipeline, one after the other, {} each in {} on "
      "{}\n{}\n{}\n",
      report.plan.scenario.job.model_name, to_string(report.plan.config), report.ranks.size(),
      plural(report.plan.config.pp, "rank"), plural(run.steps, "step"), name_of(run.precision),
      run.device, report.basis.rates, report.basis.predicted);
  for (const std::string& note : report.basis.notes) {
    text += note + '\n';
  }
  if (run.memory_of_others > Bytes(0.0)) {
    text += fmt::format(
        "Ranks take turns on cores: while one waited for a message, {} of other memory were used, "
        "so that caches hold what belongs to others\n",
        bytes(run.memory_of_others));
  }
  return text;
}

std::string composed_iteration_text(const RehearsalReport& report) {
  const auto devices = static_cast<double>(report.plan.config.world_size());
  const auto rate_in = [&](Seconds time) { return rate(report.hardware_flops / devices / time); };
  const auto mfu_in = [&](Seconds time) {
    return report.peak.value() > 0.0 ? percent(report.model_flops / time / report.peak)
                                     : std::string("-");
  };
  const Seconds predicted = report.predicted_time.value;
  std::string text = measured_row("", "predicted", "composed", "pred/comp");
  text += measured_row("time per iteration", {predicted, report.composed_time});
  text += measured_row("  by simulation", {report.simulated_time, report.composed_time});
  text += measured_row("per device", rate_in(predicted), rate_in(report.composed_time));
  text += measured_row("MFU", mfu_in(predicted), mfu_in(report.composed_time));
  if (report.core_contention > Seconds(0.0)) {
    text += measured_row("of that sharing cores", "", duration(report.core_contention));
  }
  text += fmt::format("  predicted {} to {}", duration(report.predicted_time.low),
                      duration(report.predicted_time.high));
  if (report.planned_time != predicted) {
    text += fmt::format("; the plan says {}", duration(report.planned_time));
  }
  return text + '\n';
}

std::string composed_terms_text(const RehearsalReport& report) {
  std::string text =
      fmt::format("Where the time goes, on rank {} of the pipeline, which computes longest\n",
                  report.terms_rank);
  for (const RehearsedTerm& term : report.terms) {
    if (term.predicted > Seconds(0.0) || term.composed > Seconds(0.0)) {
      text += measured_row(term.name, {term.predicted, term.composed});
    }
  }
  return text;
}

/// Returns the pipeline ranks that have the times of `rank`, besides itself: "1 to 2, 5".
std::string stands_for(const std::vector<int>& sources, int rank) {
  std::string text;
  for (std::size_t first = 0; first < sources.size(); ++first) {
    if (sources[first] != rank || static_cast<int>(first) == rank) {
      continue;
    }
    std::size_t last = first;
    while (last + 1 < sources.size() && sources[last + 1] == rank &&
           static_cast<int>(last + 1) != rank) {
      ++last;
    }
    text += (text.empty() ? "" : ", ") +
            (first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last));
    first = last;
  }
  return text;
}

std::string rehearsed_rank_text(const RehearsalReport& report, const RehearsedRank& rank) {
  const std::string others = stands_for(report.sources, rank.pipeline_rank);
  std::string text =
      fmt::format("Rank {} of the pipeline (rank {} of {}), {} a step, {} in flight{}\n",
                  rank.pipeline_rank, rank.rank, report.plan.config.world_size(),
                  plural(rank.microbatches, "microbatch", "microbatches"),
                  rank.activations.measured, others.empty() ? "" : "; also stands for " + others);
  text += measured_row("alone, no collectives", "predicted", "measured", "pred/meas");
  text += measured_row("compute of an iteration", rank.compute);
  for (const RehearsedAction& action : rank.actions) {
    const bool is_of_rank = action.kind == "NORM" || action.kind == "OPTIMIZER";
    text += measured_row(fmt::format("{}{} x{}", is_of_rank ? "" : std::to_string(action.stage),
                                     action.kind, action.count),
                         action.time);
  }
  for (const RehearsedMemory& memory : rank.memory) {
    text += measured_row(memory.category == "peak" ? "peak memory" : memory.category, memory.size);
  }
  return text;
}

}  // namespace

std::string to_text(const RehearsalReport& report) {
  std::string text = rehearsal_heading(report);
  text += '\n' + composed_iteration_text(report);
  text += '\n' + composed_terms_text(report);
  for (const RehearsedRank& rank : report.ranks) {
    text += '\n' + rehearsed_rank_text(report, rank);
  }
  text += "\nModelled, not measured\n";
  for (const std::string& line : report.modelled) {
    text += "  " + line + '\n';
  }
  return text;
}

}  // namespace ptdp
