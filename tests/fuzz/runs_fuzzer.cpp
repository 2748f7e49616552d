// A table of runs of any bytes is refused, or every row is costed or skipped with a reason.
#include <cmath>

#include "planner/accuracy/costed_runs.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    const ptdp::CsvTable table = ptdp::CsvTable::from_text(text, "runs.csv");
    const ptdp::CostedRuns runs = cost_runs(read_measured_runs(table));
    ptdp::require(runs.costed.size() + runs.skipped.size() == table.num_rows());
    for (const ptdp::CostedRun& run : runs.costed) {
      ptdp::require(std::isfinite(run.predicted.value()) && run.predicted.value() > 0.0);
    }
    for (const ptdp::SkippedRun& run : runs.skipped) {
      ptdp::require(!run.reason.empty());
    }
  });
}
