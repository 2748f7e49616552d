// A list of what a framework cannot run, while an exporter makes it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/export/exporter.h"
#include "planner/export/plain_text.h"

namespace ptdp {

/// Collects the refusals of one plan, in the order in which they are added.
class Refusals {
 public:
  /// Adds a refusal of `found`, if `is_refused`. The arguments are those of ExportRefusal.
  template <class Value>
  void add_if(bool is_refused, std::string field, const Value& found, std::string instead) {
    if (is_refused) {
      list_.push_back({std::move(field), plain_text(found), std::move(instead)});
    }
  }
  /// Adds all of `others`, in their order.
  void add(const std::vector<ExportRefusal>& others) {
    list_.insert(list_.end(), others.begin(), others.end());
  }
  [[nodiscard]] bool is_empty() const { return list_.empty(); }
  /// Returns the list, and leaves none here.
  [[nodiscard]] std::vector<ExportRefusal> take() { return std::move(list_); }

 private:
  std::vector<ExportRefusal> list_;
};

}  // namespace ptdp
