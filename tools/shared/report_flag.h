// The flag --report: a page of an answer's pictures beside the answer.
#pragma once

#include <functional>
#include <string>

#include "planner/report/report.h"
#include "tools/shared/command_line.h"

namespace ptdp {

inline constexpr const char* kReportHelp =
    "write the answer as a page of pictures to this file, for a browser; needs no network";

/// Writes the report that `make` returns to the file of --report, all of it or nothing. Does
/// nothing without the flag. The report gets the command as it was typed, but for --report, so
/// that a page does not depend on its name. Throws Error(kOutputFailed).
void write_report(const CommandLine& line, const std::string& program,
                  const std::function<Report()>& make);

}  // namespace ptdp
