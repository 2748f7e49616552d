// Writes the page of the made-up report and its document: write_page PAGE.html REPORT.json
#include <fstream>

#include "tests/planner/report/made_up_report.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  const ptdp::Report report = ptdp::made_up_report(64, 512);  // 65,536 actions
  std::ofstream(argv[1], std::ios::binary) << ptdp::to_html(report);
  std::ofstream(argv[2], std::ios::binary) << ptdp::to_json(report);
}
