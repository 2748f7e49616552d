// Prints the report of a validation as `ptdp.validation/1`.
#include "cost_model/text/object_writer.h"
#include "planner/accuracy/partial_report.h"
#include "planner/accuracy/validation_report.h"

namespace ptdp {
namespace {

ObjectWriter row_json(const ValidatedRun& row) {
  const MeasuredRun& run = row.costed.run;
  const Estimate<Seconds> predicted = row.predicted();
  ObjectWriter json;
  json.text("id", run.id);
  json.text("group", run.group);
  json.text("cluster", run.cluster);
  json.text("stack", run.stack);
  json.object("config", run.config);
  json.number("measured_s", run.iteration_time.value());
  json.number("predicted_s", predicted.value.value());
  json.numbers("interval_s", {predicted.low.value(), predicted.high.value()});
  json.number("error_pct", 100.0 * row.error());
  json.number("measured_tflops_per_gpu", tflops_per_gpu(run, run.iteration_time));
  json.number("predicted_tflops_per_gpu", tflops_per_gpu(run, predicted.value));
  json.number("calibration_factor", row.calibration.factor);
  describe_support(json, row.calibration.support);
  json.number("distance", row.calibration.support.distance);
  json.flag("contradicted", row.is_contradicted);
  return json;
}

void add_errors(ObjectWriter& json, const GroupErrors& group) {
  json.count("n", group.errors.count);
  json.number("mape_pct", 100.0 * group.errors.mean_absolute);
  json.number("median_pct", 100.0 * group.errors.median_absolute);
  json.number("p90_pct", 100.0 * group.errors.p90_absolute);
  json.number("max_pct", 100.0 * group.errors.max_absolute);
  json.number("bias_pct", 100.0 * group.errors.bias);
  json.number("inside_interval_pct", 100.0 * group.inside_interval);
  json.number("median_half_width_pct", 100.0 * group.median_half_width);
}

std::vector<ObjectWriter> groups_json(const ValidationReport& report) {
  std::vector<ObjectWriter> groups;
  for (const GroupErrors& group : report.groups) {
    ObjectWriter json;
    json.text("group", group.group);
    add_errors(json, group);
    groups.push_back(std::move(json));
  }
  return groups;
}

std::vector<ObjectWriter> skipped_json(const ValidationReport& report) {
  std::vector<ObjectWriter> skipped;
  for (const SkippedRun& run : report.skipped) {
    ObjectWriter json;
    json.text("id", run.id);
    json.text("group", run.group);
    json.text("reason", run.reason);
    skipped.push_back(std::move(json));
  }
  return skipped;
}

std::vector<ObjectWriter> factors_json(const ValidationReport& report) {
  std::vector<ObjectWriter> factors;
  for (const FittedFactor& factor : report.factors) {
    ObjectWriter json;
    json.text("cluster", factor.scope.cluster);
    json.text("stack", factor.scope.stack);
    json.flag("has_experts", factor.scope.has_experts);
    json.count("n", factor.num_rows);
    json.number("factor", factor.factor);
    factors.push_back(std::move(json));
  }
  return factors;
}

ObjectWriter belief_json(const ValidatedMemory& row, const MemoryBelief& belief) {
  ObjectWriter json;
  json.number("expected_GiB", belief.expected.value() / kGibi);
  json.number("half_width_GiB", belief.half_width().value() / kGibi);
  json.number("error_pct", 100.0 * row.error_with(belief));
  json.number("probability_below", belief.probability_of_fitting(row.formulas, row.measured));
  return json;
}

ObjectWriter beliefs_json(const MemoryBeliefs& beliefs) {
  ObjectWriter json;
  json.count("n", beliefs.errors.count);
  json.number("mape_pct", 100.0 * beliefs.errors.mean_absolute);
  json.number("max_pct", 100.0 * beliefs.errors.max_absolute);
  json.number("bias_pct", 100.0 * beliefs.errors.bias);
  json.number("inside_interval", beliefs.inside);
  json.number("median_half_width_GiB", beliefs.half_width);
  json.numbers("fitted", {beliefs.fitted.begin(), beliefs.fitted.end()});
  return json;
}

ObjectWriter memory_row_json(const ValidatedMemory& row) {
  ObjectWriter json;
  json.text("id", row.id);
  json.text("group", row.group);
  json.text("stack", row.stack);
  json.number("measured_GiB", row.measured.value() / kGibi);
  json.number("formulas_GiB", row.formulas.value() / kGibi);
  json.number("reserve_GiB", row.reserve.value() / kGibi);
  if (row.constant) {
    json.number("constant_GiB", row.constant->value() / kGibi);
  }
  json.number("error_pct", 100.0 * row.error());
  json.number("error_with_constant_pct", 100.0 * row.error_with_constant());
  if (row.by_others) {
    json.child("by_others", belief_json(row, *row.by_others));
  }
  if (row.by_other_groups) {
    json.child("by_other_groups", belief_json(row, *row.by_other_groups));
  }
  return json;
}

ObjectWriter memory_errors_json(const MemoryErrors& errors) {
  const auto summary = [](const ErrorSummary& of) {
    ObjectWriter json;
    json.number("mape_pct", 100.0 * of.mean_absolute);
    json.number("max_pct", 100.0 * of.max_absolute);
    json.number("bias_pct", 100.0 * of.bias);
    return json;
  };
  ObjectWriter json;
  json.text("group", errors.group);
  json.count("n", errors.as_it_is.count);
  json.child("as_it_is", summary(errors.as_it_is));
  json.child("with_constant", summary(errors.with_constant));
  if (errors.by_others) {
    json.child("by_others", beliefs_json(*errors.by_others));
  }
  if (errors.by_other_groups) {
    json.child("by_other_groups", beliefs_json(*errors.by_other_groups));
  }
  return json;
}

ObjectWriter memory_json(const MemoryReport& memory) {
  std::vector<ObjectWriter> rows;
  for (const ValidatedMemory& row : memory.rows) {
    rows.push_back(memory_row_json(row));
  }
  std::vector<ObjectWriter> groups;
  for (const MemoryErrors& group : memory.groups) {
    groups.push_back(memory_errors_json(group));
  }
  std::vector<ObjectWriter> constants;
  for (const MemoryConstant& constant : memory.constants) {
    ObjectWriter json;
    json.text("stack", constant.stack);
    json.count("n", constant.num_rows);
    json.number("constant_GiB", constant.constant.value() / kGibi);
    constants.push_back(std::move(json));
  }
  ObjectWriter json;
  json.children("rows", std::move(rows));
  json.children("groups", std::move(groups));
  json.child("total", memory_errors_json(memory.total));
  if (memory.held_out) {
    json.child("held_out", beliefs_json(*memory.held_out));
  }
  json.numbers("stated_probabilities", {kStatedProbabilities.begin(), kStatedProbabilities.end()});
  json.children("constants", std::move(constants));
  return json;
}

void add_figures(ObjectWriter& json, const RankingFigures& figures) {
  json.count("rows", figures.rows);
  json.count("pairs", figures.pairs);
  if (const auto accuracy = figures.pair_accuracy()) {
    json.number("pair_accuracy", *accuracy);
  }
  json.number("regret_pct", 100.0 * figures.regret);
  json.number("regret_top3_pct", 100.0 * figures.regret_of_three);
}

std::vector<ObjectWriter> ranking_json(const std::vector<RankedSet>& sets) {
  std::vector<ObjectWriter> ranking;
  for (const RankedSet& set : sets) {
    ObjectWriter json;
    json.text("group", set.job.group);
    json.text("cluster", set.job.cluster);
    json.count("layers", set.job.num_layers);
    json.count("hidden", set.job.hidden_size);
    json.count("seq", set.job.seq_length);
    json.count("gbs", set.job.global_batch_size);
    json.count("gpus", set.job.gpus);
    add_figures(json, set.all);
    if (set.without_contradicted.has_value()) {
      ObjectWriter without;
      add_figures(without, *set.without_contradicted);
      json.child("without_contradicted", std::move(without));
    }
    ranking.push_back(std::move(json));
  }
  return ranking;
}

ObjectWriter totals_json(const RankingTotals& totals) {
  ObjectWriter json;
  json.count("sets", totals.sets);
  json.count("rows", totals.rows);
  json.count("pairs", totals.pairs);
  if (const auto accuracy = totals.pair_accuracy()) {
    json.number("pair_accuracy", *accuracy);
  }
  json.number("mean_regret_pct", 100.0 * totals.mean_regret);
  json.number("max_regret_pct", 100.0 * totals.max_regret);
  json.number("mean_regret_top3_pct", 100.0 * totals.mean_regret_of_three);
  json.number("max_regret_top3_pct", 100.0 * totals.max_regret_of_three);
  return json;
}

std::vector<ObjectWriter> ranking_groups_json(const std::vector<RankedSet>& sets) {
  std::vector<ObjectWriter> groups;
  for (const GroupRanking& group : ranking_by_group(sets)) {
    ObjectWriter json;
    json.text("group", group.group);
    json.child("all", totals_json(group.all));
    json.child("without_contradicted", totals_json(group.without_contradicted));
    groups.push_back(std::move(json));
  }
  return groups;
}

}  // namespace

std::string to_json(const ValidationReport& report) {
  std::vector<ObjectWriter> rows;
  rows.reserve(report.rows.size());
  for (const ValidatedRun& row : report.rows) {
    rows.push_back(row_json(row));
  }
  ObjectWriter total;
  add_errors(total, report.total);

  ObjectWriter json;
  json.text("schema", "ptdp.validation/1");
  json.text("tool_version", PTDP_VERSION);
  json.choice("calibration", report.calibration,
              NamedValues<CalibrationKind>(kCalibrationKindNames));
  json.flag("in_sample", report.calibration == CalibrationKind::kScale);
  json.children("rows", std::move(rows));
  json.children("partial", partial_json(report.partial));
  json.children("skipped", skipped_json(report));
  json.children("groups", groups_json(report));
  json.child("total", std::move(total));
  json.children("factors", factors_json(report));
  json.children("ranking", ranking_json(report.ranking));
  json.children("ranking_groups", ranking_groups_json(report.ranking));
  json.child("memory", memory_json(report.memory));
  return json.dump();
}

}  // namespace ptdp
