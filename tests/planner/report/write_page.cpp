// Writes pages that a browser tests: the made-up report with its document, and small answers.
// write_page PAGE.html REPORT.json [DIRECTORY of answers]
#include <filesystem>
#include <fstream>

#include "planner/report/answers/alternatives_page.h"
#include "planner/report/answers/layer_plans_page.h"
#include "planner/report/answers/log_page.h"
#include "tests/planner/report/answers/answers.h"

namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    return 2;
  }
  const ptdp::Report report = ptdp::made_up_report(64, 512);  // 65,536 actions
  write(argv[1], to_html(report));
  write(argv[2], to_json(report));
  if (argc == 4) {
    const std::filesystem::path answers(argv[3]);
    const ptdp::Plan plan = ptdp::plan_of_39b();
    write(answers / "stacks.html", to_html(stacks_report(ptdp::small_stacks(), {})));
    write(answers / "strategies.html", to_html(strategies_report(ptdp::small_strategies(), {})));
    write(answers / "log.html", to_html(log_page(ptdp::small_log(plan))));
    write(answers / "log-alone.html", to_html(log_page(ptdp::small_log(std::nullopt))));
    write(answers / "layers.html", to_html(layer_plans_page(ptdp::small_layers(), {})));
  }
}
