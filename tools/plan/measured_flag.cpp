#include "tools/plan/measured_flag.h"

#include <array>
#include <charconv>
#include <string_view>

#include "cost_model/error.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/text/in_quotes.h"
#include "planner/logs/log_report.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

// No iteration takes less or more [s].
constexpr double kShortestIteration = 1e-6;
constexpr double kLongestIteration = 1e7;

/// Amounts of an iteration that rates are of.
struct IterationAmounts {
  double tokens = 0.0;
  double gpus = 0.0;
  double model_flops = 0.0;
  double causal_flops = 0.0;
  double hardware_flops = 0.0;
};

/// A unit of --measured, and the seconds of an iteration that a number of it means.
struct MeasuredUnit {
  std::string_view name;
  double (*seconds)(double number, const IterationAmounts& amounts);
};
constexpr std::array kMeasuredUnits = {
    MeasuredUnit{"s", [](double n, const IterationAmounts& /*a*/) { return n; }},
    MeasuredUnit{"ms", [](double n, const IterationAmounts& /*a*/) { return 1e-3 * n; }},
    MeasuredUnit{"tokens/s", [](double n, const IterationAmounts& a) { return a.tokens / n; }},
    MeasuredUnit{"tokens/s/GPU",
                 [](double n, const IterationAmounts& a) { return a.tokens / a.gpus / n; }},
    MeasuredUnit{
        "model-TFLOP/s",
        [](double n, const IterationAmounts& a) { return a.model_flops / a.gpus / (n * kTera); }},
    MeasuredUnit{
        "causal-TFLOP/s",
        [](double n, const IterationAmounts& a) { return a.causal_flops / a.gpus / (n * kTera); }},
    MeasuredUnit{"hardware-TFLOP/s", [](double n, const IterationAmounts& a) {
                   return a.hardware_flops / a.gpus / (n * kTera);
                 }}};

IterationAmounts amounts_of(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const std::int64_t batch = plan.scenario.job.global_batch_size;
  return {.tokens = static_cast<double>(batch) * model.seq_length,
          .gpus = static_cast<double>(plan.config.world_size()),
          .model_flops = plan.predicted.model_flops.value(),
          .causal_flops = causal_model_flops(model, batch).value(),
          .hardware_flops = plan.predicted.hardware_flops.value()};
}

}  // namespace

void add_measured_flags(po::options_description& flags) {
  auto option = flags.add_options();
  option("measured", text_value(),
         "with --config or --from: what an iteration really took: 24s, 850ms, 61000tokens/s, "
         "7104tokens/s/GPU, 163TFLOP/s of a GPU as the stack's log counts, or by what is counted: "
         "163model-TFLOP/s, causal- (half of attention), hardware- (with recomputation)");
  option("log", text_value(),
         "the training log that says so; it may list the arguments that --from would read");
}

void refuse_measured_flags(const CommandLine& line, const std::string& by) {
  for (const char* flag : {"measured", "log"}) {
    if (line.has(flag)) {
      throw Error(std::string("--") + flag + ": not used by " + by +
                  "; expected --config or --from beside it, which say what was run");
    }
  }
}

Seconds parse_measured(const std::string& text, const Plan& plan, const std::string& place) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  std::string unit(rest.substr(std::min(rest.find_first_not_of(' '), rest.size())));
  const std::optional<FlopCount>& logged = plan.scenario.stack.logged_flops;
  if (unit == "TFLOP/s" && logged) {
    unit = std::string(name_of(*logged, NamedValues<FlopCount>(kFlopCountNames))) + "-TFLOP/s";
  } else if (unit == "TFLOP/s") {
    throw Error(
        place +
        ": expected model-TFLOP/s, causal-TFLOP/s or hardware-TFLOP/s, since what the log of " +
        plan.scenario.stack.name + " counts is not known, got " + in_quotes(text));
  }
  for (const MeasuredUnit& known : kMeasuredUnits) {
    if (error == std::errc() && number > 0.0 && unit == known.name) {
      const double seconds = known.seconds(number, amounts_of(plan));
      if (seconds < kShortestIteration || seconds > kLongestIteration) {
        throw Error(place + ": expected an iteration of 1e-06 s to 1e+07 s, got " +
                    in_quotes(text));
      }
      return Seconds(seconds);
    }
  }
  std::string units;
  for (const MeasuredUnit& known : kMeasuredUnits) {
    units += (units.empty() ? "" : ", ") + std::string(known.name);
  }
  throw Error(place + ": expected a number above 0 and one of " + units + ", got " +
              in_quotes(text));
}

std::optional<MeasuredIteration> measured_iteration(const CommandLine& line, const Plan& plan) {
  const auto measured = line.text("measured");
  const auto log = line.text("log");
  if (measured && log) {
    throw Error("--measured and --log: expected one of them, got both");
  }
  if (measured) {
    return compare_iteration(plan, parse_measured(*measured, plan, "--measured"), *measured);
  }
  if (log) {
    const LogReport report = report_log(read_training_log(*log), *log, plan);
    return compare_iteration(plan, report.steady.time, report.file);
  }
  return std::nullopt;
}

}  // namespace ptdp
