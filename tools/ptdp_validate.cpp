// ptdp-validate: predicted against measured, run by run.
#include <fmt/format.h>

#include "cost_model/error.h"
#include "cost_model/spec/in_quotes.h"
#include "planner/validation_report.h"
#include "tools/command_line.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "ptdp-validate";
constexpr const char* kUsage =
    "usage: ptdp-validate [--runs FILE.csv] [flags]\n"
    "\n"
    "Costs every run of the file as it was configured; without a file, the shipped published "
    "runs.\n"
    "The columns are those of profiles/published (profiles/README.md). With tolerances, the exit\n"
    "status is 6 where one is missed.\n"
    "\n";

po::options_description flag_descriptions() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  const auto text = [] { return po::value<std::string>(); };
  option("runs", text(), "measured runs, comma-separated values");
  option("format", text(), "table, json (default: table)");
  option("max-mape", text(), "tolerated mean absolute error of uncalibrated predictions [%]");
  option("max-error", text(), "tolerated worst error of uncalibrated predictions [%]");
  option("max-mape-loo", text(), "the same for leave-one-out predictions [%]");
  option("max-error-loo", text(), "the same for leave-one-out predictions [%]");
  option("help,h", "this text");
  option("version", "the version");
  return flags;
}

/// A tolerance that was given, and the error that it is for.
struct Tolerance {
  std::string flag;
  double percent = 0.0;
  double ErrorSummary::*error = nullptr;
  ErrorSummary GroupErrors::*kind = nullptr;
};

std::vector<Tolerance> read_tolerances(const CommandLine& line) {
  std::vector<Tolerance> tolerances;
  const auto add = [&](const std::string& flag, double ErrorSummary::*error,
                       ErrorSummary GroupErrors::*kind) {
    if (const auto percent = line.number(flag, 0.0, 1e6)) {
      tolerances.push_back({flag, *percent, error, kind});
    }
  };
  add("max-mape", &ErrorSummary::mean_absolute, &GroupErrors::uncalibrated);
  add("max-error", &ErrorSummary::max_absolute, &GroupErrors::uncalibrated);
  add("max-mape-loo", &ErrorSummary::mean_absolute, &GroupErrors::leave_one_out);
  add("max-error-loo", &ErrorSummary::max_absolute, &GroupErrors::leave_one_out);
  return tolerances;
}

/// Throws Error(kOutsideTolerance) at the first tolerance that is missed.
void check_tolerances(const std::vector<Tolerance>& tolerances, const GroupErrors& errors) {
  for (const Tolerance& tolerance : tolerances) {
    const double percent = 100.0 * (errors.*tolerance.kind).*tolerance.error;
    if (percent > tolerance.percent) {
      throw Error(
          fmt::format("--{}: {:.2f} % exceeds {} %", tolerance.flag, percent, tolerance.percent),
          ExitStatus::kOutsideTolerance);
    }
  }
}

int run(int argc, const char* const* argv) {
  const po::options_description flags = flag_descriptions();
  const CommandLine line(argc, argv, flags);
  if (const auto answer = standard_answer(line, kProgram, kUsage, flags)) {
    print(*answer);
    return 0;
  }
  if (!line.words().empty()) {
    throw Error("unexpected word " + in_quotes(line.words().front()) + " (--help shows the flags)");
  }
  const auto format = line.choice("format", {"table", "json"}).value_or(0);
  const std::vector<Tolerance> tolerances = read_tolerances(line);
  const auto file = line.text("runs");
  const ValidationReport report = make_validation_report(
      file.has_value() ? read_measured_runs(CsvTable::from_file(*file)) : read_published_runs());
  print(format == 1 ? to_json(report) : to_table(report));
  if (report.runs.costed.empty()) {
    throw Error(report.runs.skipped.empty()
                    ? "no runs in " + in_quotes(file.value_or("the shipped runs"))
                    : "no run could be costed; the reasons are listed above");
  }
  check_tolerances(tolerances, report.groups.back());
  return 0;
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  return ptdp::run_command(ptdp::kProgram, [&] { return ptdp::run(argc, argv); });
}
