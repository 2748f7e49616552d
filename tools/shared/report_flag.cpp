#include "tools/shared/report_flag.h"

#include "cost_model/text/as_typed.h"
#include "cost_model/text/files.h"

namespace ptdp {

void write_report(const CommandLine& line, const std::string& program,
                  const std::function<Report()>& make) {
  if (const auto path = line.text("report")) {
    Report report = make();
    report.command = as_typed(program) + " " + line.quoted_arguments_without({"report"});
    write_file_atomically(*path, to_html(report));
  }
}

}  // namespace ptdp
