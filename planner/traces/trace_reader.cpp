#include "planner/traces/trace_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "planner/traces/trace_events.h"
#include "planner/traces/trace_text.h"

namespace ptdp {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepestTrace = 64;
constexpr std::size_t kLongestShapes = 4096;
constexpr std::size_t kMostKeysNamed = 3;

/// A number or a text of the trace.
struct TraceValue {
  std::string_view text;  ///< As written, of a text or a broken number.
  std::optional<std::int64_t> integer = {};

  [[nodiscard]] std::optional<std::int64_t> as_integer() const {
    if (integer) {
      return integer;
    }
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
  }
  [[nodiscard]] std::optional<Nanoseconds> as_time() const {
    return integer ? nanoseconds_of(std::to_string(*integer)) : nanoseconds_of(text);
  }
  [[nodiscard]] std::string as_text() const {
    return integer ? std::to_string(*integer) : std::string(text);
  }
};

using TakeValue = void (*)(TraceEvent&, const TraceValue&);

struct EventKey {
  std::string_view key;
  TakeValue take;
};

std::int64_t at_least_0(const TraceValue& value) {
  return std::max<std::int64_t>(value.as_integer().value_or(0), 0);
}

// Keys of an event, and of its "args"; libkineto/src/output_json.cpp writes them.
constexpr auto kEventKeys = std::to_array<EventKey>({
    {"ph", [](TraceEvent& event, const TraceValue& value) { event.phase = value.text; }},
    {"cat", [](TraceEvent& event, const TraceValue& value) { event.category = value.text; }},
    {"name", [](TraceEvent& event, const TraceValue& value) { event.name = value.text; }},
    {"ts", [](TraceEvent& event, const TraceValue& value) { event.start = value.as_time(); }},
    {"dur", [](TraceEvent& event, const TraceValue& value) { event.length = value.as_time(); }},
});
constexpr TakeValue kTakeOperator = [](TraceEvent& event, const TraceValue& value) {
  event.op = value.as_integer();
};
constexpr auto kArgumentKeys = std::to_array<EventKey>({
    {"External id", kTakeOperator},
    {"external id", kTakeOperator},
    {"device",
     [](TraceEvent& event, const TraceValue& value) { event.device = value.as_integer(); }},
    {"stream",
     [](TraceEvent& event, const TraceValue& value) { event.stream = value.as_integer(); }},
    {"correlation",
     [](TraceEvent& event, const TraceValue& value) { event.correlation = value.as_integer(); }},
    {"Collective name",
     [](TraceEvent& event, const TraceValue& value) { event.call.collective = value.text; }},
    {"In msg nelems",
     [](TraceEvent& event, const TraceValue& value) { event.call.sent = at_least_0(value); }},
    {"Out msg nelems",
     [](TraceEvent& event, const TraceValue& value) { event.call.gotten = at_least_0(value); }},
    {"dtype", [](TraceEvent& event, const TraceValue& value) { event.call.dtype = value.text; }},
    {"Group size",
     [](TraceEvent& event, const TraceValue& value) { event.call.size = at_least_0(value); }},
    {"Process Group Name",
     [](TraceEvent& event, const TraceValue& value) { event.group_name = value.as_text(); }},
    {"Process Group Description",
     [](TraceEvent& event, const TraceValue& value) { event.call.group = value.text; }},
});

/// Takes the parser's events, and gives those of the trace to a keeper.
class TraceParser : public nlohmann::json_sax<json> {
 public:
  TraceParser(const std::string& place, const TraceBuffer& text) : place_(place), text_(text) {}

  /// Returns what was read. Throws Error for JSON that is no trace.
  [[nodiscard]] Trace finish() {
    if (!has_events_) {
      std::string found;
      for (const std::string& key : first_keys_) {
        found += (found.empty() ? "" : ", ") + in_quotes(key);
      }
      throw Error(place_ + ": expected a trace with the key \"traceEvents\", found " +
                  (found.empty() ? "no keys" : "the keys " + found));
    }
    return keeper_.finish(header_, place_);
  }

  bool null() override {
    add_to_shapes("null");
    return true;
  }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(std::int64_t value) override { return take({.text = {}, .integer = value}); }
  bool number_unsigned(std::uint64_t value) override {
    return take({.text = {}, .integer = static_cast<std::int64_t>(std::min(value, kLargest))});
  }
  bool number_float(double /*value*/, const std::string& text) override {
    return take({.text = text});
  }
  bool string(std::string& value) override { return take({.text = value}); }
  bool binary(json::binary_t& /*value*/) override { return true; }

  bool start_array(std::size_t /*size*/) override {
    enter();
    // A trace may be the array of its events alone.
    if (path_.size() == 1 || (path_.size() == 2 && path_[0] == "traceEvents")) {
      events_depth_ = path_.size();
      has_events_ = true;
    }
    in_shapes_ = in_shapes_ || (is_in_arguments(3) && is_key_of_shapes(path_[events_depth_ + 1]));
    add_to_shapes("[");
    return true;
  }
  bool end_array() override {
    add_to_shapes("]");
    in_shapes_ = in_shapes_ && !is_in_arguments(3);
    events_depth_ = path_.size() == events_depth_ ? 0 : events_depth_;
    path_.pop_back();
    return true;
  }
  bool start_object(std::size_t /*size*/) override {
    enter();
    if (is_in_event()) {
      event_ = TraceEvent();
    }
    return true;
  }
  bool end_object() override {
    if (is_in_event()) {
      keeper_.add(event_);
    } else if (is_in_device()) {
      header_.device_names[device_id_] = device_name_;
    }
    path_.pop_back();
    return true;
  }
  bool key(std::string& key) override {
    path_.back() = key;
    if (path_.size() == 1 && first_keys_.size() < kMostKeysNamed) {
      first_keys_.push_back(key);
    }
    return true;
  }
  bool parse_error(std::size_t at, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    if (text_.is_blank()) {
      throw Error(place_ + ": empty; expected a trace");
    }
    if (dynamic_cast<const json::out_of_range*>(&error) != nullptr) {
      throw Error(place_ + ": expected a trace, found a number that is out of range");
    }
    if (text_.is_used_up()) {
      throw Error(place_ + ": expected a whole trace, found one that is cut off");
    }
    throw Error(place_ + ": byte " + std::to_string(at) + ": expected a trace, found invalid JSON");
  }

 private:
  static constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

  static bool is_key_of_shapes(std::string_view key) {
    return key == "Input Dims" || key == "Input dims";
  }
  void enter() {
    path_.emplace_back();
    if (path_.size() > kDeepestTrace) {
      throw Error(place_ + ": nested deeper than " + std::to_string(kDeepestTrace) + " levels");
    }
  }
  [[nodiscard]] bool is_in_event() const {
    return events_depth_ > 0 && path_.size() == events_depth_ + 1;
  }
  /// Returns whether the parser is `below` levels below the events, within their arguments.
  [[nodiscard]] bool is_in_arguments(std::size_t below) const {
    return events_depth_ > 0 && path_.size() == events_depth_ + below &&
           path_[events_depth_] == "args";
  }
  [[nodiscard]] bool is_in_device() const {
    return path_.size() == 3 && path_[0] == "deviceProperties";
  }
  void add_to_shapes(std::string_view text) {
    std::string& shapes = event_.shapes;
    if (!in_shapes_ || shapes.size() > kLongestShapes) {
      return;
    }
    const bool is_next = !shapes.empty() && shapes.back() != '[' && text != "]";
    shapes += (is_next ? "," : "") + std::string(text);
  }
  bool take(const TraceValue& value) {
    if (in_shapes_) {
      add_to_shapes(value.as_text());
    } else if (is_in_event()) {
      take_by(kEventKeys, path_.back(), value);
    } else if (is_in_arguments(2)) {
      take_by(kArgumentKeys, path_.back(), value);
    } else if (path_.size() == 2 && path_[0] == "distributedInfo") {
      take_header(value);
    } else if (is_in_device()) {
      device_id_ = path_[2] == "id" ? value.as_integer().value_or(0) : device_id_;
      device_name_ = path_[2] == "name" ? value.as_text() : device_name_;
    }
    return true;
  }
  template <class Keys>
  void take_by(const Keys& keys, std::string_view key, const TraceValue& value) {
    const auto* const found = std::ranges::find(keys, key, &EventKey::key);
    if (found != keys.end()) {
      found->take(event_, value);
    }
  }
  void take_header(const TraceValue& value) {
    if (path_[1] == "rank") {
      header_.rank = value.as_integer();
    } else if (path_[1] == "world_size") {
      header_.world_size = value.as_integer();
    }
  }

  const std::string& place_;
  const TraceBuffer& text_;
  TraceKeeper keeper_;
  TraceHeader header_;
  TraceEvent event_;
  std::vector<std::string> path_;  ///< The key at each level; "" within an array.
  std::vector<std::string> first_keys_;
  std::size_t events_depth_ = 0;  ///< Level of the array of events; 0 outside of it.
  bool has_events_ = false;
  bool in_shapes_ = false;
  std::int64_t device_id_ = 0;
  std::string device_name_;
};

Trace parse_trace(const std::string& place, std::function<void(std::string&)> next) {
  TraceBuffer buffer(std::move(next));
  std::istream text(&buffer);
  text.exceptions(std::ios::badbit);  // errors of the file pass through
  TraceParser parser(place, buffer);
  (void)json::sax_parse(text, &parser);
  return parser.finish();
}

}  // namespace

Trace read_trace(const std::filesystem::path& path) {
  TraceFile file(path);
  return parse_trace(path.string(), [&](std::string& piece) { file.next(piece); });
}

Trace trace_of(std::string_view text, const std::string& place) {
  return parse_trace(place, [&](std::string& piece) {
    piece = text;
    text = {};
  });
}

}  // namespace ptdp
