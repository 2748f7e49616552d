// A plan of any bytes is refused, or reads back as it was written and can be costed.
#include <cmath>

#include "planner/plan/plan.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    const ptdp::Plan plan = ptdp::parse_plan(text, "plan.json");
    const std::string written = to_json(plan);
    ptdp::require(to_json(ptdp::parse_plan(written, "written.json")) == written);
    const ptdp::Prediction predicted = ptdp::predict({plan.scenario, plan.config}, {});
    ptdp::require(std::isfinite(predicted.iteration_time.value.value()));
  });
}
