#include "tools/plan/search_flags.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cost_model/error.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

/// Returns the flag of a configuration field: its key, with hyphens.
std::string flag_of(std::string_view key) {
  std::string flag(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

/// Returns the names of all schedules that leave the optimizer as it is, as a list.
std::string synchronous_schedules() {
  std::string list;
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    if (traits_of(schedule.value).is_synchronous) {
      list += (list.empty() ? "" : ", ") + std::string(schedule.name);
    }
  }
  return list;
}

/// Returns the name and the choices of a value that pins a field of this type.
template <class Pin>
FlagValue pin_value(Pin SearchSpace::*) {
  if constexpr (std::is_same_v<Pin, std::optional<bool>>) {
    return {.name = "SWITCH", .choices = names_of<bool>(kOffAndOn)};
  } else if constexpr (std::is_same_v<Pin, std::optional<RecomputeMethod>>) {
    return {.name = "METHOD", .choices = names_of<RecomputeMethod>(kRecomputeMethodNames)};
  } else if constexpr (std::is_same_v<Pin, std::optional<RecomputeModules>>) {
    return {.name = "MODULE,...", .choices = names_of<RecomputeModule>(kRecomputeModuleNames)};
  } else if constexpr (std::is_same_v<Pin, std::optional<int>>) {
    return {.name = "N"};
  } else if constexpr (std::is_same_v<Pin, IntegerRanges> ||
                       std::is_same_v<Pin, std::vector<int>>) {
    return {.name = "N,..."};
  } else if constexpr (std::is_same_v<Pin, std::vector<ScheduleKind>>) {
    return {.name = "SCHEDULE,...", .choices = names_of<ScheduleKind>(kScheduleNames)};
  } else {
    return {.name = "NAME,...", .choices = names_of(kSpellings<typename Pin::value_type>)};
  }
}

/// Reads --schedule, a list of schedules that the stack need not be able to run; "all" stands for
/// every one.
std::vector<ScheduleKind> read_schedules(const CommandLine& line) {
  using Choice = std::optional<ScheduleKind>;  // nullopt for all
  std::vector<NamedValue<Choice>> names;
  names.reserve(kScheduleNames.size() + 1);
  for (const auto& [schedule, name] : kScheduleNames) {
    names.push_back({schedule, name});
  }
  names.push_back({std::nullopt, "all"});
  std::vector<ScheduleKind> schedules;
  for (const Choice chosen : line.choices<Choice>("schedule", names)) {
    if (chosen && !traits_of(*chosen).is_synchronous && !line.has("allow-stale-weights")) {
      throw Error("--schedule: " + std::string(name_of(*chosen)) +
                  " changes what the optimizer does; expected --allow-stale-weights too");
    }
    for (const auto& [schedule, name] : kScheduleNames) {
      if (!chosen || *chosen == schedule) {
        schedules.push_back(schedule);
      }
    }
  }
  return schedules;
}

/// Throws Error if --recompute excludes the kind of recomputation that another flag is about.
void check_recompute(const SearchSpace& space, bool is_pinned, Repeats needed,
                     const std::string& flag) {
  const auto is_meant = [&](Recompute kind) { return repeats(kind) == needed; };
  if (is_pinned && !space.recompute.empty() && std::ranges::none_of(space.recompute, is_meant)) {
    const auto* kind = std::ranges::find(kRecomputeKinds, needed, &RecomputeKind::repeats);
    throw Error(flag + ": expected " + std::string(kind->name) + " among --recompute");
  }
}

/// Throws Error for a flag that means nothing without another flag.
void check_companions(const SearchSpace& space) {
  check_recompute(space, space.recompute_modules.has_value(), Repeats::kModules,
                  "--recompute-modules");
  check_recompute(space, space.recompute_num_layers.has_value(), Repeats::kLayer,
                  "--recompute-num-layers");
  if (space.recompute_method.has_value() && !space.recompute_num_layers.has_value()) {
    throw Error("--recompute-method: expected --recompute-num-layers too");
  }
  if (space.offload_num_layers.has_value() && !offloads_activations(space)) {
    throw Error("--offload-num-layers: expected activations among --offload");
  }
}

}  // namespace

void add_search_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  for_each_flag([&](const auto& field) {
    std::string help(field.traits.help);
    FlagValue value = pin_value(field.pin);
    if (field.key == "schedule") {
      value.choices.emplace_back("all");
      help = "all, or some of " + synchronous_schedules() + "; " + help;
    }
    option(flag_of(field.key).c_str(), text_value(value.name, value.choices), help.c_str());
    if (field.key == "schedule") {
      option(
          "allow-stale-weights",
          "consider pipedream and pipedream-2bw, too: they train with gradients of older weights, "
          "as another optimizer would");
    }
  });
}

po::typed_value<std::string>* config_value() {
  std::vector<ValueKey> keys;
  for_each_config_field([&](const auto& field) {
    keys.push_back({std::string(field.short_key()), pin_value(field.pin).choices});
  });
  return keyed_value("CONFIG", std::move(keys));
}

SearchSpace read_pins(const CommandLine& line) {
  SearchSpace space;
  for_each_flag([&](const auto& field) {
    const std::string flag = flag_of(field.key);
    const auto text = line.text(flag);
    if (text.has_value() && field.key != "schedule") {
      parse_pin(*text, field.traits, "--" + flag, space.*field.pin);
    }
  });
  space.schedules = read_schedules(line);
  space.ignores_stack_support = line.has("schedule");
  space.allow_stale_weights = line.has("allow-stale-weights");
  check_companions(space);
  return space;
}

}  // namespace ptdp
