#include "planner/import/shell/shell_script.h"

#include "planner/import/shell/shell_flow.h"

namespace ptdp {

ShellScript follow_script(std::string_view text, ShellLimits& limits, ShellVariables variables) {
  ShellScript script{.variables = std::move(variables)};
  follow_commands(text, script, limits);
  return script;
}

ShellScript follow_script(std::string_view text, const std::string& place) {
  ShellLimits limits(place);
  return follow_script(text, limits);
}

}  // namespace ptdp
