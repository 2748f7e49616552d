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

void make_local(const std::string& name, ShellState& state) {
  if (state.locals.empty()) {
    return;
  }
  const auto& values = state.script.variables.values;
  const auto found = values.find(name);
  const bool is_set = found != values.end();
  state.limits.spend(is_set ? size_of_values(found->second) : 1);
  state.locals.back().try_emplace(name, is_set ? std::optional(found->second) : std::nullopt);
}

void end_locals(ShellState& state) {
  for (auto& [name, before] : state.locals.back()) {
    if (before) {
      state.script.variables.values[name] = *std::move(before);
    } else {
      state.script.variables.values.erase(name);
    }
  }
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
