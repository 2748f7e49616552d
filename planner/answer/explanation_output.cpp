// Prints the answer to "why not X" as text and as JSON.
#include "planner/answer/explanation_output.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "cost_model/memory/memory.h"
#include "cost_model/text/object_writer.h"
#include "planner/answer/fit_output.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/planning.h"
#include "planner/explain/nothing_fits.h"
#include "planner/search/ties.h"

namespace ptdp {
namespace {

/// Returns the terms by which the best configuration that matches differs from the best of all, in
/// what the objective counts.
std::vector<TermDifference> lost_terms(const Explanation& explanation, const Scenario& scenario,
                                       const CalibrationFit& calibration) {
  const auto cost = [&](const ParallelConfig& config) {
    return counted(
        predict({scenario, config}, calibration.at(run_point(scenario, config))).breakdown, config,
        explanation.matching_options.objective);
  };
  return differences(cost(explanation.matching.best.front().config),
                     cost(explanation.all.best.front().config));
}

}  // namespace

std::string to_text(const Explanation& explanation, const Scenario& scenario,
                    const CalibrationFit& calibration, const MemoryBelief& beyond) {
  if (explanation.matching.best.empty()) {
    return "No configuration that matches can run.\n" +
           why_nothing_fits(scenario, explanation.matching_options, explanation.matching);
  }
  const Objective objective = explanation.matching_options.objective;
  const auto show = [&](const Candidate& candidate) {
    const std::string fit =
        beyond.is_known()
            ? fitting_remark(
                  probability_of_fitting(candidate.memory, scenario,
                                         explanation.matching_options.memory_headroom, beyond),
                  beyond)
            : "";
    return fmt::format("{}{}: {:.4g} s, {:.1f} GiB{}", to_string(candidate.config),
                       stack_remark(scenario.stack, candidate.config),
                       candidate.time.value() * calibration.factor,
                       candidate.memory.value() / kGibi, fit);
  };
  const Candidate& compared = explanation.matching.best.front();
  std::string text = fmt::format("Best that matches: {}\n", show(compared));
  const std::string rest = beyond_line(beyond, scenario.cluster.gpu.memory,
                                       explanation.matching_options.memory_headroom);
  if (explanation.all.best.empty()) {
    return text + "Without it, nothing that the other flags allow can run.\n" + rest;
  }
  if (explanation.all.best.front().config == compared.config) {
    return text + "It is the best that the other flags allow.\n" + rest;
  }
  const Candidate& best = explanation.all.best.front();
  const double lost = loss(compared, best, objective);
  text += fmt::format("Best without it:   {}\n", show(best));
  text += fmt::format("What matches {} {:.1f} % {}:\n",
                      objective == Objective::kCost ? "costs" : "takes", 100.0 * std::abs(lost),
                      lost < 0.0                      ? "less"
                      : objective == Objective::kCost ? "more"
                                                      : "longer");
  for (const TermDifference& term : lost_terms(explanation, scenario, calibration)) {
    if (term.difference.value() != 0.0) {
      text += fmt::format("  {:<22} {:>+9.4g} {}\n", term.term, term.difference.value(),
                          unit_of(objective));
    }
  }
  const RelativeInterval interval = calibration.at(run_point(scenario, best.config)).interval;
  if (calibration.is_calibrated()) {
    text += fmt::format("What matches is the better one with a probability of {:.0f} %.\n",
                        100.0 * probability_of_order(Seconds(1.0 + lost), Seconds(1.0),
                                                     calibration.layout_variance));
  } else if (std::abs(lost) <= interval.high - 1.0) {
    text += "The difference lies within the 90 % interval of the prediction.\n";
  }
  if (lost < 0.0 && explanation.all.fastest) {
    text += fmt::format(
        "The best without it was chosen among ties for {}.\n",
        fmt::join(gains_of_choice(best, compared, scenario, explanation.matching_options), ", "));
  }
  return text + rest;
}

std::string to_json(const Explanation& explanation, const Scenario& scenario,
                    const CalibrationFit& calibration, const MemoryBelief& beyond) {
  ObjectWriter json;
  json.text("schema", "ptdp.explanation/1");
  json.text("tool_version", PTDP_VERSION);
  json.child("candidates", candidates_json(explanation.matching, calibration.factor));
  const std::vector<Candidate>& matching = explanation.matching.best;
  const std::vector<Candidate>& all = explanation.all.best;
  const auto add = [&](const char* key, const std::vector<Candidate>& found) {
    if (found.empty()) {
      return;
    }
    ObjectWriter candidate = candidate_json(found.front(), calibration.factor);
    if (beyond.is_known()) {
      candidate.number(
          "probability_of_fitting",
          probability_of_fitting(found.front().memory, scenario,
                                 explanation.matching_options.memory_headroom, beyond));
    }
    json.child(key, std::move(candidate));
  };
  add("matching", matching);
  add("best", all);
  if (beyond.is_known()) {
    json.object("beyond_formulas", beyond);
  }
  if (!matching.empty() && !all.empty()) {
    const Objective objective = explanation.matching_options.objective;
    ObjectWriter terms;
    for (const TermDifference& term : lost_terms(explanation, scenario, calibration)) {
      terms.number(std::string(term.term), term.difference.value());
    }
    const double lost = loss(matching.front(), all.front(), objective);
    json.number("loss", lost);
    if (calibration.is_calibrated()) {
      json.number("better_than_best", probability_of_order(Seconds(1.0 + lost), Seconds(1.0),
                                                           calibration.layout_variance));
    }
    json.child(objective == Objective::kCost ? "differences_gpu_s" : "differences_s",
               std::move(terms));
  }
  return json.dump();
}

std::string in_format(AnswerFormat format, const Explanation& explanation, const Scenario& scenario,
                      const CalibrationFit& calibration, const MemoryBelief& beyond,
                      const SearchOptions& options) {
  return format == AnswerFormat::kJson
             ? to_json(explanation, scenario, calibration, beyond)
             : to_text(explanation, scenario, calibration, beyond) +
                   unproven_remark(explanation.all, options, calibration.factor);
}

}  // namespace ptdp
