#include "tools/plan/measured_flag.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "cost_model/error.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

// No iteration takes less or more [s].
constexpr double kShortestIteration = 1e-6;
constexpr double kLongestIteration = 1e7;

/// A unit of --measured, and the seconds of an iteration of a plan that a number of it means.
struct MeasuredUnit {
  std::string_view name;
  double (*seconds)(double number, const Plan& plan);
};

double tokens_of(const Plan& plan) {
  const TrainingJob& job = plan.scenario.job;
  return static_cast<double>(job.global_batch_size) * job.model.seq_length;
}

/// Returns the seconds in which each GPU of a plan computes an iteration at `teraflops`.
template <FlopCount kCount>
double at_teraflops(double teraflops, const Plan& plan) {
  const TrainingJob& job = plan.scenario.job;
  const Flops flops = counted_flops(kCount, job.model, job.global_batch_size, plan.config);
  return flops.value() / static_cast<double>(plan.config.world_size()) / (teraflops * kTera);
}

constexpr std::array kMeasuredUnits = {
    MeasuredUnit{"s", [](double n, const Plan& /*plan*/) { return n; }},
    MeasuredUnit{"ms", [](double n, const Plan& /*plan*/) { return 1e-3 * n; }},
    MeasuredUnit{"tokens/s", [](double n, const Plan& plan) { return tokens_of(plan) / n; }},
    MeasuredUnit{"tokens/s/GPU",
                 [](double n, const Plan& plan) {
                   return tokens_of(plan) / static_cast<double>(plan.config.world_size()) / n;
                 }},
    MeasuredUnit{"model-TFLOP/s", at_teraflops<FlopCount::kModel>},
    MeasuredUnit{"causal-TFLOP/s", at_teraflops<FlopCount::kCausal>},
    MeasuredUnit{"hardware-TFLOP/s", at_teraflops<FlopCount::kHardware>}};

}  // namespace

void add_measured_flags(po::options_description& flags) {
  auto option = flags.add_options();
  option("measured", text_value("TIME"),
         "with --config or --from: what an iteration really took: 24s, 850ms, 61000tokens/s, "
         "7104tokens/s/GPU, 163TFLOP/s of a GPU as the stack's log counts, or by what is counted: "
         "163model-TFLOP/s, causal- (half of attention), hardware- (with recomputation)");
  option("log", text_value("FILE"),
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
      const double seconds = known.seconds(number, plan);
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

MeasuredFlags measured_flags(const CommandLine& line, const Plan& plan) {
  const auto measured = line.text("measured");
  const auto log = line.text("log");
  if (measured && log) {
    throw Error("--measured and --log: expected one of them, got both");
  }
  MeasuredFlags flags;
  if (measured) {
    flags.iteration =
        compare_iteration(plan, parse_measured(*measured, plan, "--measured"), *measured);
  }
  if (log) {
    flags.log = report_log(read_training_log(*log), *log, plan);
    flags.iteration = compare_iteration(plan, flags.log->steady.time, flags.log->file);
  }
  return flags;
}

}  // namespace ptdp
