// ptdp-plan: finds how to train a model on a number of GPUs, and what that will cost.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <thread>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/published_runs.h"
#include "planner/answer/explanation_output.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/plan_explanation.h"
#include "planner/answer/planning.h"
#include "planner/answer/planning_output.h"
#include "planner/answer/plans_document.h"
#include "planner/answer_format.h"
#include "planner/explain/explain.h"
#include "planner/formatting.h"
#include "planner/import/imported_run.h"
#include "planner/report/answers/plan_report.h"
#include "tools/plan/alternatives_command.h"
#include "tools/plan/compare_command.h"
#include "tools/plan/export_command.h"
#include "tools/plan/given_command.h"
#include "tools/plan/layers_command.h"
#include "tools/plan/list_profiles.h"
#include "tools/plan/measured_flag.h"
#include "tools/plan/new_cluster_command.h"
#include "tools/plan/partition_command.h"
#include "tools/plan/pilot_command.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_of_run.h"
#include "tools/plan/plan_request.h"
#include "tools/plan/search_flags.h"
#include "tools/plan/search_watch.h"
#include "tools/plan/stack_switches.h"
#include "tools/planner_commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output_files.h"
#include "tools/shared/report_flag.h"
#include "tools/shared/table_command.h"
#include "tools/shared/terminal.h"

namespace ptdp {
namespace {

constexpr const char* kProgram = "ptdp-plan";
// Counted work, not time, so that equal commands give equal answers.
constexpr double kFlipWorkOfLimit = 0.8;
/// Returns the words after the command, quoted for messages.
std::string joined_words(const CommandLine& line) {
  std::string text;
  for (std::size_t i = 1; i < line.words().size(); ++i) {
    text += (i == 1 ? "" : " ") + line.words()[i];
  }
  return in_quotes(text);
}

int run_list(const CommandLine& line) {
  line.allow_only({"format"});
  if (line.words().size() != 2) {
    throw Error("list: expected one of models, clusters, gpus, stacks, got " + joined_words(line));
  }
  const auto format = line.choice_or_first<AnswerFormat>("format", kTableFormats);
  print_answer(profile_list(choose<ProfileKind>(line.words()[1], kListedKinds, "list"), format),
               format);
  return 0;
}

int run_show(const CommandLine& line) {
  line.allow_only({"format", "tokens", "price", "output", "report"});
  if (line.words().size() != 2) {
    throw Error("show: expected the file of one plan, got " + joined_words(line));
  }
  const auto format = line.choice_or_first<AnswerFormat>("format", kTableFormats);
  if (format == AnswerFormat::kJson) {
    line.allow_only({"format", "output", "report"});
  }
  check_output_files({{"the plan", line.words()[1]}}, files_of_flags(line, {"output", "report"}));
  const Plan plan = read_best_plan(line.words()[1]);
  const RunBudget budget = read_budget(line);
  const std::string text = in_format(format, plan, budget);
  const Seconds now = predict({plan.scenario, plan.config}, Calibration{}).iteration_time.value *
                      plan.predicted.calibration_factor;
  const Seconds then = plan.predicted.iteration_time.value;
  if (std::abs(now / then - 1.0) > 1e-9) {
    std::cerr << fmt::format(
        "{}: warning: this version predicts {:.6g} s for this plan, the file says {:.6g} s\n",
        as_typed(kProgram), now.value(), then.value());
  }
  if (const auto output = line.text("output")) {
    write_plan(*output, plan);
  }
  print_answer(text, format);
  write_report(line, kProgram, [&] { return plan_report(plan, budget, {}); });
  return 0;
}

/// Returns the source of calibration that --calibration names.
CalibrationSource read_calibration(const CommandLine& line) {
  return CalibrationSource::parse(line.text("calibration").value_or("shipped"), "--calibration");
}

int run_explain(const CommandLine& line, const PlanRequest& request, const SearchOptions& options,
                const CalibrationSource& calibration, AnswerFormat format) {
  line.refuse({"output", "report", "top", "tokens", "price", "verbose", "compare-strategies"},
              "--explain");
  if (format == AnswerFormat::kCsv) {
    throw Error("--format: expected table or json for --explain, got csv");
  }
  check(request.scenario);
  // Before the calibration, which reads all published runs.
  const SearchSpace partial = parse_partial_config(line.text("explain").value(), "--explain");
  const PublishedRuns& published = calibration.published();
  const CalibrationFit fit = calibration.fit(request.scenario, options.gpus, published);
  const MemoryBelief memory = calibration.memory(request.scenario, options.gpus, published);
  const Explanation explanation = explain(request.scenario, options, partial);
  print_answer(in_format(format, explanation, request.scenario, fit, memory, options), format);
  const int stopped = SearchWatch::status();
  return stopped != 0 || !explanation.matching.best.empty()
             ? stopped
             : static_cast<int>(ExitStatus::kNothingFits);
}

/// Throws Error, before the search, if the plan would overwrite a file that it is made from.
void check_output(const CommandLine& line, const Scenario& scenario,
                  const CalibrationSource& calibration) {
  std::vector<NamedFile> inputs = input_files(line);
  for (const std::filesystem::path& file : calibration.files(scenario)) {
    inputs.push_back({"--calibration", file});
  }
  check_output_files(inputs, files_of_flags(line, {"output", "report"}));
}

/// Returns the command for the best plan, or its start where the plan's configuration ends it.
std::string best_command(const CommandLine& line) {
  const bool is_from_log = line.has("log") && !line.has("from") && !line.has("config");
  return as_typed("ptdp-plan ") +
         (is_from_log ? "--from " + shell_quoted(*line.text("log")) + " " : "") +
         line.quoted_arguments_without(
             {"config", "output", "report", "threads", "measured", "log"}) +
         (is_from_log || line.has("from") ? " --config" : " -o plan.json");
}

/// Returns a line on what fits as likely as not, where nothing fits with the probability that was
/// asked for; empty where nothing does.
std::string what_might_fit(PlanRequest request, SearchOptions options,
                           const CalibrationSource& calibration, const FitRequest& fit) {
  constexpr double coin = 0.5;
  if (fit.probability <= coin ||
      !calibration.reserved_for(coin, request.scenario, request.gpus).probability) {
    return "";
  }
  reserve_memory(request, calibration, FitRequest{.probability = coin, .is_asked_for = true});
  options.num_best = 1;
  options.wants_front = false;
  const PlanningResult risky = plan_training(request.scenario, options, calibration);
  return risky.plans.empty()
             ? ""
             : fmt::format(
                   "  with --fit 0.5, as likely as not: {}, {}\n",
                   to_string(risky.plans.front().config),
                   fitting_text(risky.plans.front().memory.probability_of_fitting, risky.memory));
}

/// Returns what a person should know of a plan for this very machine.
std::vector<std::string> remarks_on(const PlanningResult& result) {
  const std::int64_t ranks = result.plans.empty() ? 0 : result.plans.front().config.world_size();
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  if (!is_core(result.scenario.cluster.gpu) || ranks <= cores) {
    return {};
  }
  return {
      fmt::format("This machine has {} for {}: ranks that share a core take turns, and the plan "
                  "does not count that.",
                  plural(cores, "core"), plural(ranks, "rank"))};
}

/// A request of a search, with what is read from the other flags.
struct SearchRequest {
  PlanRequest request;
  PlanRequest unreserved;  ///< The request before memory was reserved.
  SearchOptions options;
  CalibrationSource calibration;
  FitRequest fit;
  RunBudget budget;
  AnswerFormat format = AnswerFormat::kText;
};

/// Finds the best plans, writes the first one where --output asks for it, and prints all. Returns
/// the exit status.
int run_plans(const CommandLine& line, const SearchRequest& asked, SearchWatch& watch) {
  PlanningResult result = plan_training(asked.request.scenario, asked.options, asked.calibration);
  if (line.has("verbose") && !result.plans.empty()) {
    result.explanation = explain_plan(result);
  }
  watch.clear();
  if (result.plans.empty()) {
    if (asked.format == AnswerFormat::kJson) {
      print(to_json(result, asked.budget));
    }
    if (const int status = tell_unfound(kProgram, result.search)) {
      return status;
    }
    throw Error(failure_text(result) +
                    what_might_fit(asked.unreserved, asked.options, asked.calibration, asked.fit) +
                    why_not_exportable(line, asked.request, asked.options, asked.calibration),
                ExitStatus::kNothingFits);
  }
  const Plan& best = result.plans.front();
  const auto output = line.text("output");
  if (output.has_value()) {
    write_plan(*output, best);
  }
  AnswerNotes notes = {.assumptions = asked.request.assumptions,
                       .remarks = remarks_on(result),
                       .next = output.has_value()
                                   ? as_typed("ptdp-plan show ") + shell_quoted(*output)
                                   : as_typed("ptdp-plan ") +
                                         line.quoted_arguments_without({"threads", "report"}) +
                                         " -o plan.json",
                       .is_whole = line.has("verbose")};
  std::ranges::move(costs_of_switches(line, best), std::back_inserter(notes.remarks));
  const bool looks_at_stacks = !line.has("stack") && asked.format == AnswerFormat::kText;
  const std::string faster =
      looks_at_stacks
          ? faster_stack_remark(best, stack_choices(line, asked.unreserved, asked.calibration, {}),
                                asked.calibration)
          : "";
  if (!faster.empty()) {
    notes.remarks.push_back(faster);
  }
  print_answer(in_format(asked.format, result, asked.budget, notes), asked.format);
  if (looks_at_stacks && faster.empty()) {
    notes.remarks.push_back(fmt::format(
        "No other stack takes over {:.0f} % less with this configuration; --stack all searches the "
        "best of each.",
        100.0 * kFasterStack));  // a page has room to say what was looked for
  }
  write_report(line, kProgram, [&] {
    if (!result.explanation) {
      result.explanation = explain_plan(result);
      watch.clear();
    }
    return planning_report(result, asked.budget, notes);
  });
  return SearchWatch::status();
}

/// Throws Error for --output and --verbose where they mean nothing.
void check_answer_flags(const CommandLine& line, AnswerFormat format) {
  if (line.has("verbose") && format == AnswerFormat::kCsv) {
    throw Error("--verbose: not used by --format csv, which has the plans alone");
  }
  const auto output = line.text("output");
  if (output.has_value() && (output->empty() || *output == "-")) {
    throw Error("--output: expected the name of a file, got " + in_quotes(*output) +
                "; --format json writes to standard output");
  }
}

/// Reads the flags of a search, or of one configuration; `from` is the run of a file, if any.
SearchRequest read_search(const CommandLine& line, const ImportedRun* from) {
  PlanRequest request = read_request(line, from);
  print_warnings(request.warnings);
  SearchOptions options = read_options(line, request.gpus);
  keep_exportable(line, request, options);
  SearchRequest asked{.request = request,
                      .unreserved = request,
                      .options = std::move(options),
                      .calibration = read_calibration(line),
                      .fit = read_fit(line),
                      .budget = read_budget(line)};
  if (!asks_for_all_stacks(line)) {
    // What was measured did fit.
    const bool is_measured = line.has("measured") || line.has("log");
    reserve_memory(
        asked.request, asked.calibration,
        is_measured && !asked.fit.is_asked_for ? std::nullopt : std::optional(asked.fit));
  }
  asked.format = line.choice_or_first<AnswerFormat>("format", kPlanFormats);
  check_answer_flags(line, asked.format);
  check_output(line, asked.request.scenario, asked.calibration);
  return asked;
}

int run_search(const CommandLine& line) {
  if (const auto layers = layers_file(line)) {
    return run_layers(line, *layers);
  }
  const auto log = line.text("log");
  const std::optional<ImportedRun> from =
      log && !line.has("from") && !line.has("config")
          ? run_of_log(line, read_training_log(*log).arguments, *log)
          : read_from(line);
  SearchRequest asked = read_search(line, from ? &*from : nullptr);
  const double time_limit = read_time_limit(line);
  SearchWatch watch(kProgram, time_limit);
  watch.watch(asked.options);
  asked.options.flip_work = kFlipWorkOfLimit * Seconds(time_limit);
  if (asks_for_all_stacks(line)) {
    return run_stacks(line, asked.unreserved, asked.options, asked.calibration, asked.fit);
  }
  if (from || line.has("config")) {
    refuse_flags_of_searches(line, from ? "--from" : "--config");
    asked.request.best_command = best_command(line);
    const GivenRequest given{given_config(line, asked.request, from ? &*from : nullptr),
                             from ? from->reading : ReadingNotes{}};
    return run_given(line, asked.request, asked.options, asked.calibration, given, watch);
  }
  refuse_measured_flags(line, "a search");
  if (line.has("explain")) {
    return run_explain(line, asked.request, asked.options, asked.calibration, asked.format);
  }
  if (line.has("compare-strategies")) {
    return run_strategies(line, asked.request, asked.options, asked.calibration);
  }
  return run_plans(line, asked, watch);
}

int run(const CommandLine& line) {
  if (line.words().empty()) {
    refuse_partition_flags(line);
    refuse_export_flags(line);
    refuse_new_cluster_flags(line);
    refuse_pilot_flags(line);
    return run_search(line);
  }
  if (line.words().front() == "list") {
    return run_list(line);
  }
  if (line.words().front() == "new-cluster") {
    return run_new_cluster(line);
  }
  if (line.words().front() == "pilot") {
    return run_pilot(line);
  }
  if (line.words().front() == "show") {
    return run_show(line);
  }
  if (line.words().front() == "compare") {
    return run_compare(line);
  }
  if (line.words().front() == "export") {
    return run_export(line);
  }
  if (line.words().front() == "partition") {
    return run_partition(line);
  }
  throw Error(
      "unknown command " + in_quotes(line.words().front()) +
      "; expected list, new-cluster, show, compare, export, partition, pilot, or flags only "
      "(--help tells more)");
}

}  // namespace

int plan_command(int argc, const char* const* argv) {
#ifdef __GLIBC__
  // Simulations allocate and free the same few megabytes again and again. Keeping them saves page
  // faults, a tenth of the time of a search of all schedules.
  constexpr int largest_threshold = 32 << 20;
  ::mallopt(M_MMAP_THRESHOLD, largest_threshold);
  ::mallopt(M_TRIM_THRESHOLD, 8 * largest_threshold);
#endif
  return run_table_command(kProgram, &plan_table, {argv, static_cast<std::size_t>(argc)}, &run);
}

}  // namespace ptdp
