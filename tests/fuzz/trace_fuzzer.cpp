// A trace of any bytes is refused, or split into parts that are sound and add up.
#include <cmath>

#include "planner/traces/trace_reader.h"
#include "planner/traces/trace_report.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    const ptdp::TraceReport report =
        ptdp::report_trace(ptdp::trace_of(text, "x.json"), "x.json", std::nullopt);
    for (const ptdp::TracedStep& step : report.steps) {
      for (const ptdp::TraceTerm& term : ptdp::kTraceTerms) {
        ptdp::require(step.times.*term.time >= ptdp::Seconds(0.0));
      }
    }
    for (const ptdp::CollectiveUse& use : report.collectives) {
      ptdp::require(use.exposed.value() >= 0.0 && std::isfinite(use.bus_bandwidth.value()));
    }
    ptdp::require(report.time > ptdp::Seconds(0.0) && std::isfinite(report.time.value()));
    (void)ptdp::to_json(report);
    (void)ptdp::to_text(report);
  });
}
