#include "planner/import/shell/shell_state.h"

#include <algorithm>

#include "planner/import/shell/unknown_value.h"

namespace ptdp {

void add_note(ShellScript& script, int line, const std::string& text, ShellLimits& limits) {
  limits.spend(script.notes.size() + text.size());
  const std::string note = "line " + std::to_string(line) + ": " + text;
  if (std::ranges::find(script.notes, note) == script.notes.end()) {
    script.notes.push_back(note);
  }
}

void note_condition(ShellState& state, int line) {
  add_note(state.script, line, "a condition needs a command or a file; taken as false",
           state.limits);
}

void keep_value(const std::string& name, ValuesBefore& before, ShellState& state) {
  const auto& values = state.script.variables.values;
  const auto found = values.find(name);
  const bool is_set = found != values.end();
  state.limits.spend(is_set ? size_of_values(found->second) : 1);
  before.try_emplace(name, is_set ? std::optional(found->second) : std::nullopt);
}

void put_back(ValuesBefore& before, ShellState& state) {
  auto& values = state.script.variables.values;
  for (auto& [name, value] : before) {
    const auto found = values.find(name);
    auto now = found == values.end() ? std::nullopt : std::optional(std::move(found->second));
    if (value) {
      values[name] = *std::move(value);
    } else if (now) {
      values.erase(found);
    }
    value = std::move(now);
  }
}

void make_local(const std::string& name, ShellState& state) {
  if (state.locals.empty()) {
    return;
  }
  keep_value(name, state.locals.back(), state);
}

void end_locals(ShellState& state) {
  put_back(state.locals.back(), state);
  state.locals.pop_back();
}

bool is_unset_alone(const std::string& word, int line, ShellState& state) {
  if (word.empty() || !without_unset(word).empty()) {
    return false;
  }
  const std::string name = unknown_part(word).value_or("$").substr(1);
  add_note(state.script, line, name + " is not set; taken as empty", state.limits);
  return true;
}

}  // namespace ptdp
