#include "tools/plan/compare_command.h"

#include <fmt/format.h>

#include <string>

#include "cost_model/error.h"
#include "planner/answer/comparison.h"
#include "planner/answer_format.h"
#include "tools/shared/terminal.h"

namespace ptdp {

int run_compare(const CommandLine& line) {
  line.allow_only({"format", "calibration"});
  if (line.words().size() != 3) {
    throw Error(
        fmt::format("compare: expected the files of two plans, got {}", line.words().size() - 1));
  }
  const auto format = line.choice_or_first<AnswerFormat>("format", kTableFormats);
  const CalibrationSource calibration =
      CalibrationSource::parse(line.text("calibration").value_or("shipped"), "--calibration");
  const auto read = [&](std::size_t word) {
    return NamedPlan{line.words()[word], read_plan(line.words()[word])};
  };
  print_answer(in_format(format, compare_plans({read(1), read(2)}, calibration)), format);
  return 0;
}

}  // namespace ptdp
