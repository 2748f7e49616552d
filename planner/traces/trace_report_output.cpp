// Prints the report of a trace for people.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cost_model/text/plural.h"
#include "cost_model/units.h"
#include "planner/formatting.h"
#include "planner/runs/measured.h"
#include "planner/text_table.h"
#include "planner/traces/trace_report.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostRows = 12;
constexpr std::size_t kLongestName = 60;

std::string trace_heading(const TraceReport& report) {
  std::string text = report.file + ": ";
  if (report.rank != kUnsaid) {
    text += fmt::format("rank {}", report.rank);
    text += report.world_size > 0 ? fmt::format(" of {}, ", report.world_size) : ", ";
  }
  text += fmt::format("GPU {}{}", report.device,
                      report.device_name.empty() ? "" : " (" + report.device_name + ")");
  if (!report.are_marked) {
    return text + ", the trace as a whole\n";
  }
  const std::int64_t first = report.steps.front().number;
  const std::int64_t last = report.steps.back().number;
  text += first == last ? fmt::format(", iteration {}", first)
                        : fmt::format(", iterations {} to {}", first, last);
  return text +
         (report.steps_left_out > 0 ? fmt::format(", {} left out", report.steps_left_out) : "") +
         '\n';
}

std::string trace_times_text(const TraceReport& report) {
  std::string text = fmt::format(
      "\nWhere an iteration's {} go, on average over {}\n", duration(report.mean.total()),
      plural(static_cast<std::int64_t>(report.steps.size()), "iteration"));
  for (const TraceTerm& term : kTraceTerms) {
    if (report.mean.*term.time > Seconds(0.0)) {
      text += share_row(term.label, report.mean.*term.time, report.mean.total());
    }
  }
  return text;
}

std::string gigabytes(BytesPerSecond bandwidth) {
  return bandwidth > BytesPerSecond(0.0) ? fmt::format("{:.1f}", bandwidth.value() / kGiga) : "-";
}

std::string count_of(double calls) {
  return fmt::format("{:.4g}", calls);
}

std::string in_milliseconds(Seconds time) {
  return fmt::format("{:.3f}", 1e3 * time.value());
}

std::string traced_collectives_text(const TraceReport& report) {
  if (report.collectives.empty()) {
    return "";
  }
  const std::vector<TextColumn<CollectiveUse>> columns = {
      {"  collective", -26,
       [](const CollectiveUse& use) {
         return "  " + std::string(name_of(use.kind,
                                           NamedValues<TracedCollective>(kTracedCollectiveNames)));
       }},
      {"ranks", 5,
       [](const CollectiveUse& use) { return use.ranks > 0 ? std::to_string(use.ranks) : "-"; }},
      {"calls", 7, [](const CollectiveUse& use) { return count_of(use.calls); }},
      {"size", 9,
       [](const CollectiveUse& use) { return use.size > Bytes(0.0) ? bytes(use.size) : "-"; }},
      {"time", 9, [](const CollectiveUse& use) { return in_milliseconds(use.time); }},
      {"hidden", 9, [](const CollectiveUse& use) { return in_milliseconds(use.hidden); }},
      {"exposed", 9, [](const CollectiveUse& use) { return in_milliseconds(use.exposed); }},
      {"GB/s", 7, [](const CollectiveUse& use) { return gigabytes(use.bus_bandwidth); }},
      {"best", 7, [](const CollectiveUse& use) { return gigabytes(use.best_bandwidth); }},
      {"group", 0, [](const CollectiveUse& use) { return use.group; }, 2}};
  return "\nCollectives of an iteration [ms], with bus bandwidths on average and of the fastest "
         "kernel.\nA kernel waits for other ranks, too: a message for its peer.\n" +
         text_table(columns, report.collectives);
}

/// Returns the start of a name without what many kernels of PyTorch have in common; it may have a
/// thousand letters.
std::string cut_name(std::string name) {
  for (const std::string_view common : {"void ", "at::native::", "(anonymous namespace)::"}) {
    for (std::size_t at = name.find(common); at != std::string::npos; at = name.find(common)) {
      name.erase(at, common.size());
    }
  }
  return name.size() <= kLongestName ? name : name.substr(0, kLongestName - 3) + "...";
}

std::string traced_work_text(const TraceReport& report, const char* title, bool has_products) {
  std::vector<WorkUse> rows;
  std::ranges::copy_if(report.work, std::back_inserter(rows), [&](const WorkUse& use) {
    return (use.kind == WorkKind::kProduct) == has_products;
  });
  if (rows.empty()) {
    return "";
  }
  const std::size_t all = rows.size();
  rows.resize(std::min(all, kMostRows));
  std::vector<TextColumn<WorkUse>> columns = {
      {"    calls", 9, [](const WorkUse& use) { return count_of(use.calls); }},
      {"time", 9, [](const WorkUse& use) { return in_milliseconds(use.time); }}};
  if (has_products) {
    columns.push_back({"TFLOP/s", 8, [](const WorkUse& use) {
                         return use.flops > Flops(0.0) && use.time > Seconds(0.0)
                                    ? fmt::format("{:.1f}", (use.flops / use.time).value() / kTera)
                                    : "-";
                       }});
  } else {
    columns.push_back({"kind", -12,
                       [](const WorkUse& use) {
                         return std::string(
                             name_of(use.kind, NamedValues<WorkKind>(kWorkKindNames)));
                       },
                       2});
  }
  columns.push_back({has_products ? "product" : "kernel", 0,
                     [](const WorkUse& use) { return cut_name(use.name); }, 2});
  std::string text = fmt::format("\n{} of an iteration [ms], sums over kernels", title);
  text += all > rows.size() ? fmt::format(", {} of {}\n", rows.size(), all) : "\n";
  return text + text_table(columns, rows);
}

std::string trace_plan_text(const TraceReport& report) {
  if (!report.plan) {
    return "\nTo set beside it what is predicted: --plan PLAN.json, --from FILE or --config "
           "tp=8,...\n";
  }
  const Plan& plan = *report.plan;
  const Estimate<Seconds>& time = plan.predicted.iteration_time;
  std::string text =
      fmt::format("\nPlan: {} on {} of {} with {}, {}\n", plan.scenario.job.model_name,
                  plural(plan.config.world_size(), "GPU"), plan.scenario.cluster.name,
                  plan.scenario.stack.name, to_string(plan.config)) +
      measured_row("", "predicted", "measured", "pred/meas") +
      measured_row("time per iteration", duration(time.value), duration(report.time),
                   error_of(time.value, report.time));
  const Seconds compute = predicted_compute(plan.predicted.breakdown);
  text += measured_row("all compute", duration(compute), duration(report.mean.compute()),
                       error_of(compute, report.mean.compute()));
  const auto shown = [](const std::optional<Seconds>& part) {
    return part ? duration(*part) : std::string("-");
  };
  for (const TracePart& part :
       split_by_trace(report.mean, report.collectives, plan.predicted.breakdown, plan.config)) {
    const Seconds none;
    text += measured_row(part.name, shown(part.predicted), shown(part.measured),
                         error_of(part.predicted.value_or(none), part.measured.value_or(none)));
  }
  return text +
         fmt::format(
             "  predicted {} to {} with 90 % probability, which {}\n"
             "  Predicted on the rank that paces the others. What is recomputed, embedding and "
             "logits are in\n  the measured products, attention and element-wise work; "
             "communication is what nothing hides.\n",
             duration(time.low), duration(time.high),
             report.is_inside() ? "holds" : "does not hold");
}

}  // namespace

std::string to_text(const TraceReport& report) {
  return trace_heading(report) + trace_times_text(report) + traced_collectives_text(report) +
         traced_work_text(report, "Products", true) +
         traced_work_text(report, "Other work", false) + trace_plan_text(report) +
         titled("Doubtful", report.warnings) + titled("Assumed", report.assumptions);
}

}  // namespace ptdp
