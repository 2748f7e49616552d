// Writes and reads reports of rehearsals as JSON.
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

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, RehearsalExecution>& run) {
  fields.text("device", run.device);
  fields.choice("precision", run.precision, NamedValues<Precision>(kPrecisionNames));
  fields.count("steps", run.steps, 1, kMostOfRehearsal);
  fields.count("warm_up", run.warm_up, 0, kMostOfRehearsal);
  auto seed = static_cast<std::int64_t>(run.seed);
  fields.count("seed", seed, 0, kMostOfRehearsal);
  if constexpr (Fields::kIsReading) {
    run.seed = static_cast<std::uint64_t>(seed);
  }
  describe_dropout(fields, run.dropout);
  if (fields.optional("graphs", run.uses_graphs)) {
    fields.flag("graphs", run.uses_graphs);
  }
  fields.quantity("memory_of_others_bytes", run.memory_of_others, 1.0, kReportedSize);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, RehearsalBasis>& basis) {
  fields.name("stack", basis.stack);
  fields.text("predicted", basis.predicted);
  fields.text("rates", basis.rates);
  fields.flag("like_for_like", basis.is_like_for_like);
  fields.texts("notes", basis.notes);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, RehearsedTerm>& term) {
  fields.name("term", term.name);
  fields.quantity("predicted_s", term.predicted, 1.0, kReportedTime);
  fields.quantity("composed_s", term.composed, 1.0, kReportedTime);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, RehearsedAction>& action) {
  fields.name("kind", action.kind);
  fields.count("stage", action.stage, 0, kMostReportedRanks);
  fields.count("count", action.count, 1, kMostOfRehearsal);
  describe_measured(fields, action.time, "s");
  fields.quantity("collectives_s", action.collectives, 1.0, kReportedTime);
  fields.quantity("composed_s", action.composed, 1.0, kReportedTime);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, RehearsedMemory>& memory) {
  fields.text("category", memory.category);
  describe_measured(fields, memory.size, "bytes");
}

template <class Fields>
void describe(Fields& fields, Described<Fields, RehearsedRank>& rank) {
  fields.count("pipeline_rank", rank.pipeline_rank, 0, kMostReportedRanks);
  fields.count("rank", rank.rank, 0, kMostReportedRanks);
  fields.count("microbatches", rank.microbatches, 1, kMostOfRehearsal);
  describe_measured(fields, rank.activations, "activations");
  describe_measured(fields, rank.compute, "compute_s");
  fields.objects("actions", rank.actions);
  fields.objects("memory", rank.memory);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, RehearsalReport>& report) {
  fields.schema(kRehearsalSchema);
  fields.name("tool_version", report.tool_version);
  fields.object("plan", report.plan);
  fields.object("execution", report.execution);
  fields.object("basis", report.basis);
  fields.part("predicted", [&report](Fields& part) {
    part.quantity("iteration_time_s", report.predicted_time.value, 1.0, kReportedTime);
    part.quantity("low_s", report.predicted_time.low, 1.0, kReportedTime);
    part.quantity("high_s", report.predicted_time.high, 1.0, kReportedTime);
    part.quantity("simulated_s", report.simulated_time, 1.0, kReportedTime);
    part.quantity("plan_s", report.planned_time, 1.0, kReportedTime);
  });
  fields.part("composed", [&report](Fields& part) {
    part.quantity("iteration_time_s", report.composed_time, 1.0, kReportedTime);
    part.quantity("core_sharing_s", report.core_contention, 1.0, kReportedTime);
  });
  fields.quantity("model_flops", report.model_flops, 1.0, kReportedSize);
  fields.quantity("hardware_flops", report.hardware_flops, 1.0, kReportedSize);
  fields.quantity("peak_flops_per_s", report.peak, 1.0, kReportedSize);
  fields.count("terms_stage", report.terms_rank, 0, kMostReportedRanks);
  fields.objects("terms", report.terms);
  fields.objects("ranks", report.ranks);
  fields.counts("sources", report.sources, 0, kMostReportedRanks);
  fields.texts("modelled", report.modelled);
}

std::string to_json(const RehearsalReport& report) {
  ObjectWriter writer;
  describe(writer, report);
  return writer.dump();
}

RehearsalReport parse_rehearsal(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  RehearsalReport report;
  describe(reader, report);
  reader.finish();
  report.plan = checked(std::move(report.plan), place + ": plan");
  return report;
}

std::string in_format(AnswerFormat format, const RehearsalReport& report) {
  return format == AnswerFormat::kJson ? to_json(report) : to_text(report);
}

}  // namespace ptdp
