#include "tools/run/prediction_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost_model/measured/quantile.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "tools/run/measured_terms.h"
#include "tools/shared/command_line.h"

namespace ptdp {
namespace {

/// Returns the pipeline rank whose steps are observed: the one that knows the loss.
int telling_stage(const Schedule& schedule) {
  return rank_of(schedule, num_stages(schedule) - 1, 0);
}

/// Predicted and measured time of an iteration, with its terms.
struct Judged {
  Measured<Seconds> time;
  std::int64_t steps = 0;
  std::vector<TermComparison> terms;
};

/// Returns the warning for a prediction that is too far off; nullopt when it is near enough.
std::optional<std::string> warning_of(const Judged& run, const std::string& report_file) {
  const double error = run.time.predicted / run.time.measured - 1.0;
  if (run.terms.empty() || std::abs(error) <= kToleratedError) {
    return std::nullopt;
  }
  const auto off = [](const TermComparison& term) {
    return std::abs((term.time.predicted - term.time.measured).value());
  };
  const TermComparison& most = *std::max_element(
      run.terms.begin(), run.terms.end(),
      [&](const TermComparison& a, const TermComparison& b) { return off(a) < off(b); });
  return fmt::format(
      "the prediction is off by {:+.0f} %: {} per iteration predicted, {} measured over {}; "
      "{} is off most: {} predicted, {} measured; {}{} {} --profile profile.json "
      "refits the profile",
      100.0 * error, duration(run.time.predicted), duration(run.time.measured),
      plural(run.steps, "step"), most.name, duration(most.time.predicted),
      duration(most.time.measured), report_file.empty() ? "with -o run.json " : "",
      as_typed("ptdp-calibrate"), shell_quoted(report_file.empty() ? "run.json" : report_file));
}

}  // namespace

PredictionWatch::PredictionWatch(const PreparedRun& run, std::int64_t warm_up,
                                 std::string report_file)
    : run_(run), warm_up_(warm_up), report_file_(std::move(report_file)) {}

std::optional<std::string> PredictionWatch::observe(const StepProgress& step) {
  const std::lock_guard lock(mutex_);
  if (!run_.is_predicted || has_judged_ || step.done <= warm_up_) {
    return std::nullopt;
  }
  times_.push_back(step.time.value());
  if (step.record->operations) {
    const Schedule& schedule = run_.settings.schedule;
    RunTerms terms = rank_terms(schedule.orders[static_cast<std::size_t>(telling_stage(schedule))],
                                *step.record);
    terms[RunTerm::kBubble] = std::max(step.time - terms.own(), Seconds(0.0));
    terms_.push_back(terms);
  }
  return std::ssize(times_) < kJudgedSteps ? std::nullopt : judge();
}

std::optional<std::string> PredictionWatch::finish() {
  const std::lock_guard lock(mutex_);
  return has_judged_ || times_.empty() ? std::nullopt : judge();
}

std::optional<std::string> PredictionWatch::judge() {
  has_judged_ = true;
  const RunTerms measured = medians(terms_);
  const RunTerms predicted =
      predicted_run_terms(run_.executed, telling_stage(run_.settings.schedule));
  Judged run{.time = {run_.executed.predicted.iteration_time.value, Seconds(median(times_))},
             .steps = std::ssize(times_)};
  for (int term = 0; term < kNumRunTerms; ++term) {
    run.terms.push_back({.name = std::string(kRunTermNames[static_cast<std::size_t>(term)]),
                         .time = {predicted[RunTerm(term)], measured[RunTerm(term)]}});
  }
  warning_ = warning_of(run, report_file_);
  return warning_;
}

std::vector<std::string> PredictionWatch::warnings(const RunReport& report) const {
  const std::lock_guard lock(mutex_);
  std::optional<std::string> warning = warning_;
  if (!has_judged_ && run_.is_predicted) {
    warning = warning_of({.time = {report.predicted_time.value, report.measured_time},
                          .steps = report.execution.steps - report.execution.warm_up,
                          .terms = report.terms},
                         report_file_);
  }
  return warning ? std::vector<std::string>{*warning} : std::vector<std::string>();
}

}  // namespace ptdp
