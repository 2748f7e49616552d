#include "planner/runs/rehearsal_report.h"

#include <limits>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostOfRehearsal = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostRehearsedRanks = 1'000'000'000;
constexpr Range kRehearsedTime = {0.0, 1e15, "seconds"};
constexpr Range kRehearsedSize = {0.0, 1e30};

}  // namespace

template <class Fields>
void describe(Fields& fields, RehearsalExecution& run) {
  fields.text("device", run.device);
  fields.choice("precision", run.precision, NamedValues<Precision>(kPrecisionNames));
  fields.count("steps", run.steps, 1, kMostOfRehearsal);
  fields.count("warm_up", run.warm_up, 0, kMostOfRehearsal);
  auto seed = static_cast<std::int64_t>(run.seed);
  fields.count("seed", seed, 0, kMostOfRehearsal);
  run.seed = static_cast<std::uint64_t>(seed);
  describe_dropout(fields, run.dropout);
  fields.flag("graphs", run.uses_graphs);
  fields.quantity("memory_of_others_bytes", run.memory_of_others, 1.0, kRehearsedSize);
}

template <class Fields>
void describe(Fields& fields, RehearsalBasis& basis) {
  fields.name("stack", basis.stack);
  fields.text("predicted", basis.predicted);
  fields.text("rates", basis.rates);
  fields.flag("like_for_like", basis.is_like_for_like);
  fields.texts("notes", basis.notes);
}

template <class Fields>
void describe(Fields& fields, RehearsedTerm& term) {
  fields.name("term", term.name);
  fields.quantity("predicted_s", term.predicted, 1.0, kRehearsedTime);
  fields.quantity("composed_s", term.composed, 1.0, kRehearsedTime);
}

template <class Fields>
void describe(Fields& fields, RehearsedAction& action) {
  fields.name("kind", action.kind);
  fields.count("stage", action.stage, 0, kMostRehearsedRanks);
  fields.count("count", action.count, 1, kMostOfRehearsal);
  fields.quantity("predicted_s", action.predicted, 1.0, kRehearsedTime);
  fields.quantity("measured_s", action.measured, 1.0, kRehearsedTime);
  fields.quantity("collectives_s", action.collectives, 1.0, kRehearsedTime);
  fields.quantity("composed_s", action.composed, 1.0, kRehearsedTime);
}

template <class Fields>
void describe(Fields& fields, RehearsedMemory& memory) {
  fields.text("category", memory.category);
  fields.quantity("predicted_bytes", memory.predicted, 1.0, kRehearsedSize);
  fields.quantity("measured_bytes", memory.measured, 1.0, kRehearsedSize);
}

template <class Fields>
void describe(Fields& fields, RehearsedRank& rank) {
  fields.count("pipeline_rank", rank.pipeline_rank, 0, kMostRehearsedRanks);
  fields.count("rank", rank.rank, 0, kMostRehearsedRanks);
  fields.count("microbatches", rank.microbatches, 1, kMostOfRehearsal);
  fields.count("predicted_activations", rank.predicted_activations, 0, kMostRehearsedRanks);
  fields.count("measured_activations", rank.measured_activations, 0, kMostRehearsedRanks);
  fields.quantity("predicted_compute_s", rank.predicted_compute, 1.0, kRehearsedTime);
  fields.quantity("measured_compute_s", rank.measured_compute, 1.0, kRehearsedTime);
  fields.objects("actions", rank.actions);
  fields.objects("memory", rank.memory);
}

namespace {

/// "predicted": of the iteration.
struct PredictedIteration {
  RehearsalReport* report;
};
/// "composed": likewise.
struct ComposedIteration {
  RehearsalReport* report;
};

template <class Fields>
void describe(Fields& fields, PredictedIteration& part) {
  RehearsalReport& report = *part.report;
  fields.quantity("iteration_time_s", report.predicted_time.value, 1.0, kRehearsedTime);
  fields.quantity("low_s", report.predicted_time.low, 1.0, kRehearsedTime);
  fields.quantity("high_s", report.predicted_time.high, 1.0, kRehearsedTime);
  fields.quantity("simulated_s", report.simulated_time, 1.0, kRehearsedTime);
  fields.quantity("plan_s", report.planned_time, 1.0, kRehearsedTime);
}

template <class Fields>
void describe(Fields& fields, ComposedIteration& part) {
  RehearsalReport& report = *part.report;
  fields.quantity("iteration_time_s", report.composed_time, 1.0, kRehearsedTime);
  fields.quantity("core_sharing_s", report.core_sharing, 1.0, kRehearsedTime);
}

template <class Fields>
void describe_document(Fields& fields, RehearsalReport& report, PlanDocument& plan) {
  std::string schema = kRehearsalSchema;
  fields.text("schema", schema);
  if constexpr (Fields::kIsReading) {
    if (schema != kRehearsalSchema) {
      throw Error(fields.place_of("schema") + ": expected \"" + kRehearsalSchema + "\", got " +
                  in_quotes(schema));
    }
  }
  fields.name("tool_version", report.tool_version);
  fields.object("plan", plan);
  fields.object("execution", report.execution);
  fields.object("basis", report.basis);
  PredictedIteration predicted{&report};
  fields.object("predicted", predicted);
  ComposedIteration composed{&report};
  fields.object("composed", composed);
  fields.quantity("model_flops", report.model_flops, 1.0, kRehearsedSize);
  fields.quantity("hardware_flops", report.hardware_flops, 1.0, kRehearsedSize);
  fields.quantity("peak_flops_per_s", report.peak, 1.0, kRehearsedSize);
  fields.count("terms_stage", report.terms_stage, 0, kMostRehearsedRanks);
  fields.objects("terms", report.terms);
  fields.objects("ranks", report.ranks);
  fields.counts("sources", report.sources, 0, kMostRehearsedRanks);
  fields.texts("modelled", report.modelled);
}

}  // namespace

std::string to_json(const RehearsalReport& report) {
  RehearsalReport copy = report;
  PlanDocument plan{report.plan};
  ObjectWriter writer;
  describe_document(writer, copy, plan);
  return writer.dump();
}

RehearsalReport parse_rehearsal(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  RehearsalReport report;
  PlanDocument plan;
  describe_document(reader, report, plan);
  reader.finish();
  report.plan = checked(std::move(plan.plan), place + ": plan");
  return report;
}

}  // namespace ptdp
