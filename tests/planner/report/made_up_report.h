// A report with every view, made up, for tests of the page.
#pragma once

#include <string>

#include "planner/report/report.h"

namespace ptdp {

/// A name that would run a script, were it not escaped, and breaks a line of JavaScript.
inline const std::string kHostileName =
    "</script><img src=x onerror=alert(1)><!-- & \"quoted\" 'single' \xE2\x80\xA8\xE2\x80\xA9 "
    "`${1}`";

/// Returns a report with every view. Its first timeline is a step of 1F1B with so many ranks and
/// microbatches.
[[nodiscard]] Report made_up_report(int ranks = 4, int microbatches = 8);

}  // namespace ptdp
