// A list of what a framework cannot run, while an exporter makes it.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "planner/export/exporter.h"

namespace ptdp {

/// Collects the refusals of one plan, in the order in which they are added.
class Refusals {
 public:
  /// Adds a refusal of `found`, if `is_refused`. The arguments are those of ExportRefusal.
  template <class Value>
  void add_if(bool is_refused, std::string field, const Value& found, std::string instead) {
    if (is_refused) {
      list_.push_back({std::move(field), text_of(found), std::move(instead)});
    }
  }
  /// Returns the list, and leaves none here.
  [[nodiscard]] std::vector<ExportRefusal> take() { return std::move(list_); }

 private:
  template <class Value>
  static std::string text_of(const Value& value) {
    if constexpr (std::is_integral_v<Value>) {
      return std::to_string(value);
    } else {
      return std::string(value);
    }
  }

  std::vector<ExportRefusal> list_;
};

}  // namespace ptdp
