#include "tools/plan/compare_command.h"

#include <fmt/format.h>

#include <string>

#include "cost_model/error.h"
#include "planner/answer/comparison.h"
#include "planner/answer/plans_document.h"
#include "planner/answer_format.h"
#include "planner/report/answers/comparison_page.h"
#include "tools/shared/output_files.h"
#include "tools/shared/report_flag.h"
#include "tools/shared/terminal.h"

namespace ptdp {

int run_compare(const CommandLine& line) {
  line.allow_only({"format", "calibration", "report"});
  if (line.words().size() != 3) {
    throw Error(
        fmt::format("compare: expected the files of two plans, got {}", line.words().size() - 1));
  }
  const auto format = line.choice_or_first<AnswerFormat>("format", kTableFormats);
  const CalibrationSource calibration =
      CalibrationSource::parse(line.text("calibration").value_or("shipped"), "--calibration");
  const auto read = [&](std::size_t word) {
    return NamedPlan{line.words()[word], read_best_plan(line.words()[word])};
  };
  check_output_files({{"the first plan", line.words()[1]}, {"the second plan", line.words()[2]}},
                     files_of_flags(line, {"report"}));
  const PlanComparison comparison = compare_plans({read(1), read(2)}, calibration);
  print_answer(in_format(format, comparison), format);
  write_report(line, "ptdp-plan", [&] { return comparison_report(comparison); });
  return 0;
}

}  // namespace ptdp
