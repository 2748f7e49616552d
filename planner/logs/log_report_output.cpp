// Prints the report of a log for people.
#include <fmt/format.h>

#include "cost_model/text/plural.h"
#include "cost_model/units.h"
#include "planner/formatting.h"
#include "planner/logs/log_report.h"
#include "planner/runs/measured.h"

namespace ptdp {
namespace {

std::string gib(Bytes size) {
  return fmt::format("{:.2f} GiB", size.value() / kGibi);
}

/// Adds rates of the whole run, which need a plan.
void add_rates(std::vector<LogFigure>& figures, const Plan& plan, const SteadyState& steady) {
  const Flops flops = plan.predicted.hardware_flops / static_cast<double>(plan.config.world_size());
  const double tokens =
      static_cast<double>(plan.scenario.job.global_batch_size) * plan.scenario.job.model.seq_length;
  figures.push_back(
      {"per GPU, ptdp's FLOPs", rate(plan.predicted.per_gpu.value), rate(flops / steady.time)});
  figures.push_back({"tokens/s", fmt::format("{:.0f}", plan.predicted.tokens_per_second.value),
                     fmt::format("{:.0f}", tokens / steady.time.value())});
}

/// Adds memory, as far as the log prints it.
void add_memory(std::vector<LogFigure>& figures, const LogReport& report) {
  const auto add = [&](const char* name, double measured, Bytes predicted) {
    if (measured > 0.0) {
      figures.push_back({name, report.plan ? gib(predicted) : "", gib(Bytes(measured)),
                         error_of(predicted, Bytes(measured))});
    }
  };
  const std::optional<Plan>& plan = report.plan;
  add("tensors' memory", report.memory.allocated, plan ? plan->memory.formulas() : Bytes(0.0));
  add("allocator's memory", report.memory.reserved, plan ? plan->memory.peak() : Bytes(0.0));
}

/// Returns what Megatron's timers measured of the plan's terms; "" without timers or a plan.
std::string split_text(const LogReport& report) {
  if (!report.plan || report.timers.empty()) {
    return "";
  }
  std::string text = "\nBy Megatron's timers; predicted on the rank that paces the others\n" +
                     measured_row("", "predicted", "least", "most");
  for (const TimedPart& part : split_by_timers(report.timers, report.plan->predicted.breakdown)) {
    text +=
        measured_row(part.name, duration(part.predicted), duration(part.low), duration(part.high));
  }
  return text;
}

}  // namespace

std::vector<std::string> heading_lines(const LogReport& report) {
  const SteadyState& steady = report.steady;
  std::vector<std::string> lines = {fmt::format(
      "{}: {}, iterations {} to {}, {} in a steady state, the first {} left out", report.file,
      name_of(report.format, NamedValues<LogFormat>(kLogFormatNames)), steady.first_step,
      steady.last_step, plural(steady.lines, "line"), steady.warm_up)};
  if (report.restarts > 0) {
    lines.push_back(
        fmt::format("The run was restarted {}; the last start with enough lines counts.",
                    plural(report.restarts, "time")));
  }
  if (!steady.derived_from.empty()) {
    lines.push_back(
        fmt::format("The log prints no times: they follow from its {}.", steady.derived_from));
  }
  if (report.plan) {
    const Plan& plan = *report.plan;
    lines.push_back(fmt::format("Plan: {} on {} of {} with {}, {}", plan.scenario.job.model_name,
                                plural(plan.config.world_size(), "GPU"), plan.scenario.cluster.name,
                                plan.scenario.stack.name, to_string(plan.config)));
  }
  return lines;
}

std::vector<LogFigure> figures_of(const LogReport& report) {
  const SteadyState& steady = report.steady;
  std::vector<LogFigure> figures;
  if (report.plan) {
    const Seconds predicted = report.plan->predicted.iteration_time.value;
    figures.push_back({"time per iteration", duration(predicted), duration(steady.time),
                       error_of(predicted, steady.time)});
    add_rates(figures, *report.plan, steady);
  } else {
    figures.push_back({"time per iteration", "", duration(steady.time), ""});
  }
  if (steady.tflops_per_gpu) {
    figures.push_back({"per GPU, the log's FLOPs", report.plan ? kNotPredicted : "",
                       fmt::format("{:.1f} TFLOP/s", *steady.tflops_per_gpu)});
  }
  add_memory(figures, report);
  return figures;
}

std::string to_text(const LogReport& report) {
  const SteadyState& steady = report.steady;
  std::string text;
  for (const std::string& line : heading_lines(report)) {
    text += line + '\n';
  }
  text += report.plan ? '\n' + measured_row("", "predicted", "measured", "pred/meas") : "\n";
  for (const LogFigure& figure : figures_of(report)) {
    text += report.plan ? measured_row(figure.name, figure.predicted, figure.measured, figure.error)
                        : row(figure.name, figure.measured);
  }
  text += fmt::format("  measured from {} to {} in 80 % of the lines", duration(steady.low),
                      duration(steady.high));
  if (report.plan) {
    const Estimate<Seconds>& predicted = report.plan->predicted.iteration_time;
    text +=
        fmt::format("; predicted {} to {} with 90 % probability, which {}", duration(predicted.low),
                    duration(predicted.high), report.is_inside() ? "holds" : "does not hold");
  }
  text += '\n';
  if (steady.slow > 0) {
    text +=
        fmt::format("  {} half as long again as the median, or longer\n",
                    steady.slow == 1 ? "1 line took" : fmt::format("{} lines took", steady.slow));
  }
  if (steady.loss) {
    text += fmt::format("  loss {:.4g} at iteration {}\n", *steady.loss, steady.loss_step);
  }
  text += split_text(report);
  text += titled("Doubtful", report.warnings) + titled("Assumed", report.assumptions);
  if (!report.plan) {
    text += fmt::format("\n{}\n", kHowToPredict);
  }
  return text;
}

}  // namespace ptdp
