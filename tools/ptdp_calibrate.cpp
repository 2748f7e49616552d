// ptdp-calibrate: one factor per cluster and software stack out of measured runs.
#include <fmt/format.h>

#include "cost_model/calibration/quantile.h"
#include "cost_model/error.h"
#include "planner/interval_fit.h"
#include "planner/refit.h"
#include "tools/command_line.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "ptdp-calibrate";
constexpr const char* kUsage =
    "usage: ptdp-calibrate --runs FILE.csv [-o DIRECTORY]   a factor per cluster and stack\n"
    "       ptdp-calibrate --intervals [--runs FILE.csv]    the constants of the intervals\n"
    "\n"
    "Fits a factor to the runs of every cluster and stack that has three, and writes each to\n"
    "DIRECTORY/<cluster>+<stack>.json, for ptdp-plan --calibration DIRECTORY. The columns are "
    "those\n"
    "of profiles/published (profiles/README.md). --runs may be repeated.\n"
    "\n";

po::options_description flag_descriptions() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("runs", texts_value(), "measured runs, comma-separated values");
  option("output,o", text_value(), "write the factors into this directory");
  option("intervals", "fit the constants of the intervals (default: to the published runs)");
  option("help,h", "this text");
  option("version", "the version");
  return flags;
}

std::string describe_model(const IntervalModel& model) {
  return fmt::format("near {:.2f}, per distance {:.3f}, not calibrated x {:.2f} .. {:.2f}",
                     model.near, model.per_distance, model.uncalibrated.low,
                     model.uncalibrated.high);
}

std::string half_width_line(const char* what, const std::vector<double>& half_widths) {
  return half_widths.empty() ? ""
                             : fmt::format("  {}: {} runs, median half-width {:.1f} %\n", what,
                                           half_widths.size(), 100.0 * median(half_widths));
}

std::string intervals_text(const std::vector<CostedRun>& runs) {
  const std::string text =
      fmt::format("fitted to {} runs: {}\nin cost_model/calibration/interval.h: {}\n", runs.size(),
                  describe_model(fit_intervals(runs)), describe_model(kIntervalModel));
  const std::vector<HeldOutCoverage> coverages = held_out_coverage(runs);
  const CoverageSummary all = summarize(coverages);
  return text +
         fmt::format("groups held out: {:.1f} % inside, mean of {} groups\n",
                     100.0 * all.inside_interval, coverages.size()) +
         half_width_line("calibrated by other groups", all.calibrated_half_widths) +
         half_width_line("not calibrated", all.uncalibrated_half_widths);
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

int run_intervals(const CommandLine& line) {
  if (line.has("output")) {
    throw Error("--output: not used by --intervals");
  }
  const std::vector<std::string> files = line.texts("runs");
  const CostedRuns runs =
      cost_runs(files.empty() ? read_published_runs() : read_runs({files.begin(), files.end()}));
  if (runs.costed.empty()) {
    throw Error("no run could be costed; ptdp-validate lists the reasons");
  }
  print(intervals_text(runs.costed));
  return 0;
}

int run_refit(const CommandLine& line) {
  const std::vector<std::string> files = line.texts("runs");
  const auto output = line.text("output");
  if (files.empty()) {
    throw Error("--runs is missing (--help shows all flags)");
  }
  if (output.has_value() && output->empty()) {
    throw Error("--output: expected the name of a directory, got \"\"");
  }
  const CostedRuns runs = cost_runs(read_runs({files.begin(), files.end()}));
  const std::vector<Refit> refits = refit(runs.costed, joined(files));
  const std::string table = to_table(refits, runs.skipped);
  if (runs.costed.empty()) {
    print(table);
    throw Error("no run could be costed; the reasons are listed above");
  }
  if (output.has_value()) {
    write_calibrations(*output, refits);
  }
  print(table);
  return 0;
}

int run(int argc, const char* const* argv) {
  const po::options_description flags = flag_descriptions();
  const CommandLine line(argc, argv, flags);
  if (const auto answer = standard_answer(line, kProgram, kUsage, flags)) {
    print(*answer);
    return 0;
  }
  line.allow_words(0);
  return line.has("intervals") ? run_intervals(line) : run_refit(line);
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  return ptdp::run_command(ptdp::kProgram, [&] { return ptdp::run(argc, argv); });
}
