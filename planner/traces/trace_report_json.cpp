// Writes the report of a trace as JSON.
#include <string>
#include <vector>

#include "cost_model/text/object_writer.h"
#include "planner/traces/trace_report.h"

namespace ptdp {
namespace {

void write_times(ObjectWriter& writer, const TraceTimes& times) {
  writer.quantity("time_s", times.total(), 1.0);
  for (const TraceTerm& known : kTraceTerms) {
    writer.quantity(std::string(known.name) + "_s", times.*known.time, 1.0);
  }
}

std::vector<ObjectWriter> written_steps(const TraceReport& report) {
  std::vector<ObjectWriter> steps(report.steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].count("step", report.steps[i].number);
    write_times(steps[i], report.steps[i].times);
  }
  return steps;
}

std::vector<ObjectWriter> written_collectives(const TraceReport& report) {
  std::vector<ObjectWriter> rows(report.collectives.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const CollectiveUse& use = report.collectives[i];
    rows[i].choice("collective", use.kind, NamedValues<TracedCollective>(kTracedCollectiveNames));
    rows[i].text("group", use.group);
    rows[i].count("ranks", use.ranks);
    rows[i].number("calls", use.calls);
    rows[i].quantity("bytes", use.size, 1.0);
    rows[i].quantity("time_s", use.time, 1.0);
    rows[i].quantity("hidden_s", use.hidden, 1.0);
    rows[i].quantity("exposed_s", use.exposed, 1.0);
    rows[i].quantity("bus_GBps", use.bus_bandwidth, kGiga);
    rows[i].quantity("best_bus_GBps", use.best_bandwidth, kGiga);
  }
  return rows;
}

std::vector<ObjectWriter> written_work(const TraceReport& report) {
  std::vector<ObjectWriter> rows(report.work.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const WorkUse& use = report.work[i];
    rows[i].choice("kind", use.kind, NamedValues<WorkKind>(kWorkKindNames));
    rows[i].text("name", use.name);
    rows[i].number("calls", use.calls);
    rows[i].quantity("time_s", use.time, 1.0);
    rows[i].quantity("flops", use.flops, 1.0);
  }
  return rows;
}

std::vector<ObjectWriter> written_parts(const TraceReport& report) {
  const std::vector<TracePart> parts = split_by_trace(
      report.mean, report.collectives, report.plan->predicted.breakdown, report.plan->config);
  std::vector<ObjectWriter> rows(parts.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].text("part", std::string(parts[i].name));
    if (parts[i].predicted) {
      rows[i].quantity("predicted_s", *parts[i].predicted, 1.0);
    }
    if (parts[i].measured) {
      rows[i].quantity("measured_s", *parts[i].measured, 1.0);
    }
  }
  return rows;
}

}  // namespace

std::string to_json(const TraceReport& report) {
  ObjectWriter writer;
  writer.schema(kTraceSchema);
  writer.text("tool_version", PTDP_VERSION);
  writer.text("file", report.file);
  if (report.rank != kUnsaid) {
    writer.count("rank", report.rank);
  }
  if (report.world_size > 0) {
    writer.count("world_size", report.world_size);
  }
  writer.count("device", report.device);
  writer.text("device_name", report.device_name);
  writer.flag("whole_trace", !report.are_marked);
  writer.count("steps_left_out", report.steps_left_out);
  writer.quantity("iteration_time_s", report.time, 1.0);
  writer.part("mean", [&](ObjectWriter& part) { write_times(part, report.mean); });
  writer.children("steps", written_steps(report));
  writer.children("collectives", written_collectives(report));
  writer.children("work", written_work(report));
  if (report.plan) {
    const Estimate<Seconds>& time = report.plan->predicted.iteration_time;
    writer.part("predicted", [&](ObjectWriter& part) {
      part.text("configuration", to_string(report.plan->config));
      part.quantity("iteration_time_s", time.value, 1.0);
      part.numbers("interval_s", {time.low.value(), time.high.value()});
    });
    writer.children("split", written_parts(report));
    writer.number("error_pct", 100.0 * *report.error());
    writer.flag("inside_interval", report.is_inside());
  }
  writer.texts("assumptions", report.assumptions);
  writer.texts("warnings", report.warnings);
  return writer.dump();
}

std::string in_format(AnswerFormat format, const TraceReport& report) {
  return format == AnswerFormat::kJson ? to_json(report) : to_text(report);
}

}  // namespace ptdp
