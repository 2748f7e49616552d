#include "tools/plan/alternatives_command.h"

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/text/as_typed.h"
#include "planner/answer/strategies.h"
#include "planner/report/answers/alternatives_page.h"
#include "tools/plan/search_watch.h"
#include "tools/shared/report_flag.h"
#include "tools/shared/terminal.h"

namespace ptdp {
namespace {

constexpr const char* kPlanProgram = "ptdp-plan";

/// Returns the command for the page of one alternative: `flag` chooses it in place of `all`.
std::string page_command(const CommandLine& line, const std::string& all, const std::string& flag) {
  return as_typed("ptdp-plan ") +
         line.quoted_arguments_without({all, "report", "format", "threads"}) + flag +
         " --report page.html";
}

/// Returns the command for the page of the best strategy that the stack runs; "" without one.
std::string page_command(const CommandLine& line, const StrategyComparison& comparison) {
  const StrategyResult* best = nullptr;
  for (const StrategyResult& result : comparison.results) {
    if (result.plan && result.is_run_by_stack &&
        (best == nullptr || loss(comparison, result) < loss(comparison, *best))) {
      best = &result;
    }
  }
  return best == nullptr ? ""
                         : page_command(line, "compare-strategies",
                                        " --config " + shell_quoted(to_string(best->plan->config)));
}

/// Ends an answer without any plan: with the status of a search that ended early, else as an error.
template <class Results>
int end_without_plan(const Results& results, const char* message) {
  for (const auto& result : results) {
    if (const int status = tell_unfound(kPlanProgram, result.search)) {
      return status;
    }
  }
  throw Error(message, ExitStatus::kNothingFits);
}

}  // namespace

std::vector<StackChoice> stack_choices(const CommandLine& line, const PlanRequest& request,
                                       const CalibrationSource& calibration,
                                       const std::optional<FitRequest>& fit) {
  std::vector<StackChoice> choices;
  for (const std::string& name : list_profiles(ProfileKind::kStack)) {
    StackChoice& choice = choices.emplace_back();
    choice.stack = name;
    try {
      PlanRequest of_stack = request;
      of_stack.scenario.stack = as_asked(find_stack(name), line);
      check(of_stack.scenario);
      if (fit) {
        reserve_memory(of_stack, calibration, fit);
      }
      choice.scenario = std::move(of_stack.scenario);
    } catch (const Error& error) {
      choice.reason = error.what();
    }
  }
  return choices;
}

int run_stacks(const CommandLine& line, const PlanRequest& request, const SearchOptions& options,
               const CalibrationSource& calibration, const FitRequest& fit) {
  line.refuse({"verbose", "config", "from", "log", "measured", "explain", "compare-strategies",
               "output", "top", "tokens", "price", "exportable"},
              "--stack all");
  const auto format = line.choice_or_first<AnswerFormat>("format", kPlanFormats);
  const StackComparison comparison = compare_stacks(
      request.scenario, stack_choices(line, request, calibration, fit), options, calibration);
  print_answer(in_format(format, comparison, request.assumptions), format);
  const StackResult& best = comparison.results.front();
  if (!best.plan) {
    return end_without_plan(comparison.results, "nothing fits: no stack can run the job");
  }
  write_report(line, kPlanProgram, [&] {
    return stacks_report(comparison,
                         {.assumptions = request.assumptions,
                          .next = page_command(line, "stack", " --stack " + best.stack)});
  });
  return SearchWatch::status();
}

int run_strategies(const CommandLine& line, const PlanRequest& request,
                   const SearchOptions& options, const CalibrationSource& calibration) {
  line.refuse({"output", "top", "tokens", "price", "verbose", "exportable"},
              "--compare-strategies");
  const auto format = line.choice_or_first<AnswerFormat>("format", kPlanFormats);
  const StrategyComparison comparison = compare_strategies(request.scenario, options, calibration);
  print_answer(in_format(format, comparison, request.assumptions), format);
  if (comparison.best() == nullptr) {
    return end_without_plan(comparison.results, "nothing fits: none of the strategies can run");
  }
  write_report(line, kPlanProgram, [&] {
    return strategies_report(
        comparison, {.assumptions = request.assumptions, .next = page_command(line, comparison)});
  });
  return SearchWatch::status();
}

}  // namespace ptdp
