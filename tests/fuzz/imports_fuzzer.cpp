// A file of another framework, of any bytes and under each kind of name, is read or refused with
// its name in front, the same way both times.
#include <string>

#include "planner/import/launched_program.h"
#include "planner/import/reader.h"
#include "planner/import/shell/shell_script.h"
#include "tests/fuzz/fuzzing.h"

namespace ptdp {
namespace {

std::string written(const std::vector<std::string>& words) {
  std::string text = std::to_string(words.size());
  for (const std::string& word : words) {
    text += ' ' + std::to_string(word.size()) + ':' + word;
  }
  return text;
}

/// Returns what a script comes to, in full.
std::string followed(std::string_view text) {
  const ShellScript script = follow_script(text, "x.sh");
  std::string result = written(script.documents) + written(script.notes);
  for (const ShellCommand& command : script.commands) {
    require(command.line > 0);
    require(!command.words.empty());
    result += std::to_string(command.line) + written(command.words);
  }
  for (const auto& [name, values] : script.variables.values) {
    result += name + '=' + written(values);
  }
  return result;
}

std::string found(std::string_view text) {
  const LaunchedProgram program =
      find_program(text, {"--num-layers", "--hidden-size", "--seq-length", "--bf16"}, "x.sh");
  require(program.gpus >= 0);
  return std::to_string(program.gpus) + (program.is_dump ? " dump " : " ") +
         written(program.words) + written(program.notes);
}

std::string imported(std::string_view text, const std::string& place) {
  const ImportedRun run = read_run(text, place, 64);
  require(run.gpus == 64);
  require(run.model.has_value() == run.missing.empty());
  require(!run.framework.empty());
  return run.framework + ' ' + run.missing + ' ' + run.precision + ' ' +
         std::to_string(run.global_batch_size) + written(run.reading.notes) +
         written(run.reading.unknown_flags);
}

/// Returns what a reader makes of a text, or its message, which names the place first.
template <class Read>
std::string outcome(const std::string& place, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    require(error.status() == ExitStatus::kBadInput);
    require(std::string_view(error.what()).starts_with(place + ":"));
    return error.what();
  }
}

void require_same_twice(std::string_view text) {
  const auto follow = [&] { return outcome("x.sh", [&] { return followed(text); }); };
  require(follow() == follow());
  const auto find = [&] { return outcome("x.sh", [&] { return found(text); }); };
  require(find() == find());
  for (const std::string place : {"x.sh", "x.yaml", "x.toml", "x.json"}) {
    const auto import = [&] { return outcome(place, [&] { return imported(text, place); }); };
    require(import() == import());
  }
}

}  // namespace
}  // namespace ptdp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) { ptdp::require_same_twice(text); });
}
