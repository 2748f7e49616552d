// Holds a log against a plan, and writes that as JSON.
#include "planner/logs/log_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/units.h"
#include "planner/logs/logged_arguments.h"

namespace ptdp {
namespace {

// A tenth of the lines that take so many times the median is worth a warning.
constexpr double kWideSpread = 1.25;

LoggedJob job_of(const Plan& plan) {
  const auto sequences = static_cast<double>(plan.scenario.job.global_batch_size);
  const double tokens = sequences * plan.scenario.job.model.seq_length;
  return {.sequences = sequences,
          .tokens = tokens,
          .tokens_per_gpu = tokens / static_cast<double>(plan.config.world_size())};
}

std::vector<std::string> warnings_of(const LogReport& report) {
  std::vector<std::string> warnings;
  const SteadyState& steady = report.steady;
  if (steady.high.value() > kWideSpread * steady.time.value()) {
    warnings.push_back(
        fmt::format("times vary: a tenth of the lines take {:.2f} times the median "
                    "and more; evaluation, checkpoints or sequences that differ "
                    "in length",
                    steady.high / steady.time));
  }
  if (steady.skipped > 0) {
    warnings.push_back(
        fmt::format("{} of these iterations skipped the optimizer step", steady.skipped));
  }
  if (steady.loss && std::isnan(*steady.loss)) {
    warnings.push_back(fmt::format("the loss is not a number at iteration {}", steady.loss_step));
  }
  if (report.plan) {
    const double rate = report.plan->predicted.per_gpu.value.value() / kTera;
    const double peak = rate / report.plan->predicted.hfu.value;
    const double measured = rate * (report.plan->predicted.iteration_time.value / steady.time);
    const double most = std::max(measured, steady.tflops_per_gpu.value_or(0.0));
    if (most > peak) {
      warnings.push_back(fmt::format(
          "{:.0f} TFLOP/s per GPU, {}, are more than its peak of {:.0f}: "
          "the log is of another run, or wrong",
          most, most > measured ? "which the log prints" : "which the time means", peak));
    }
  }
  return warnings;
}

std::vector<LoggedLoss> losses_of(const TrainingLog& log) {
  std::vector<LoggedLoss> losses;
  for (const LogRecord& record : log.records) {
    if (record.loss && std::isfinite(*record.loss)) {
      losses.push_back({record.step, *record.loss});
    }
  }
  return losses;
}

void write_steady_state(ObjectWriter& writer, const SteadyState& steady) {
  writer.quantity("time_s", steady.time, 1.0);
  writer.quantity("low_s", steady.low, 1.0);
  writer.quantity("high_s", steady.high, 1.0);
  writer.count("lines", steady.lines);
  writer.count("lines_left_out", steady.warm_up);
  writer.count("slow_lines", steady.slow);
  writer.count("first_step", steady.first_step);
  writer.count("last_step", steady.last_step);
  writer.count("skipped_steps", steady.skipped);
  writer.text("derived_from", steady.derived_from);
  if (steady.tflops_per_gpu) {
    writer.number("printed_tflops_per_gpu", *steady.tflops_per_gpu);
  }
  if (steady.loss && std::isfinite(*steady.loss)) {
    writer.number("loss", *steady.loss);
  }
}

void write_memory(ObjectWriter& writer, const LogMemory& memory) {
  writer.number("allocated_bytes", memory.allocated);
  writer.number("reserved_bytes", memory.reserved);
}

void write_predicted(ObjectWriter& writer, const Plan& plan) {
  const Estimate<Seconds>& time = plan.predicted.iteration_time;
  writer.text("configuration", to_string(plan.config));
  writer.quantity("iteration_time_s", time.value, 1.0);
  writer.numbers("interval_s", {time.low.value(), time.high.value()});
  writer.quantity("tflops_per_gpu", plan.predicted.per_gpu.value, kTera);
  writer.quantity("memory_bytes", plan.memory.peak(), 1.0);
  writer.quantity("memory_without_reserve_bytes", plan.memory.formulas(), 1.0);
}

}  // namespace

std::optional<double> LogReport::error() const {
  return plan ? std::optional(plan->predicted.iteration_time.value / steady.time - 1.0)
              : std::nullopt;
}

bool LogReport::is_inside() const {
  return plan && steady.time >= plan->predicted.iteration_time.low &&
         steady.time <= plan->predicted.iteration_time.high;
}

LogReport report_log(const TrainingLog& log, const std::string& place,
                     const std::optional<Plan>& plan, std::vector<std::string> assumptions) {
  const std::optional<std::string> unread =
      plan ? check_logged_arguments(log.arguments, *plan, place) : std::nullopt;
  LogReport report{
      .file = place,
      .format = log.format,
      .restarts = log.restarts,
      .steady = find_steady_state(log, plan ? std::optional(job_of(*plan)) : std::nullopt, place),
      .memory = log.memory,
      .timers = log.timers,
      .losses = losses_of(log),
      .plan = plan,
      .assumptions = std::move(assumptions)};
  report.warnings = warnings_of(report);
  if (unread) {
    report.warnings.push_back(*unread);
  }
  return report;
}

CostedRun costed_run(const LogReport& report) {
  if (!report.plan) {
    throw Error(report.file +
                ": expected what was run too: --plan, --from or --config, or --cluster for a log "
                "that lists its arguments");
  }
  const Plan& plan = *report.plan;
  if (plan.tool_version != PTDP_VERSION) {
    throw Error(report.file + ": tool_version of its plan: predictions of " + plan.tool_version +
                " are not those of " PTDP_VERSION "; plan it again");
  }
  const double memory =
      report.memory.reserved > 0.0 ? report.memory.reserved : report.memory.allocated;
  return {
      .run = {.id = std::filesystem::path(report.file).filename().string(),
              .group = "log",
              .source = report.file,
              .cluster = plan.scenario.cluster.name,
              .stack = plan.scenario.stack.name,
              .model = plan.scenario.job.model,
              .global_batch_size = plan.scenario.job.global_batch_size,
              .config = plan.config,
              .precision = std::string(name_of(plan.scenario.stack.precision)),
              .iteration_time = report.steady.time,
              .memory = memory > 0.0 ? std::optional(Bytes(memory)) : std::nullopt},
      .predicted = plan.predicted.iteration_time.value * (1.0 / plan.predicted.calibration_factor),
      .precision = precision_name(plan.scenario.stack),
      .scenario = std::make_shared<const Scenario>(plan.scenario)};
}

std::string to_json(const LogReport& report) {
  ObjectWriter writer;
  writer.schema(kLogSchema);
  writer.text("tool_version", PTDP_VERSION);
  writer.text("file", report.file);
  writer.choice("program", report.format, NamedValues<LogFormat>(kLogFormatNames));
  writer.count("restarts", report.restarts);
  writer.part("measured", [&](ObjectWriter& part) { write_steady_state(part, report.steady); });
  if (report.memory.allocated > 0.0 || report.memory.reserved > 0.0) {
    writer.part("memory", [&](ObjectWriter& part) { write_memory(part, report.memory); });
  }
  if (report.plan) {
    writer.part("predicted", [&](ObjectWriter& part) { write_predicted(part, *report.plan); });
    writer.number("error_pct", 100.0 * *report.error());
    writer.flag("inside_interval", report.is_inside());
  }
  if (report.plan && !report.timers.empty()) {
    const std::vector<TimedPart> parts =
        split_by_timers(report.timers, report.plan->predicted.breakdown);
    std::vector<ObjectWriter> split(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      split[i].text("part", std::string(parts[i].name));
      split[i].quantity("predicted_s", parts[i].predicted, 1.0);
      split[i].quantity("low_s", parts[i].low, 1.0);
      split[i].quantity("high_s", parts[i].high, 1.0);
    }
    writer.children("split", std::move(split));
  }
  writer.texts("assumptions", report.assumptions);
  writer.texts("warnings", report.warnings);
  return writer.dump();
}

std::string in_format(AnswerFormat format, const LogReport& report) {
  return format == AnswerFormat::kJson ? to_json(report) : to_text(report);
}

}  // namespace ptdp
