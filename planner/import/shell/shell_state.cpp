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

bool is_unset_alone(const std::string& word, int line, ShellState& state) {
  if (word.empty() || !without_unset(word).empty()) {
    return false;
  }
  const std::string name = unknown_part(word).value_or("$").substr(1);
  add_note(state.script, line, name + " is not set; taken as empty", state.limits);
  return true;
}

}  // namespace ptdp
