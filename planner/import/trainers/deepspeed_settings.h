// Values of ds_config.json, of which a trainer fills in some.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "planner/import/flag_list.h"

namespace ptdp {

/// Settings in which "auto" stands for what the Hugging Face trainer fills in.
class DeepspeedSettings {
 public:
  DeepspeedSettings(DocumentSettings settings, const std::string& place)
      : flags_(std::move(settings), place) {}

  [[nodiscard]] const FlagList& flags() const { return flags_; }
  [[nodiscard]] bool is_auto(std::string_view key) const {
    const auto values = flags_.values(key);
    return values && values->size() == 1 && values->front() == "auto";
  }
  [[noreturn]] void refuse_auto(std::string_view key) const {
    flags_.refuse(key,
                  R"(expected its value, got "auto", which the Hugging Face trainer fills in)");
  }
  /// Returns a count; nullopt without the key and for "auto".
  [[nodiscard]] std::optional<int> known_count(std::string_view key) const {
    return is_auto(key) ? std::nullopt : flags_.count(key);
  }
  [[nodiscard]] std::optional<int> count(std::string_view key, int low = 1) const {
    return is_auto(key) ? refuse_auto(key), std::nullopt : flags_.count(key, low);
  }
  /// Returns a truth value; false without the key.
  [[nodiscard]] bool truth(std::string_view key) const {
    if (is_auto(key)) {
      refuse_auto(key);
    }
    return flags_.truth(key).value_or(false);
  }

 private:
  FlagList flags_;
};

/// Returns whether a key has nothing to do with time and memory: data, logs, checkpoints, learning.
[[nodiscard]] bool is_deepspeed_without_effect(std::string_view key);
/// Returns whether a key chooses buckets, buffers or formats of sums, which the stack's profile
/// says.
[[nodiscard]] bool is_deepspeed_of_the_stack(std::string_view key);

}  // namespace ptdp
