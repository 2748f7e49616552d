#include "tools/plan/given_command.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "planner/answer/planning.h"
#include "planner/report/answers/given_report.h"
#include "tools/plan/measured_flag.h"
#include "tools/plan/stack_switches.h"
#include "tools/shared/report_flag.h"
#include "tools/shared/terminal.h"

namespace ptdp {

void refuse_flags_of_searches(const CommandLine& line, const std::string& by) {
  line.refuse({"top", "explain", "compare-strategies"}, by);
  if (line.text("format").value_or("") == "csv") {
    throw Error("--format: expected table or json for " + by + ", got csv");
  }
}

int run_given(const CommandLine& line, const PlanRequest& request, const SearchOptions& options,
              const CalibrationSource& calibration, const GivenRequest& given, SearchWatch& watch) {
  const RunBudget budget = read_budget(line);
  const auto format = line.choice_or_first<AnswerFormat>("format", kTableFormats);
  GivenConfig answer = cost_given_config(request.scenario, options, given.config, calibration);
  watch.clear();
  const MeasuredFlags measured = answer.plan ? measured_flags(line, *answer.plan) : MeasuredFlags();
  answer.measured = measured.iteration;
  const auto output = line.text("output");
  if (output && can_run(answer)) {
    write_plan(*output, *answer.plan);
  }
  AnswerNotes notes = {.assumptions = request.assumptions,
                       .next = request.best_command,
                       .is_whole = line.has("verbose")};
  if (answer.plan) {
    notes.remarks = costs_of_switches(line, *answer.plan);
  }
  print_answer(format == AnswerFormat::kJson ? to_json(answer, given.reading)
                                             : to_text(answer, given.reading, budget, notes),
               format);
  write_report(line, "ptdp-plan",
               [&] { return given_report(answer, given.reading, budget, notes, measured.log); });
  const int stopped = SearchWatch::status();
  return stopped != 0 || can_run(answer) ? stopped : static_cast<int>(ExitStatus::kNothingFits);
}

}  // namespace ptdp
