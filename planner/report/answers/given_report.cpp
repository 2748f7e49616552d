#include "planner/report/answers/given_report.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "planner/answer/fit_output.h"
#include "planner/answer/planning_output.h"
#include "planner/formatting.h"
#include "planner/report/answers/log_page.h"
#include "planner/report/answers/plan_report.h"
#include "planner/report/answers/report_parts.h"

namespace ptdp {
namespace {

/// Returns what would make the configuration run, and what another one would gain.
std::vector<std::string> other_choices(const GivenConfig& given, const AnswerNotes& notes) {
  std::vector<std::string> lines;
  if (!can_run(given)) {
    append(lines, paragraphs_of(fitting_changes_text(given)));
  }
  append(lines, paragraphs_of(gain_text(given, notes.next)));
  append(lines,
         paragraphs_of(unproven_remark(given.search, given.options, given.calibration.factor)));
  return lines;
}

}  // namespace

Report given_report(const GivenConfig& given, const ReadingNotes& reading, const RunBudget& budget,
                    const AnswerNotes& notes, const std::optional<LogReport>& log) {
  Report report;
  if (given.plan) {
    report = begun_report(*given.plan, budget, notes);
    report.sentence = paragraphs_of(fit_line(*given.plan)).front() + ". " +
                      (can_run(given) ? "" : "If it had the memory: ") + report.sentence;
  } else {
    report.title = fmt::format("{} on {}", given.scenario.job.model_name,
                               devices(given.options.gpus, given.scenario.cluster.gpu));
    report.sentence = fmt::format("{} cannot run: {}.", to_string(given.config), given.violation);
    for (const std::string& assumption : notes.assumptions) {
      report.rests_on.push_back("Assumed: " + assumption);
    }
  }
  add_paragraphs(report, {.id = "choices", .title = "What would be better?"},
                 other_choices(given, notes));
  if (log) {
    add_log_sections(report, *log);
  }
  if (given.measured) {
    add_measured_sections(report, *given.measured, *given.plan);
  }
  if (given.plan) {
    add_plan_sections(report, *given.plan);
  }
  std::vector<std::string> remarks = notes.remarks;
  for (const std::string& warning : log ? log->warnings : std::vector<std::string>()) {
    remarks.push_back("Doubtful: " + warning);
  }
  append(remarks, reading.notes);
  for (const std::string& flag : reading.unknown_flags) {
    remarks.push_back("Flag not known: " + flag);
  }
  add_remarks(report, std::move(remarks));
  return report;
}

}  // namespace ptdp
