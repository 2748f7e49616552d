// ptdp-validate: compares predictions with measured runs, run by run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/accuracy/calibration_file.h"
#include "planner/accuracy/partial_runs.h"
#include "planner/accuracy/published_report.h"
#include "planner/accuracy/published_runs.h"
#include "planner/accuracy/validation_report.h"
#include "planner/answer_format.h"
#include "planner/logs/log_report.h"
#include "planner/report/answers/log_page.h"
#include "planner/report/answers/run_page.h"
#include "planner/report/answers/validation_page.h"
#include "planner/runs/run_report.h"
#include "planner/runs/run_set.h"
#include "planner/traces/trace_reader.h"
#include "planner/traces/trace_report.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_of_run.h"
#include "tools/planner_commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"
#include "tools/shared/output_files.h"
#include "tools/shared/report_flag.h"
#include "tools/shared/table_command.h"
#include "tools/shared/terminal.h"
#include "tools/shared/working_line.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "ptdp-validate";
constexpr const char* kUsage =
    "usage: ptdp-validate [--runs FILE.csv]... [--group NAME]... [flags]\n"
    "       ptdp-validate run.json... [--max-error PERCENT] [--format json]\n"
    "       ptdp-validate --log train.log [--plan plan.json] [--max-error PERCENT]\n"
    "       ptdp-validate --trace trace.json.gz [--plan plan.json] [--max-error PERCENT]\n"
    "\n"
    "Predicts every run of the files as it was configured and shows how far off that is; without\n"
    "a file, the published runs that are shipped. The columns are those of profiles/published\n"
    "(profiles/README.md). --runs and --group may be repeated. A row that leaves fields out gets\n"
    "the range over what they are likely to have been. Where an error exceeds --max-mape or\n"
    "--max-error, the exit status is 6. A report of ptdp-run (run.json) is printed again; several\n"
    "are compared: errors by run and by term, and whether plans of one job come in their measured\n"
    "order.\n"
    "\n"
    "--log reads the log of Megatron-LM, Megatron-Bridge, Megatron-DeepSpeed, torchtitan, "
    "nanotron,\n"
    "NeMo, DeepSpeed, or a progress bar, and shows its steady state beside what is predicted for\n"
    "the run. A plan, a script (--from), --config with the job's flags, or the list of arguments "
    "in\n"
    "the log itself says what was run.\n"
    "\n"
    "--trace reads one rank's trace of PyTorch's profiler, plain or packed by gzip, and shows "
    "where\n"
    "the time of its GPU went: products by shape, attention, element-wise work, each collective "
    "by\n"
    "group and how much of it compute hides, idle time. A plan, --from or --config sets beside it\n"
    "what is predicted, term by term.\n"
    "\n"
    "calibrations, by which a factor corrects the predictions of each row:\n"
    "  none                 no factor: the cost model as it is\n"
    "  shipped              as in ptdp-plan: fitted to published runs of other jobs\n"
    "  leave-one-out        fitted to the other rows of its cluster, stack and kind of model\n"
    "                       (dense, or with experts)\n"
    "  leave-one-group-out  fitted to those of them that are in other groups\n"
    "  scale                fitted to all of them, the row itself included (in-sample): no test\n"
    "                       of the model\n"
    "\n"
    "GLOSSARY.md explains the terms.\n"
    "\n";

CommandTable command_table() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("runs", texts_value("FILE"), "file of measured runs, comma-separated values");
  option("group", texts_value("GROUP"), "only rows with this name in the column holdout_group");
  option(
      "calibration", text_value("CALIBRATION", names_of<CalibrationKind>(kCalibrationKindNames)),
      "see above (default: none); of --log and --trace: none, shipped, or a file or directory of "
      "ptdp-calibrate (default: shipped)");
  option("ranking", "also show whether configurations of one job come in their measured order");
  option("format", text_value("FORMAT", {"table", "json", "markdown"}),
         "table, json, or markdown, a page of all errors (default: table)");
  option("max-mape", text_value("PERCENT"),
         "largest mean absolute error of all rows that is tolerated [%]");
  option("max-error", text_value("PERCENT"), "largest error of any row that is tolerated [%]");
  option("report", text_value("FILE"), kReportHelp);
  option("log", text_value("FILE"), "log of a training program");
  option("trace", text_value("FILE"), "trace of a rank by PyTorch's profiler");
  option("plan", text_value("FILE"), "plan of the run that --log or --trace is of");
  add_run_flags(flags);
  option("help,h", "this text");
  option("version", "the version");
  return {
      .name = kProgram, .usage = kUsage, .groups = {{"flags", flags}}, .operand = {.name = "FILE"}};
}

/// A tolerance from a flag, and the error that it limits.
struct Tolerance {
  std::string flag;
  double percent = 0.0;
  double ErrorSummary::*error = nullptr;
};

std::vector<Tolerance> read_tolerances(const CommandLine& line) {
  std::vector<Tolerance> tolerances;
  const auto add = [&](const std::string& flag, double ErrorSummary::*error) {
    if (const auto percent = line.number(flag, 0.0, 1e6)) {
      tolerances.push_back({flag, *percent, error});
    }
  };
  add("max-mape", &ErrorSummary::mean_absolute);
  add("max-error", &ErrorSummary::max_absolute);
  return tolerances;
}

/// Throws Error(kOutsideTolerance) for the first tolerance that is exceeded.
void check_tolerances(const std::vector<Tolerance>& tolerances, const ErrorSummary& errors) {
  for (const Tolerance& tolerance : tolerances) {
    const double percent = 100.0 * errors.*tolerance.error;
    if (percent > tolerance.percent) {
      throw Error(
          fmt::format("--{}: {:.2f} % exceeds {} %", tolerance.flag, percent, tolerance.percent),
          ExitStatus::kOutsideTolerance);
    }
  }
}

/// Returns the rows of the named groups, or all rows when no group is named. Throws Error for a
/// group without rows.
MeasuredRuns select_groups(MeasuredRuns runs, const std::vector<std::string>& groups) {
  if (groups.empty()) {
    return runs;
  }
  std::set<std::string> names;
  for (const MeasuredRun& run : runs.runs) {
    names.insert(run.group);
  }
  for (const SkippedRun& run : runs.skipped) {
    names.insert(run.group);
  }
  const std::vector<std::string> known(names.begin(), names.end());
  for (const std::string& group : groups) {
    if (!names.contains(group)) {
      throw Error("--group: no rows of " + in_quotes(group) + did_you_mean(group, known));
    }
  }
  const auto is_other = [&](const auto& run) {
    return std::find(groups.begin(), groups.end(), run.group) == groups.end();
  };
  std::erase_if(runs.runs, is_other);
  std::erase_if(runs.skipped, is_other);
  return runs;
}

AnswerFormat read_format(const CommandLine& line) {
  const auto format = line.choice_or_first<AnswerFormat>("format", kValidationFormats);
  for (const char* flag : {"calibration", "ranking"}) {
    if (format == AnswerFormat::kMarkdown && line.has(flag)) {
      throw Error(std::string("--") + flag + ": not used by --format markdown, which has them all");
    }
  }
  return format;
}

/// Returns the format for reports of ptdp-run. Throws Error for markdown.
AnswerFormat read_run_format(const CommandLine& line) {
  const auto format = line.choice_or_first<AnswerFormat>("format", kValidationFormats);
  if (format == AnswerFormat::kMarkdown) {
    throw Error("--format: expected table or json for a run, got markdown");
  }
  return format;
}

/// Throws Error for a file of --report that cannot be written or is an input.
void check_report_file(const CommandLine& line) {
  std::vector<NamedFile> inputs = input_files(line);
  for (const std::string& run : line.words()) {
    inputs.push_back({"the run", run});
  }
  for (const std::string& runs : line.texts("runs")) {
    inputs.push_back({"--runs", runs});
  }
  check_output_files(std::move(inputs), files_of_flags(line, {"report"}));
}

/// Compares several reports of ptdp-run: their errors, and whether plans are in their measured
/// order. Returns the exit status.
int validate_runs(const CommandLine& line) {
  line.allow_only({"format", "max-error", "max-mape", "report"});
  check_report_file(line);
  const AnswerFormat format = read_run_format(line);
  const std::vector<Tolerance> tolerances = read_tolerances(line);
  std::vector<NamedReport> runs;
  for (const std::string& file : line.words()) {
    runs.push_back({.name = file, .report = read_run(file)});
  }
  const RunSet set = compare_runs(runs);
  print_answer(in_format(format, set), format);
  if (!set.runs.empty()) {
    write_report(line, kProgram, [&] { return run_set_page(set); });
  }
  if (set.runs.empty()) {
    throw Error("nothing was predicted for any of these runs: " + set.not_predicted.front());
  }
  check_tolerances(tolerances, set.errors);
  return 0;
}

/// Throws Error if `error`, a fraction, exceeds --max-error.
void check_max_error(const CommandLine& line, double error) {
  const double percent = 100.0 * std::abs(error);
  const auto tolerated = line.number("max-error", 0.0, 1e6);
  if (tolerated && percent > *tolerated) {
    throw Error(fmt::format("--max-error: {:.2f} % exceeds {} %", percent, *tolerated),
                ExitStatus::kOutsideTolerance);
  }
}

/// Prints one report of ptdp-run: what was measured beside what was predicted. Returns the exit
/// status.
int validate_run(const CommandLine& line) {
  line.allow_only({"format", "max-error", "report"});
  check_report_file(line);
  const AnswerFormat format = read_run_format(line);
  const std::string& file = line.words().front();
  const RunReport report = read_run(file);
  print_answer(in_format(format, report), format);
  write_report(line, kProgram, [&] { return run_page(report, {}); });
  const auto tolerated = line.number("max-error", 0.0, 1e6);
  const double predicted = report.predicted_time.value.value();
  if (tolerated && predicted == 0.0) {
    throw Error("--max-error: " + file + " is of a shrunk run, for which no time is predicted");
  }
  check_max_error(line, predicted / report.measured_time.value() - 1.0);
  return 0;
}

/// The file of --log or --trace, how its run is predicted, and how to print both.
struct MeasuredFile {
  std::string name;
  AnswerFormat format;
  CalibrationSource calibration;
};

/// Reads the flags beside `flag`, --log or --trace. Throws Error for one that it does not use.
MeasuredFile read_measured_file(const CommandLine& line, const std::string& flag) {
  line.allow_words(0);
  std::vector<std::string> allowed = run_flags();
  allowed.insert(allowed.end(), {flag, "plan", "calibration", "format", "max-error"});
  if (flag == "log") {
    allowed.emplace_back("report");
  }
  line.allow_only(allowed, "--" + flag);
  const AnswerFormat format = read_run_format(line);
  (void)line.number("max-error", 0.0, 1e6);  // a bad one is refused before the report
  return {.name = *line.text(flag),
          .format = format,
          .calibration = CalibrationSource::parse(line.text("calibration").value_or("shipped"),
                                                  "--calibration")};
}

/// Returns the plan of the file's run. Throws Error without one where an error is tolerated.
PlanOfRun plan_of_file(const CommandLine& line, const TrainingLog& log, const MeasuredFile& file) {
  PlanOfRun run = plan_of_run(line, log, file.name, line.text("plan"), file.calibration);
  if (!run.plan && line.has("max-error")) {
    throw Error("--max-error: nothing says what was run: expected --plan, --from or --config");
  }
  return run;
}

/// Prints what a log measured beside what is predicted for its run. Returns the exit status.
int validate_log(const CommandLine& line) {
  const MeasuredFile file = read_measured_file(line, "log");
  check_report_file(line);
  const TrainingLog log = read_training_log(file.name);
  PlanOfRun run = plan_of_file(line, log, file);
  const LogReport report = report_log(log, file.name, run.plan, std::move(run.assumptions));
  print_answer(in_format(file.format, report), file.format);
  write_report(line, kProgram, [&] { return log_page(report); });
  check_max_error(line, report.error().value_or(0.0));
  return 0;
}

/// Prints where the time of a traced rank went beside what is predicted. Returns the exit status.
int validate_trace(const CommandLine& line) {
  const MeasuredFile file = read_measured_file(line, "trace");
  PlanOfRun run = plan_of_file(line, TrainingLog(), file);
  const TraceReport report = while_working(kProgram, "reading " + file.name, [&] {
    return report_trace(read_trace(file.name), file.name, run.plan, std::move(run.assumptions));
  });
  print_answer(in_format(file.format, report), file.format);
  check_max_error(line, report.error().value_or(0.0));
  return 0;
}

/// Returns where the runs come from, for messages.
std::string named(const std::vector<std::string>& files) {
  return files.empty() ? "the published runs" : fmt::format("{}", fmt::join(files, ", "));
}

int run(const CommandLine& line) {
  if (line.has("log")) {
    return validate_log(line);
  }
  if (line.has("trace")) {
    return validate_trace(line);
  }
  refuse_run_flags(line);
  if (!line.words().empty()) {
    return line.words().size() == 1 ? validate_run(line) : validate_runs(line);
  }
  const AnswerFormat format = read_format(line);
  const auto kind = line.choice_or_first<CalibrationKind>("calibration", kCalibrationKindNames);
  const std::vector<Tolerance> tolerances = read_tolerances(line);
  const std::vector<std::string> files = line.texts("runs");
  check_report_file(line);
  const MeasuredRuns runs =
      select_groups(files.empty() ? read_published_runs() : read_runs({files.begin(), files.end()}),
                    line.texts("group"));
  if (runs.runs.empty() && runs.skipped.empty()) {
    throw Error(fmt::format("{}: no runs to validate: expected rows below the header, got none",
                            named(files)));
  }
  CostedRuns costed;
  ValidationReport report =
      while_working(kProgram, "predicting " + plural(std::ssize(runs.runs), "run"), [&] {
        costed = cost_runs(runs);
        complete_partial_runs(costed);
        return make_validation_report(costed, kind);
      });
  if (line.has("ranking")) {
    report.ranking = rank_rows(report);
  }
  print_answer(in_format(format, report, costed), format);
  write_report(line, kProgram, [&] { return validation_page(report); });
  if (report.rows.empty() && report.partial.empty()) {
    throw Error(
        fmt::format("{}: no run could be costed: {}", named(files), first_skipped(report.skipped)));
  }
  check_tolerances(tolerances, report.total.errors);
  return 0;
}

}  // namespace

int validate_command(int argc, const char* const* argv) {
  return run_table_command(kProgram, &command_table, {argv, static_cast<std::size_t>(argc)}, &run);
}

}  // namespace ptdp
