// ptdp-calibrate: corrects predictions by measured runs, or the constants of a cluster and stack.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/measured/level_fit.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/accuracy/calibration_file.h"
#include "planner/accuracy/calibration_fit.h"
#include "planner/accuracy/interval_fit.h"
#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/published_runs.h"
#include "planner/accuracy/run_calibration.h"
#include "planner/export/exporter.h"
#include "planner/formatting.h"
#include "planner/logs/log_report.h"
#include "planner/pilot/pilot.h"
#include "planner/profile_fit/profile_fit.h"
#include "tools/plan/plan_of_run.h"
#include "tools/plan/probed_cluster.h"
#include "tools/planner_commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"
#include "tools/shared/output_files.h"
#include "tools/shared/table_command.h"
#include "tools/shared/working_line.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "ptdp-calibrate";
constexpr const char* kUsage =
    "usage: ptdp-calibrate [run.json]... [--runs FILE.csv]... [-o DIRECTORY]\n"
    "       ptdp-calibrate --log train.log... [--plan plan.json...] [-o DIRECTORY]\n"
    "       ptdp-calibrate --pilot DIR [--probe probe.json] [-o DIRECTORY]\n"
    "       ptdp-calibrate run.json... --profile CLUSTER.json\n"
    "       ptdp-calibrate --intervals|--levels|--predictions [--runs FILE.csv]\n"
    "\n"
    "Corrects predictions by the runs of every cluster, stack and kind of model (dense, or with\n"
    "experts), together with what published runs say of that stack elsewhere and of its kind of\n"
    "program. One run will do; the table says what the runs are worth. Each set is written to\n"
    "DIRECTORY/<cluster>+<stack>.json, or +experts.json, for ptdp-plan --calibration DIRECTORY.\n"
    "Runs are reports of ptdp-run -o, and rows with the columns of profiles/published\n"
    "(profiles/README.md).\n"
    "--log takes a run from the log of a training program, as ptdp-validate --log does. Several "
    "logs\n"
    "have as many plans, in order, or each lists its arguments.\n"
    "Measured memory (column memory_GB) says likewise what lies beyond the formulas of memory:\n"
    "plans of --calibration say how likely they fit, and leave free what is enough with 90 %\n"
    "probability. Those for ptdp-run's own stacks, ptdp-cpu and ptdp-cuda, leave free what the\n"
    "stack's file says, which was measured.\n"
    "\n"
    "--profile corrects the cluster and the stack that runs were planned for, constant by\n"
    "constant, by what the runs measured of each term: products, attention, memory, launches,\n"
    "collectives, messages, optimizer. It writes CLUSTER.json and CLUSTER.stack.json, for\n"
    "ptdp-plan --cluster CLUSTER.json --stack CLUSTER.stack.json, and shows the errors before and\n"
    "after. One run will do; with three or more, each is also predicted from the others\n"
    "(leave-one-out).\n"
    "\n"
    "--intervals says what 90 % intervals are worth: each group of runs is predicted by the\n"
    "others alone. --levels prints the constants of the levels, and what the runs say of each\n"
    "cluster and stack: profiles/published/levels.json. --predictions prints what is predicted\n"
    "for each run without any calibration: profiles/predictions.csv.\n"
    "\n";

CommandTable command_table() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("runs", texts_value("FILE"),
         "file of measured runs, comma-separated values; may be repeated");
  option("log", texts_value("FILE"), "log of a training program; may be repeated");
  option("plan", texts_value("FILE"), "plan of the run that --log is of; one for each log");
  add_run_flags(flags);
  option("pilot", text_value("DIR"),
         "directory of ptdp-plan pilot: learn from the logs of its runs which plan is the fastest");
  option("probe", text_value("FILE"),
         "what the probe (tools/probe) measured: predict the runs of --log or --pilot on the "
         "cluster that it makes of theirs, and write that cluster, too");
  option("output,o", text_value("DIR"), "write the calibrations into this directory");
  option("profile", text_value("FILE"), "write the cluster corrected by the runs to this file");
  option("intervals", "test the intervals on groups of --runs, or else of the published runs");
  option("levels", "fit the levels to --runs, or else to the published runs");
  option("predictions", "print the predictions of --runs, or else of the published runs");
  option("help,h", "this text");
  option("version", "the version");
  return {
      .name = kProgram, .usage = kUsage, .groups = {{"flags", flags}}, .operand = {.name = "FILE"}};
}

std::string intervals_text(const std::vector<CostedRun>& runs) {
  const RelativeInterval bare = fit_uncalibrated_interval(runs);
  std::string text = fmt::format(
      "not calibrated, fitted to {}: x {:.2f} .. {:.2f}; "
      "in cost_model/measured/interval.h: x {:.2f} .. {:.2f}\n\n"
      "groups held out of the levels and of their constants, means over groups\n"
      "{:<24} {:>6} {:>6} {:>7} {:>7} {:>6} {:>6}\n",
      plural(std::ssize(runs), "run"), bare.low, bare.high, kUncalibratedInterval.low,
      kUncalibratedInterval.high, "nearest runs left", "groups", "runs", "inside", "+-", "error",
      "bias");
  const std::vector<HeldOutRun> held_out = hold_groups_out(runs);
  const auto add = [&](std::string_view name, const HeldOutCoverage& coverage) {
    text += fmt::format("{:<24} {:>6} {:>6} {:>6.1f}% {:>6.1f}% {:>5.1f}% {:>+5.1f}%\n", name,
                        coverage.num_groups, coverage.num_runs, 100.0 * coverage.inside,
                        100.0 * coverage.median_half_width, 100.0 * coverage.mean_absolute,
                        100.0 * coverage.bias);
  };
  for (const auto& nearest : kNearestRunsNames) {
    add(nearest.name, coverage_of(with_nearest(held_out, nearest.value)));
  }
  add("all", coverage_of(held_out));
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Returns the runs of --runs, or else the published ones, for a flag that prints what it finds.
/// Says on standard error which of --runs were skipped. Throws Error if none can be costed or there
/// is another flag.
std::vector<CostedRun> runs_to_fit(const CommandLine& line, const std::string& flag) {
  line.allow_only({flag, "runs"}, "--" + flag);
  const std::vector<std::string> files = line.texts("runs");
  CostedRuns runs = while_working(kProgram, "predicting runs", [&] {
    return cost_runs(files.empty() ? read_published_runs()
                                   : read_runs({files.begin(), files.end()}));
  });
  if (runs.costed.empty()) {
    throw Error((files.empty() ? "the published runs" : joined(files)) +
                ": no run could be costed: " + first_skipped(runs.skipped));
  }
  if (!files.empty() && !runs.skipped.empty()) {
    std::cerr << tally_of_skipped(runs.skipped);
  }
  return std::move(runs.costed);
}

int run_intervals(const CommandLine& line) {
  const std::vector<CostedRun> runs = runs_to_fit(line, "intervals");
  const auto is_of_first = [&](const CostedRun& run) {
    return run.run.group == runs.front().run.group;
  };
  if (std::all_of(runs.begin(), runs.end(), is_of_first)) {
    throw Error("--intervals: expected runs of two groups (column holdout_group), got one");
  }
  print(while_working(kProgram, "predicting each group by the others",
                      [&] { return intervals_text(runs); }));
  return 0;
}

int run_levels(const CommandLine& line) {
  const std::vector<CostedRun> runs = runs_to_fit(line, "levels");
  if (const std::size_t scopes = by_scope(runs).size(); scopes < kFewestScopes) {
    throw Error(fmt::format("--levels: expected runs of at least {} clusters and stacks, got {}",
                            kFewestScopes, scopes));
  }
  print(while_working(kProgram, "fitting the levels", [&] { return to_json(make_levels(runs)); }));
  return 0;
}

std::vector<NamedReport> read_reports(const std::vector<std::string>& files) {
  std::vector<NamedReport> runs;
  runs.reserve(files.size());
  for (const std::string& file : files) {
    runs.push_back({.name = file, .report = read_run(file)});
  }
  return runs;
}

/// Returns the files and the day in universal time: "run.json, run2.json, 2026-01-31".
std::string provenance(const std::vector<std::string>& files) {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  ::gmtime_r(&now, &day);
  return fmt::format("{}, {}-{:02}-{:02}", joined(files), day.tm_year + 1900, day.tm_mon + 1,
                     day.tm_mday);
}

/// Returns all files that runs are read from.
std::vector<NamedFile> named_inputs(const CommandLine& line) {
  std::vector<NamedFile> inputs;
  for (const std::string& run : line.words()) {
    inputs.push_back({"the run", run});
  }
  for (const std::string& runs : line.texts("runs")) {
    inputs.push_back({"--runs", runs});
  }
  for (const std::string& log : line.texts("log")) {
    inputs.push_back({"--log", log});
  }
  for (const std::string& plan : line.texts("plan")) {
    inputs.push_back({"--plan", plan});
  }
  if (const auto probe = line.text("probe")) {
    inputs.push_back({"--probe", *probe});
  }
  return inputs;
}

int run_profile(const CommandLine& line) {
  line.allow_only({"profile"});
  const std::filesystem::path file = *line.text("profile");
  if (file.extension() != ".json") {
    throw Error("--profile: expected the name of a file that ends in .json, got " +
                in_quotes(file.string()));
  }
  if (line.words().empty()) {
    throw Error("--profile: expected runs to correct it by, files of ptdp-run -o, got none");
  }
  check_output_files(named_inputs(line),
                     {{"--profile", file}, {"the stack of --profile", stack_file_beside(file)}});
  const std::vector<NamedReport> runs = read_reports(line.words());
  const ProfileFit refit = fit_profile(runs, provenance(line.words()));
  write_profiles(file, refit);
  print(to_text(refit) + fmt::format("\nwritten; {} --cluster {} --stack {} plans with it\n",
                                     as_typed("ptdp-plan"), shell_quoted(file.string()),
                                     shell_quoted(stack_file_beside(file).string())));
  return 0;
}

/// Returns what was assumed of a log's run and what is doubtful, for people.
std::string told_of(const LogReport& report) {
  std::string text;
  for (const std::vector<std::string>* lines : {&report.assumptions, &report.warnings}) {
    for (const std::string& said : *lines) {
      text += "  " + said + "\n";
    }
  }
  return text.empty() ? "" : report.file + ": assumed and doubtful\n" + text + "\n";
}

/// Returns what a probe changed of the prediction for a log's run, beside what was measured.
std::string told_of_probe(const Plan& before, const LogReport& report) {
  const Seconds with_calibration = before.predicted.iteration_time.value;
  const Seconds alone = with_calibration / before.predicted.calibration_factor;
  const Seconds now = report.plan->predicted.iteration_time.value;
  return fmt::format(
      "{}: measured {}; predicted {} before the probe ({} without calibration, {:+.1f} %), {} with "
      "it ({:+.1f} %)\n\n",
      report.file, duration(report.steady.time), duration(with_calibration), duration(alone),
      100.0 * (alone / report.steady.time - 1.0), duration(now),
      100.0 * (now / report.steady.time - 1.0));
}

/// Returns the runs of --log. Throws Error for logs and plans that are not equally many, for a log
/// whose run is not known, and for one run that flags say of several logs. With a probe, predicts
/// them on the probed cluster. Adds to `told` what was assumed of each, and what is doubtful.
std::vector<CostedRun> logged_runs(const CommandLine& line, const std::vector<std::string>& logs,
                                   const std::vector<std::string>& plans,
                                   std::optional<ProbedCluster>& probed, std::string& told) {
  if (!plans.empty() && plans.size() != logs.size()) {
    throw Error(fmt::format("--plan: expected one for each --log, got {} for {}", plans.size(),
                            plural(std::ssize(logs), "log")));
  }
  for (const char* flag : {"from", "config"}) {
    if (line.has(flag) && logs.size() != 1) {
      throw Error(fmt::format("--{}: expected one --log, got {}", flag, logs.size()));
    }
  }
  std::vector<CostedRun> runs;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const TrainingLog log = read_training_log(logs[i]);
    PlanOfRun run =
        plan_of_run(line, log, logs[i], plans.empty() ? std::nullopt : std::optional(plans[i]),
                    CalibrationSource::none());
    if (plans.empty() && run.plan && !line.has("cluster")) {
      throw Error("--cluster: expected the cluster of " + logs[i] +
                  ", for which the calibration will be");
    }
    const std::optional<Plan> before = run.plan;
    if (probed && run.plan) {
      run.plan = probed->plan_on(*run.plan, logs[i]);
    }
    const LogReport report = report_log(log, logs[i], run.plan, run.assumptions);
    runs.push_back(costed_run(report));
    told += told_of(report);
    if (probed && before) {
      told += told_of_probe(*before, report);
    }
  }
  return runs;
}

/// Returns what the runs of a pilot showed, for people. Adds their logs and plans to those of the
/// flags. Throws Error if no run has a log.
std::string told_of_pilot(const std::filesystem::path& directory, std::vector<std::string>& logs,
                          std::vector<std::string>& plans) {
  const std::filesystem::path file = directory / kPilotFile;
  const Pilot pilot = parse_pilot(read_file(file), file.string());
  std::vector<Plan> candidates;
  candidates.reserve(pilot.plans.size());
  for (const std::string& name : pilot.plans) {
    candidates.push_back(read_plan(directory / name));
  }
  std::vector<PilotResult> results;
  for (const PilotRun& run : pilot.runs) {
    const std::string log = (directory / run.folder / kPilotLog).string();
    if (!std::filesystem::exists(log)) {
      continue;
    }
    const std::string plan_file = (directory / run.folder / "plan.json").string();
    const Plan plan = read_plan(plan_file);
    const LogReport report = report_log(read_training_log(log), log, plan);
    results.push_back({.run = run.run,
                       .folder = run.folder,
                       .measured = report.steady.time,
                       .predicted = plan.predicted.iteration_time.value});
    logs.push_back(log);
    plans.push_back(plan_file);
  }
  if (results.empty()) {
    throw Error(fmt::format("{}: expected the log of a run, such as {}/{}/{}", file.string(),
                            directory.string(), pilot.runs.empty() ? "run-1" : pilot.runs[0].folder,
                            kPilotLog));
  }
  const auto* const exporter =
      std::find_if(kExporters.begin(), kExporters.end(),
                   [&](const Exporter& known) { return known.name == pilot.framework; });
  std::vector<ShortRun> possible;
  for (const PossibleRun& run : possible_runs(candidates, CalibrationSource::shipped())) {
    if (exporter == kExporters.end() || exporter->find_refusals(run.plan).empty()) {
      possible.push_back(run.run);
    }
  }
  return to_text(report_pilot(pilot, candidates, std::move(results), possible), pilot) + "\n";
}

/// Reads the probe of --probe; nullopt without the flag. Throws Error where no log needs it.
std::optional<ProbedCluster> read_probe_flag(const CommandLine& line) {
  const auto file = line.text("probe");
  if (file && !line.has("log") && !line.has("pilot")) {
    throw Error(
        as_typed("--probe: expected --log or --pilot beside it; `ptdp-plan new-cluster --probe` "
                 "makes a cluster of a probe alone"));
  }
  return file ? std::optional<ProbedCluster>(*file) : std::nullopt;
}

int run_refit(const CommandLine& line) {
  std::vector<std::string> files = line.texts("runs");
  const auto output = line.text("output");
  if (files.empty() && line.words().empty() && !line.has("log") && !line.has("pilot")) {
    throw Error(
        "expected runs: --runs FILE.csv, --log FILE or files of ptdp-run -o (--help tells "
        "flags)");
  }
  if (output.has_value() && output->empty()) {
    throw Error("--output: expected the name of a directory, got \"\"");
  }
  if (!line.has("log")) {
    refuse_run_flags(line);
  }
  if (line.has("pilot") && line.has("log") && !line.has("plan")) {
    throw Error("--plan: expected one for each --log beside --pilot");
  }
  std::optional<ProbedCluster> probed = read_probe_flag(line);
  CostedRuns runs = while_working(kProgram, "predicting runs", [&] {
    return cost_runs(read_runs({files.begin(), files.end()}));
  });
  for (const NamedReport& run : read_reports(line.words())) {
    check_evidence(run);
    runs.costed.push_back(costed_run(run));
  }
  std::string told;
  std::vector<std::string> logs = line.texts("log");
  std::vector<std::string> plans = line.texts("plan");
  if (const auto pilot = line.text("pilot")) {
    told += told_of_pilot(*pilot, logs, plans);
  }
  std::ranges::move(logged_runs(line, logs, plans, probed, told), std::back_inserter(runs.costed));
  files.insert(files.end(), line.words().begin(), line.words().end());
  files.insert(files.end(), logs.begin(), logs.end());
  const std::vector<StackFit> refits = refit(runs.costed, joined(files));
  std::string table = told + to_text(refits, runs.skipped);
  if (runs.costed.empty()) {
    print(table);
    throw Error(joined(files) + ": no run could be costed: " + first_skipped(runs.skipped));
  }
  if (output.has_value()) {
    for (const FileContent& file : calibration_files(*output, refits)) {
      refuse_overwriting(named_inputs(line), {"--output", file.path});
    }
    write_calibrations(*output, refits);
    if (probed && probed->made()) {
      const NewCluster& made = *probed->made();
      const std::filesystem::path file =
          std::filesystem::path(*output) / (made.cluster.name + ".json");
      refuse_overwriting(named_inputs(line), {"--output", file});
      write_file_atomically(file, cluster_file(made.cluster));
      table += "\n" + to_text(made, shell_quoted(file.string()) + " --calibration " +
                                        shell_quoted(*output));
    }
  }
  print(table);
  return 0;
}

int run(const CommandLine& line) {
  if (line.has("profile")) {
    return run_profile(line);
  }
  if (line.has("intervals")) {
    line.allow_words(0);
    return run_intervals(line);
  }
  if (line.has("levels")) {
    line.allow_words(0);
    return run_levels(line);
  }
  if (line.has("predictions")) {
    line.allow_words(0);
    print(predictions_csv(runs_to_fit(line, "predictions")));
    return 0;
  }
  return run_refit(line);
}

}  // namespace

int calibrate_command(int argc, const char* const* argv) {
  return run_table_command(kProgram, &command_table, {argv, static_cast<std::size_t>(argc)}, &run);
}

}  // namespace ptdp
