// Writes and reads reports of runs as JSON.
#include "planner/runs/run_report.h"

#include <algorithm>
#include <limits>

#include "cost_model/error.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {
namespace {

constexpr std::int64_t kAnyCount = std::numeric_limits<std::int64_t>::max();
/// Range of the time of an iteration that ran; the least is what clocks resolve.
constexpr Range kIteration = {1e-9, 1e15, "seconds"};
constexpr Range kAny = {-1e300, 1e300};
constexpr std::size_t kLargestRun = std::size_t{64} * 1024 * 1024;

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, RunStraggler>& straggler) {
  fields.count("rank", straggler.rank, 0, kMostReportedRanks);
  fields.number("factor", straggler.factor, {1.0, 1e15});
  fields.quantity("lost_s", straggler.lost, 1.0, kReportedTime);
}

/// The most blocks that NCCL runs for a kernel, and more.
constexpr int kMostBlocks = 1024;

template <class Fields>
void describe(Fields& fields, Described<Fields, RunExecution>& run) {
  fields.name("transport", run.transport);
  if (fields.optional("nccl_collective_blocks", run.collective_blocks > 0)) {
    fields.count("nccl_collective_blocks", run.collective_blocks, 1, kMostBlocks);
    fields.count("nccl_message_blocks", run.message_blocks, 1, kMostBlocks);
  }
  if (fields.optional("hosts", !run.hosts.empty())) {
    fields.texts("hosts", run.hosts);
  }
  fields.count("ranks", run.ranks, 1, kMostReportedRanks);
  if (fields.optional("device", true)) {  // files without it are of runs on CPUs
    fields.text("device", run.device);
  }
  fields.choice("precision", run.precision, NamedValues<Precision>(kPrecisionNames));
  fields.count("first_step", run.first_step, 0, kAnyCount);
  fields.count("steps", run.steps, 1, kAnyCount);
  if (fields.optional("requested_steps", run.requested_steps != run.steps)) {
    fields.count("requested_steps", run.requested_steps, run.steps, kAnyCount);
  } else if constexpr (Fields::kIsReading) {
    run.requested_steps = run.steps;
  }
  fields.count("warm_up", run.warm_up, 0, kAnyCount);
  auto seed = static_cast<std::int64_t>(run.seed);
  fields.count("seed", seed, 0, kAnyCount);
  if constexpr (Fields::kIsReading) {
    run.seed = static_cast<std::uint64_t>(seed);
  }
  fields.text("data", run.data);
  fields.text("basis", run.basis);
  describe_dropout(fields, run.dropout);
  fields.flag("reproducible", run.is_reproducible);
  fields.flag("shrunk", run.is_shrunk);
  if (fields.optional("straggler", run.straggler.rank >= 0)) {
    fields.object("straggler", run.straggler);
  }
  fields.count("terms_stage", run.terms_rank, 0, kMostReportedRanks);
  fields.object("model", run.model);
  fields.count("global_batch_size", run.global_batch_size, 1, kMostReportedRanks);
  fields.count("dp", run.dp, 1, kMostReportedRanks);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, TermComparison>& term) {
  fields.name("term", term.name);
  describe_measured(fields, term.time, "s");
  if (fields.optional("low_s", term.high.value() > 0.0)) {
    fields.quantity("low_s", term.low, 1.0, kReportedTime);
    fields.quantity("high_s", term.high, 1.0, kReportedTime);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, ActionComparison>& action) {
  fields.name("kind", action.kind);
  fields.count("stage", action.stage, 0, kMostReportedRanks);
  fields.count("count", action.count, 1, kAnyCount);
  describe_measured(fields, action.time, "s");
}

template <class Fields>
void describe(Fields& fields, Described<Fields, MemoryComparison>& memory) {
  describe_measured(fields, memory.size, "bytes");
  if (fields.optional("predicted_bytes_beside", memory.beside.measured > Bytes(0.0))) {
    describe_measured(fields, memory.beside, "bytes_beside");
  }
  describe_measured(fields, memory.activations, "activations");
}

template <class Fields>
void describe(Fields& fields, Described<Fields, TrafficComparison>& traffic) {
  fields.name("group", traffic.group);
  fields.name("collective", traffic.collective);
  describe_measured(fields, traffic.bytes, "bytes");
}

template <class Fields>
void describe(Fields& fields, Described<Fields, CallComparison>& call) {
  fields.name("group", call.group);
  fields.name("collective", call.collective);
  fields.quantity("size_bytes", call.size, 1.0, kReportedSize);
  fields.quantity("predicted_s", call.predicted, 1.0, kReportedTime);
  fields.quantity("estimated_s", call.estimated, 1.0, kReportedTime);
  fields.quantity("measured_s", call.measured, 1.0, kReportedTime);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, RunReport>& report) {
  fields.schema(kRunSchema);
  fields.name("tool_version", report.tool_version);
  fields.object("plan", report.plan);
  fields.object("execution", report.execution);
  fields.part("predicted", [&report](Fields& part) {
    part.quantity("iteration_time_s", report.predicted_time.value, 1.0, kReportedTime);
    part.quantity("low_s", report.predicted_time.low, 1.0, kReportedTime);
    part.quantity("high_s", report.predicted_time.high, 1.0, kReportedTime);
  });
  fields.part("measured", [&report](Fields& part) {
    part.quantity("iteration_time_s", report.measured_time, 1.0, kIteration);
    part.quantity("fastest_s", report.fastest, 1.0, kIteration);
    part.quantity("slowest_s", report.slowest, 1.0, kIteration);
  });
  fields.quantity("hardware_flops", report.hardware_flops, 1.0, kReportedSize);
  fields.objects("terms", report.terms);
  if constexpr (Fields::kIsReading) {
    if (report.terms.empty() && report.predicted_time.value > Seconds(0.0)) {
      throw Error(fields.place_of("terms") +
                  ": expected the terms of the iteration, as it is predicted, got none");
    }
  }
  fields.objects("actions", report.actions);
  fields.objects("memory", report.memory);
  fields.objects("traffic", report.traffic);
  if (fields.optional("calls", !report.calls.empty())) {
    fields.objects("calls", report.calls);
  }
  fields.numbers("losses", report.losses, kAny);
  fields.numbers("gradient_norms", report.gradient_norms, kAny);
  fields.count("skipped_steps", report.skipped_steps, 0, kAnyCount);
  if (fields.optional("differences", !report.differences.empty())) {
    fields.texts("differences", report.differences);
  }
  fields.texts("warnings", report.warnings);
}

std::string to_json(const RunReport& report) {
  ObjectWriter writer;
  describe(writer, report);
  return writer.dump();
}

RunReport parse_run(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  RunReport report;
  describe(reader, report);
  reader.finish();
  report.plan = checked(std::move(report.plan), place + ": plan");
  return report;
}

RunReport read_run(const std::filesystem::path& path) {
  return parse_run(read_file(path, kLargestRun), path.string());
}

std::string in_format(AnswerFormat format, const RunReport& report) {
  return format == AnswerFormat::kJson ? to_json(report) : to_text(report);
}

}  // namespace ptdp
