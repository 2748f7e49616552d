#include "tools/shared/table_command.h"

#include "tools/shared/completion.h"

namespace ptdp {

int run_table_command(const std::string& program, const std::function<CommandTable()>& make_table,
                      std::span<const char* const> arguments,
                      const std::function<int(const CommandLine&)>& work) {
  return run_command(program, [&] {
    const int argc = static_cast<int>(arguments.size());
    const CommandTable table = make_table();
    if (const auto answer = completion_answer(argc, arguments.data(), table)) {
      write_standard_output(*answer);
      return 0;
    }
    const CommandLine line(argc, arguments.data(), table.flags());
    if (const auto answer = standard_answer(line, table)) {
      print(*answer);
      return 0;
    }
    return work(line);
  });
}

}  // namespace ptdp
