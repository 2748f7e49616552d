#include "tools/prediction_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost_model/calibration/quantile.h"
#include "planner/formatting.h"
#include "tools/command_line.h"
#include "tools/measured_terms.h"

namespace ptdp {
namespace {

/// The place in the pipeline of the rank that tells of its steps: it knows the loss.
int telling_stage(const Schedule& schedule) {
  return rank_of(schedule, num_stages(schedule) - 1, 0);
}

/// What is off by most seconds.
RunTerm find_term_most_off(const RunTerms& predicted, const RunTerms& measured) {
  int most = 0;
  const auto off = [&](int term) {
    return std::abs((predicted[RunTerm(term)] - measured[RunTerm(term)]).value());
  };
  for (int term = 1; term < kNumRunTerms; ++term) {
    most = off(term) > off(most) ? term : most;
  }
  return RunTerm(most);
}

}  // namespace

PredictionWatch::PredictionWatch(const PreparedRun& run, std::int64_t warm_up,
                                 std::string report_file)
    : run_(run), warm_up_(warm_up), report_file_(std::move(report_file)) {}

std::optional<std::string> PredictionWatch::observe(const StepProgress& step) {
  if (!run_.is_predicted || has_judged_ || step.done <= warm_up_) {
    return std::nullopt;
  }
  const Schedule& schedule = run_.settings.schedule;
  RunTerms terms = rank_terms(
      schedule.orders[static_cast<std::size_t>(telling_stage(schedule))], *step.record);
  terms[RunTerm::kBubble] = std::max(step.time - terms.own(), Seconds(0.0));
  times_.push_back(step.time.value());
  terms_.push_back(terms);
  return std::ssize(times_) < kJudgedSteps ? std::nullopt : judge();
}

std::optional<std::string> PredictionWatch::finish() {
  return has_judged_ || times_.empty() ? std::nullopt : judge();
}

std::optional<std::string> PredictionWatch::judge() {
  has_judged_ = true;
  const Seconds predicted = run_.executed.predicted.iteration_time.value;
  const Seconds measured(median(times_));
  if (std::abs(predicted / measured - 1.0) <= kToleratedError) {
    return std::nullopt;
  }
  const RunTerms predicted_terms =
      predicted_run_terms(run_.executed, telling_stage(run_.settings.schedule));
  const RunTerms measured_terms = medians(terms_);
  const RunTerm term = find_term_most_off(predicted_terms, measured_terms);
  warnings_.push_back(fmt::format(
      "the prediction is off by {:+.0f} %: {} per iteration predicted, {} measured over {} steps; "
      "{} is off most: {} predicted, {} measured; ptdp-calibrate {} --profile profile.json refits "
      "the profile",
      100.0 * (predicted / measured - 1.0), duration(predicted), duration(measured), times_.size(),
      kRunTermNames[static_cast<std::size_t>(term)], duration(predicted_terms[term]),
      duration(measured_terms[term]), shell_quoted(report_file_)));
  return warnings_.back();
}

}  // namespace ptdp
