#include "tools/plan/plan_of_run.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/stack_precision.h"
#include "planner/answer/given_config.h"
#include "planner/answer/plans_document.h"
#include "planner/import/imported_run.h"
#include "planner/import/launched_program.h"
#include "planner/search/search.h"
#include "tools/plan/plan_request.h"
#include "tools/plan/search_flags.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

}  // namespace

void add_run_flags(po::options_description& flags) {
  auto option = flags.add_options();
  option("from", text_value("FILE"),
         "what was run: a script or configuration of a framework, as of ptdp-plan --from");
  option("config", config_value(), "what was run: tp=8,pp=64,..., as of ptdp-plan --config");
  option("gpus", text_value("N"), "GPUs of the run");
  option("model", text_value("MODEL"), "its model: a shipped one, a file or a config.json");
  option("cluster", text_value("CLUSTER"),
         "its cluster: a shipped one or a file (default: the model's home)");
  option("stack", text_value("STACK"),
         "its software: a shipped stack or a file (default: the cluster's)");
  option("global-batch-size", text_value("N"), "sequences per iteration (default: the model's)");
  option("seq-length", text_value("N"), "tokens per sequence: 8k is 8192 (default: the model's)");
  option("precision", text_value("PRECISION", precision_names()),
         "as of ptdp-plan (default: the stack's)");
  option("vocab-size", text_value("N"),
         "tokens of the vocabulary, where a tokenizer alone is named");
}

std::vector<std::string> run_flags() {
  po::options_description flags;
  add_run_flags(flags);
  std::vector<std::string> names;
  for (const auto& flag : flags.options()) {
    names.push_back(flag->long_name());
  }
  return names;
}

void refuse_run_flags(const CommandLine& line) {
  std::vector<std::string> flags = run_flags();
  flags.emplace_back("plan");
  for (const std::string& flag : flags) {
    if (line.has(flag)) {
      throw Error("--" + flag + ": used by --log and --trace only");
    }
  }
}

std::optional<ImportedRun> run_of_log(const CommandLine& line, const std::string& arguments,
                                      const std::string& place) {
  return lists_arguments(arguments) ? std::optional(read_from(line, arguments, place))
                                    : std::nullopt;
}

PlanOfRun plan_of_run(const CommandLine& line, const TrainingLog& log, const std::string& place,
                      const std::optional<std::string>& plan_file,
                      const CalibrationSource& calibration) {
  const std::vector<std::string> flags = run_flags();
  const auto given = std::find_if(flags.begin(), flags.end(),
                                  [&](const std::string& flag) { return line.has(flag); });
  if (plan_file) {
    if (given != flags.end()) {
      throw Error("--" + *given + ": not used beside --plan, which says it");
    }
    return {.plan = read_best_plan(*plan_file), .assumptions = {}};
  }
  if (given == flags.end()) {
    return {};  // a prediction for whatever cluster is the default would be of no use
  }
  const bool is_from_log = !line.has("from") && !line.has("config");
  const std::optional<ImportedRun> run = is_from_log        ? run_of_log(line, log.arguments, place)
                                         : line.has("from") ? read_from(line)
                                                            : std::nullopt;
  if (!run && is_from_log) {
    throw Error(place +
                ": lists no arguments that are known: expected --from or --config beside --" +
                *given);
  }
  if (asks_for_all_stacks(line)) {
    throw Error("--stack: expected the stack of the run, got all");
  }
  const ImportedRun* from = run ? &*run : nullptr;
  PlanRequest request = read_request(line, from);
  const SearchOptions options{.gpus = request.gpus};
  reserve_memory(request, calibration);
  PlanOfRun found{.plan = std::nullopt, .assumptions = std::move(request.assumptions)};
  try {
    found.plan = plan_given_config(request.scenario, options, given_config(line, request, from),
                                   calibration);
  } catch (const Error& error) {
    throw Error((is_from_log ? place + ": its arguments: " : "") + error.what(), error.status());
  }
  std::ranges::copy(request.warnings, std::back_inserter(found.assumptions));
  if (is_from_log) {
    found.assumptions.insert(found.assumptions.begin(),
                             "the run: the arguments that the log lists");
  }
  if (run) {
    std::ranges::copy(run->reading.notes, std::back_inserter(found.assumptions));
  }
  return found;
}

}  // namespace ptdp
