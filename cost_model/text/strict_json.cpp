#include "cost_model/text/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

using nlohmann::json;

constexpr int kDeepestNesting = 64;
constexpr std::size_t kMostValues = 500'000;

/// Returns where the character at `offset` stands: "line 3, column 9", both counted from 1.
std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_break = before.rfind('\n');
  const std::size_t start = line_break == std::string_view::npos ? 0 : line_break + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(before.size() - start + 1);
}

/// Returns the tail of an error: `: line 3, column 9: number 1e400 is out of range`. The library's
/// message quotes the number.
std::string number_out_of_range(std::string_view text, std::string_view message) {
  const std::size_t open = message.find('\'');
  const std::size_t close = message.rfind('\'');
  if (open == close) {
    return ": a number is out of range";
  }
  const std::string_view number = message.substr(open + 1, close - open - 1);
  return ": " + line_and_column(text, text.find(number)) + ": number " + in_quotes(number) +
         " is out of range";
}

/// Takes the parser's events and throws Error at the first fault. The library's own callback for
/// values would take quadratic time.
class ParseGuard : public nlohmann::json_sax<json> {
 public:
  ParseGuard(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  bool null() override { return count(); }
  bool boolean(bool /*value*/) override { return count(); }
  bool number_integer(std::int64_t /*value*/) override { return count(); }
  bool number_unsigned(std::uint64_t /*value*/) override { return count(); }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return count(); }
  bool string(std::string& /*value*/) override { return count(); }
  bool binary(json::binary_t& /*value*/) override { return count(); }
  bool start_array(std::size_t /*size*/) override { return enter(); }
  bool end_array() override { return leave(); }
  bool start_object(std::size_t /*size*/) override {
    objects_.emplace_back();
    return enter();
  }
  bool end_object() override {
    objects_.pop_back();
    return leave();
  }
  bool key(std::string& key) override {
    objects_.back().current = key;
    if (!objects_.back().keys.insert(key).second) {
      std::string path;
      for (const Object& object : objects_) {
        path += (path.empty() ? "" : ".") + object.current;
      }
      throw Error(place_ + ": duplicate key " + in_quotes(path));
    }
    return true;
  }
  bool parse_error(std::size_t at, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const json::out_of_range*>(&error) != nullptr) {
      throw Error(place_ + number_out_of_range(text_, error.what()));
    }
    throw Error(place_ + ": " + line_and_column(text_, at - 1) + ": not valid JSON");
  }

 private:
  bool count() {
    if (++num_values_ > kMostValues) {
      throw Error(place_ + ": more than " + std::to_string(kMostValues) + " values");
    }
    return true;
  }
  bool enter() {
    if (++depth_ > kDeepestNesting) {
      throw Error(place_ + ": nested deeper than " + std::to_string(kDeepestNesting) + " levels");
    }
    return count();
  }
  bool leave() {
    --depth_;
    return true;
  }

  /// An object that is being read: the keys it has had, and the current one.
  struct Object {
    std::set<std::string> keys = {};
    std::string current = {};
  };

  std::string_view text_;
  const std::string& place_;
  std::vector<Object> objects_;
  int depth_ = 0;
  std::size_t num_values_ = 0;
};

}  // namespace

void check_json(std::string_view text, const std::string& place) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw Error(place + ": empty; expected a JSON object");
  }
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
      text.substr(0, 4).find('\0') != std::string_view::npos) {
    throw Error(place + ": looks like UTF-16; expected UTF-8");
  }
  if (text.find('\0') != std::string_view::npos) {
    throw Error(place + ": " + line_and_column(text, text.find('\0')) +
                ": not valid JSON: a NUL character");
  }
  ParseGuard guard(text, place);
  (void)json::sax_parse(text, &guard);
}

}  // namespace ptdp
