#include "planner/explain/named_config.h"

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

/// Returns the single value of a pin; nullopt if it leaves the field open. Throws Error if it has
/// several.
std::optional<int> single(const IntegerRanges& pin, const std::string& place) {
  if (pin.is_any()) {
    return std::nullopt;
  }
  const std::int64_t value = pin.smallest();
  if (pin != IntegerRanges(value)) {
    throw Error(place + ": expected one value, got " + pin.text());
  }
  return static_cast<int>(value);
}
template <class Choice>
std::optional<Choice> single(const std::vector<Choice>& pin, const std::string& place) {
  if (pin.size() > 1) {
    throw Error(place + ": expected one value, got several");
  }
  return pin.empty() ? std::nullopt : std::optional<Choice>(pin.front());
}
std::optional<std::vector<int>> single(const std::vector<int>& pin, const std::string& /*place*/) {
  return pin;
}
template <class Value>
std::optional<Value> single(const std::optional<Value>& pin, const std::string& /*place*/) {
  return pin;
}

/// Throws Error for a value that means nothing beside the others.
void check_applies(const SearchSpace& named, const ParallelConfig& config,
                   const std::string& place) {
  for_each_config_field([&](const auto& field) {
    if (!is_free(named.*field.pin) && !field.applies(config) &&
        !field.traits.applies_beside.empty()) {
      throw Error(place + ": " + std::string(field.key) + ": expected " +
                  std::string(field.traits.applies_beside) + " beside it");
    }
  });
}

/// Gives schedule and vpp, of which one may be left out, values that go together.
void pair_schedule(const SearchSpace& named, ParallelConfig& config, const std::string& place) {
  if (named.schedules.empty() && config.vpp > 1) {
    config.schedule = ScheduleKind::kInterleaved;
  }
  if (named.vpp.is_any() && !has_chunks(config.schedule, 1)) {
    config.vpp = 2;
    if (has_chunks(config.schedule, 3)) {
      throw Error(place + ": schedule " + std::string(name_of(config.schedule)) +
                  ": expected vpp beside it, the chunks of each GPU");
    }
  }
  if (!has_chunks(config.schedule, config.vpp)) {
    throw Error(place + ": schedule " + std::string(name_of(config.schedule)) +
                " does not go with vpp=" + std::to_string(config.vpp));
  }
}

}  // namespace

ParallelConfig named_config(const SearchSpace& named, const Scenario& scenario, std::int64_t gpus,
                            const std::string& place) {
  ParallelConfig config;
  config.recompute_modules = usual_modules(scenario.stack.can_run);
  for_each_config_field([&](const auto& field) {
    const std::string key(field.key);
    if (const auto value = single(named.*field.pin, place + ": " + key)) {
      config.*field.member = *value;
    }
  });
  if (repeats(config.recompute) != Repeats::kModules && !named.recompute_modules) {
    config.recompute_modules = kCoreAttentionAlone;
  }
  check_applies(named, config, place);
  pair_schedule(named, config, place);
  const std::vector<int>& layers = config.layers_per_stage;
  if (std::ranges::all_of(layers, [&](int count) { return count == layers.front(); })) {
    config.layers_per_stage.clear();
  }
  if (named.dp.is_any()) {
    config.dp = 1;
    const std::int64_t replicas = gpus / config.world_size();
    config.dp = static_cast<int>(std::clamp<std::int64_t>(replicas, 1, 1 << 30));
  }
  if (config.world_size() > gpus) {
    throw Error(place + ": " + to_string(config) + " needs " + plural(config.world_size(), "GPU") +
                    "; there are " + std::to_string(gpus),
                ExitStatus::kNothingFits);
  }
  return config;
}

}  // namespace ptdp
