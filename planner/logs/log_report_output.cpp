// Prints the report of a log for people.
#include <fmt/format.h>

#include "cost_model/text/plural.h"
#include "cost_model/units.h"
#include "planner/formatting.h"
#include "planner/logs/log_report.h"
#include "planner/runs/measured.h"

namespace ptdp {
namespace {

std::string heading(const LogReport& report) {
  const SteadyState& steady = report.steady;
  std::string text = fmt::format(
      "{}: {}, iterations {} to {}, {} in a steady state, the first {} left out\n", report.file,
      name_of(report.format, NamedValues<LogFormat>(kLogFormatNames)), steady.first_step,
      steady.last_step, plural(steady.lines, "line"), steady.warm_up);
  if (report.restarts > 0) {
    text += fmt::format("The run was restarted {}; the last start with enough lines counts.\n",
                        plural(report.restarts, "time"));
  }
  if (!steady.derived_from.empty()) {
    text += fmt::format("The log prints no times: they follow from its {}.\n", steady.derived_from);
  }
  if (report.plan) {
    const Plan& plan = *report.plan;
    text += fmt::format("Plan: {} on {} of {} with {}, {}\n", plan.scenario.job.model_name,
                        plural(plan.config.world_size(), "GPU"), plan.scenario.cluster.name,
                        plan.scenario.stack.name, to_string(plan.config));
  }
  return text;
}

/// Returns a line of a value: with a plan as predicted and as measured, else as measured alone.
std::string line_of(const LogReport& report, std::string_view name, const std::string& predicted,
                    const std::string& measured, const std::string& error = "") {
  return report.plan ? measured_row(name, predicted, measured, error) : row(name, measured);
}

std::string gib(Bytes size) {
  return fmt::format("{:.2f} GiB", size.value() / kGibi);
}

/// Returns rates of the whole run, which need a plan.
std::string rates_text(const Plan& plan, const SteadyState& steady) {
  const Flops flops = plan.predicted.hardware_flops / static_cast<double>(plan.config.world_size());
  const double tokens =
      static_cast<double>(plan.scenario.job.global_batch_size) * plan.scenario.job.model.seq_length;
  return measured_row("per GPU, ptdp's FLOPs", rate(plan.predicted.per_gpu.value),
                      rate(flops / steady.time)) +
         measured_row("tokens/s", fmt::format("{:.0f}", plan.predicted.tokens_per_second.value),
                      fmt::format("{:.0f}", tokens / steady.time.value()));
}

std::string memory_text(const LogReport& report) {
  std::string text;
  const auto add = [&](const char* name, double measured, Bytes predicted) {
    if (measured > 0.0) {
      text += line_of(report, name, gib(predicted), gib(Bytes(measured)),
                      error_of(predicted, Bytes(measured)));
    }
  };
  const std::optional<Plan>& plan = report.plan;
  add("tensors' memory", report.memory.allocated, plan ? plan->memory.formulas() : Bytes(0.0));
  add("allocator's memory", report.memory.reserved, plan ? plan->memory.peak() : Bytes(0.0));
  return text;
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

std::string to_text(const LogReport& report) {
  const SteadyState& steady = report.steady;
  const Estimate<Seconds> predicted =
      report.plan ? report.plan->predicted.iteration_time : Estimate<Seconds>{};
  std::string text = heading(report) + "\n";
  if (report.plan) {
    text += measured_row("", "predicted", "measured", "pred/meas");
  }
  text += line_of(report, "time per iteration", duration(predicted.value), duration(steady.time),
                  error_of(predicted.value, steady.time));
  if (report.plan) {
    text += rates_text(*report.plan, steady);
  }
  if (steady.tflops_per_gpu) {
    text += line_of(report, "per GPU, the log's FLOPs", "-",
                    fmt::format("{:.1f} TFLOP/s", *steady.tflops_per_gpu));
  }
  text += memory_text(report);
  text += fmt::format("  measured from {} to {} in 80 % of the lines", duration(steady.low),
                      duration(steady.high));
  if (report.plan) {
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
    text +=
        "\nTo set beside it what is predicted: --plan PLAN.json, --from FILE or --config tp=8,...; "
        "for a log that lists its arguments --cluster will do.\n";
  }
  return text;
}

}  // namespace ptdp
