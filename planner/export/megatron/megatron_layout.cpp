#include "planner/export/megatron/megatron_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptdp {

bool needs_megatron_layout(const Plan& plan) {
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  return std::ranges::any_of(layers, [&](int count) { return count != layers.front(); });
}

std::string megatron_layout(const Plan& plan) {
  std::string text = "E";
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    text += stage > 0 ? "|" : "";
    text += layers[stage] > 0 ? fmt::format("t*{}", layers[stage]) : "";
  }
  const int modules = plan.scenario.job.model.mtp_num_layers;
  return text + (modules > 0 ? fmt::format("m*{}", modules) : "") + "L";
}

std::string python_list(const std::vector<int>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    const auto end = static_cast<std::size_t>(
        std::find_if(values.begin() + static_cast<std::ptrdiff_t>(i), values.end(),
                     [&](int value) { return value != values[i]; }) -
        values.begin());
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", values[i], end - i);
    i = end;
  }
  return "(" + text + ")";
}

}  // namespace ptdp
