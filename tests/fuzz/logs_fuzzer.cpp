// A log of any bytes has records that are sound, and a steady state within them or none.
#include <cmath>

#include <algorithm>
#include "planner/logs/steady_state.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    ptdp::TrainingLog log;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      const bool may_hold = ptdp::may_hold_record(line);
      const ptdp::LogMemory memory = ptdp::reported_memory(line);
      ptdp::require(std::isfinite(memory.reserved) && (may_hold || memory.reserved == 0.0));
      (void)ptdp::is_cut(line, ptdp::records_of(line));
      for (const ptdp::LogTimer& timer : ptdp::timers_of(line)) {
        ptdp::require(ptdp::may_hold_timers(line) && timer.low >= 0.0 && timer.high <= 1e7);
      }
      for (const ptdp::LogRecord& record : ptdp::records_of(line)) {
        ptdp::require(record.step >= 0);
        ptdp::require(std::isfinite(record.seconds.value_or(0.0)));
        ptdp::require(std::isfinite(record.clock.value_or(0.0)));
        log.records.push_back(record);
      }
    }
    const ptdp::LoggedJob job = {.sequences = 64.0, .tokens = 64e3, .tokens_per_gpu = 1e3};
    const ptdp::SteadyState state = ptdp::find_steady_state(log, job, "x.log");
    ptdp::require(state.low <= state.time && state.time <= state.high && state.lines > 0);
    ptdp::require(std::isfinite(state.high.value()) && state.low.value() > 0.0);
  });
}
