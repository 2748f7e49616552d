// Tells what is known of memory beyond the formulas.
#include "planner/answer/memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/memory/memory.h"

namespace ptdp {
namespace {

constexpr double kOfNote = 0.01;  // runs say no more of the tails

/// Returns a probability that no run of the cluster and stack is behind, in tens of per cent,
/// rounded down.
///
/// Groups of published runs that are held out fit less often than stated. Stated 90, 95, 98 and
/// 99 % are 79, 88, 95 and 97 % there, as means over six groups (ptdp-validate). Stated 98 % and
/// more thus bear "over 90 %"; lower ones are told as they are, up to 14 points too high.
std::string without_own_runs(double probability) {
  constexpr double tens = 10.0;
  constexpr double surely_over = 0.98;
  constexpr double highest = 9.0;
  const double rounded = std::min(highest, std::floor(tens * probability));
  return probability >= surely_over ? "over 90 %"
         : rounded < 1.0            ? "under 10 %"
                                    : fmt::format("about {:.0f} %", tens * rounded);
}

std::string with_own_runs(double probability) {
  return probability > 1.0 - kOfNote ? "over 99 %"
         : probability < kOfNote     ? "under 1 %"
                                     : fmt::format("{:.0f} %", 100.0 * probability);
}

}  // namespace

std::string likelihood_text(double probability, const Support& support) {
  return support.num_runs > 0 ? with_own_runs(probability) : without_own_runs(probability);
}

std::string fitting_text(double probability, const MemoryBelief& beyond) {
  return "fits with " + likelihood_text(probability, beyond.support);
}

std::string fitting_remark(double probability, const MemoryBelief& beyond) {
  return beyond.is_known() ? ", " + fitting_text(probability, beyond) : "";
}

std::string beyond_text(const MemoryBelief& beyond) {
  const double expected = beyond.expected.value() / kGibi;
  const double half_width = beyond.half_width().value() / kGibi;
  return fmt::format("{:+.2f} GiB, 90 % interval {:+.1f} .. {:+.1f} GiB", expected,
                     expected - half_width, expected + half_width);
}

std::string fitted_memory(Bytes memory, double headroom) {
  return headroom == 0.0 ? ""
                         : fmt::format("the {:.2f} GiB that the headroom leaves",
                                       (1.0 - headroom) * memory.value() / kGibi);
}

std::string beyond_line(const MemoryBelief& beyond, Bytes memory, double headroom) {
  if (!beyond.is_known()) {
    return "";
  }
  const std::string into = fitted_memory(memory, headroom);
  return fmt::format("Memory beyond the formulas: {}; rests on {}.{}{}{}\n", beyond_text(beyond),
                     to_text(beyond.support), into.empty() ? "" : " Fitting is into ", into,
                     into.empty() ? "" : ".");
}

std::string reserve_text(const ReservedScenario& reserved) {
  const GpuSpec& gpu = reserved.scenario.cluster.gpu;
  const double share = reserved_memory(gpu, reserved.scenario.stack) / gpu.memory;
  if (!reserved.probability && share == 0.0) {
    return "";
  }
  std::string text = fmt::format(
      "{:.3g} GiB of each GPU reserved: for what is not computed (CUDA context, NCCL, gaps of the "
      "allocator)",
      share * gpu.memory.value() / kGibi);
  if (reserved.probability) {
    text += fmt::format(", {}enough with {} by {} (--fit)",
                        *reserved.probability < reserved.asked ? "the most there can be, " : "",
                        likelihood_text(*reserved.probability, reserved.support),
                        to_text(reserved.support));
  }
  return text;
}

}  // namespace ptdp
