// A schedule of any bytes is refused, found at fault, or simulated to its end and, where it
// computes alone, completed; what is read is written and read back.
#include <algorithm>
#include <cmath>

#include "cost_model/schedule/passes/communication.h"
#include "cost_model/schedule/validator/validator.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    const ptdp::Schedule schedule = ptdp::parse_schedule_csv(text, "schedule.csv");
    ptdp::require(ptdp::parse_schedule_csv(to_csv(schedule), "again") == schedule);
    if (const auto fault = find_fault(schedule)) {
      ptdp::require(!fault->what.empty() && fault->what.find('\n') == std::string::npos);
      return;
    }
    const ptdp::Schedule compute = compute_alone(schedule);
    if (is_compute_only(schedule)) {
      const ptdp::StepActions step{
          .gradient_buckets = {2}, .gathers_parameters = true, .ties_embeddings = true};
      const ptdp::Schedule lowered = complete(schedule, step);
      ptdp::require(!find_fault(lowered).has_value());
      ptdp::require(compute_alone(lowered) == schedule);
      ptdp::require(ptdp::parse_schedule_csv(to_csv(lowered), "lowered").orders == lowered.orders);
    }
    const ptdp::StageDurations each =
        ptdp::stage_durations(ptdp::Seconds(1.0), ptdp::Seconds(2.0), ptdp::Seconds(3.0));
    const ptdp::SimulatedTimes times = simulate(compute, {&each, 1});
    ptdp::require(std::isfinite(times.makespan().value()) && times.bubble_ratio() >= -1e-9);
  });
}
