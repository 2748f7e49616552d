// ptdp-validate: predicted against measured, run by run.
#include <fmt/format.h>

#include <sstream>

#include "cost_model/error.h"
#include "planner/validation_report.h"
#include "tools/command_line.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

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

/// Throws Error(kOutsideTolerance) where `error` [fraction] exceeds the flag's value [%].
void check_tolerance(const CommandLine& line, const std::string& flag, double error) {
  const auto tolerance = line.number(flag, 0.0, 1e6);
  if (tolerance.has_value() && 100.0 * error > *tolerance) {
    throw Error(fmt::format("--{}: {:.2f} % exceeds {} %", flag, 100.0 * error, *tolerance),
                ExitStatus::kOutsideTolerance);
  }
}

int run(int argc, const char* const* argv) {
  const po::options_description flags = flag_descriptions();
  const CommandLine line(argc, argv, flags);
  if (line.has("help")) {
    std::ostringstream text;
    text << kUsage << flags;
    print(text.str());
    return 0;
  }
  if (line.has("version")) {
    print(std::string("ptdp-validate ") + PTDP_VERSION + "\n");
    return 0;
  }
  if (!line.words().empty()) {
    throw Error("unexpected word \"" + line.words().front() + "\" (--help shows the flags)");
  }
  const auto format = line.choice("format", {"table", "json"}).value_or(0);
  const auto file = line.text("runs");
  const ValidationReport report = make_validation_report(
      file.has_value() ? read_measured_runs(CsvTable::from_file(*file)) : read_published_runs());
  print(format == 1 ? to_json(report) : to_table(report));
  if (report.runs.costed.empty()) {
    throw Error("no run could be costed; the reasons are listed above");
  }
  const GroupErrors& all = report.groups.back();
  check_tolerance(line, "max-mape", all.uncalibrated.mean_absolute);
  check_tolerance(line, "max-error", all.uncalibrated.max_absolute);
  check_tolerance(line, "max-mape-loo", all.leave_one_out.mean_absolute);
  check_tolerance(line, "max-error-loo", all.leave_one_out.max_absolute);
  return 0;
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  return ptdp::run_command("ptdp-validate", [&] { return ptdp::run(argc, argv); });
}
