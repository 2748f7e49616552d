#include "cost_model/inputs/config_fields.h"

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

/// A stand-in that converts to any type, for counting the members of a struct.
struct AnyValue {
  template <class Value>
  constexpr operator Value() const {  // NOLINT(google-explicit-constructor)
    return Value();
  }
};

/// Returns the number of members that an aggregate has, by trying more and more initializers.
template <class Struct, class... Values>
constexpr std::size_t count_members(Values... values) {
  if constexpr (requires { Struct{values..., AnyValue{}}; }) {
    return count_members<Struct>(values..., AnyValue{});
  } else {
    return sizeof...(values);
  }
}
static_assert(count_members<ParallelConfig>() ==
                  std::tuple_size_v<std::remove_const_t<decltype(kConfigFields)>>,
              "every field of a configuration has its row");

}  // namespace

bool offloads_activations(const SearchSpace& space) {
  return std::any_of(space.offload.begin(), space.offload.end(),
                     [](Offload offload) { return offloads_activations(offload); });
}

std::string spelled(int value) {
  return std::to_string(value);
}

std::string spelled(bool value) {
  return value ? "on" : "off";
}

std::string spelled(RecomputeModules value) {
  return to_string(value);
}

std::string spelled(const std::vector<int>& value) {
  std::string text;
  for (std::size_t begin = 0; begin < value.size();) {
    std::size_t end = begin + 1;
    while (end < value.size() && value[end] == value[begin]) {
      ++end;
    }
    text += text.empty() ? "" : ",";
    text += end - begin > 1 ? std::to_string(end - begin) + 'x' : "";
    text += std::to_string(value[begin]);
    begin = end;
  }
  return text;
}

std::string spelled(const std::optional<int>& value) {
  return value.has_value() ? spelled(*value) : std::string();
}

void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               IntegerRanges& pin) {
  pin = IntegerRanges::parse(text, traits.low, traits.high, place);
}

void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               std::optional<int>& pin) {
  pin = static_cast<int>(parse_count(text, traits.low, traits.high, place));
}

void parse_pin(std::string_view text, const FieldTraits& /*traits*/, const std::string& place,
               std::optional<bool>& pin) {
  pin = choose<bool>(text, kOffAndOn, place);
}

void parse_pin(std::string_view text, const FieldTraits& /*traits*/, const std::string& place,
               std::optional<RecomputeModules>& pin) {
  pin = parse_recompute_modules(text, place);
}

void parse_pin(std::string_view text, const FieldTraits& traits, const std::string& place,
               std::vector<int>& pin) {
  constexpr std::int64_t most_stages = 2 * std::int64_t{kMostModelLayers};
  pin.clear();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::size_t times = item.find('x');
    const std::int64_t count = times == std::string_view::npos
                                   ? 1
                                   : parse_count(item.substr(0, times), 1, kMostModelLayers, place);
    const std::string_view of_one = times == std::string_view::npos ? item : item.substr(times + 1);
    if (count > most_stages - std::ssize(pin)) {
      throw Error(place + ": expected at most " + std::to_string(most_stages) + " virtual stages");
    }
    pin.insert(pin.end(), static_cast<std::size_t>(count),
               static_cast<int>(parse_count(of_one, traits.low, kMostModelLayers, place)));
    begin = end + 1;
  }
}

}  // namespace ptdp
