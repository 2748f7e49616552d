#include "planner/import/shell/shell_limits.h"

#include "cost_model/error.h"

namespace ptdp {

void ShellLimits::refuse(const std::string& what) const {
  throw Error(place_ + ": line " + std::to_string(line_) + ": " + what);
}

void ShellLimits::refuse_work() const {
  refuse("following the script has taken 64 Mi steps; expected a launch script, which takes fewer");
}

}  // namespace ptdp
