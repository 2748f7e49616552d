#include "planner/import/launched_program.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "cost_model/error.h"
#include "planner/import/flag_list.h"
#include "planner/import/shell/shell_script.h"

namespace ptdp {
namespace {

using NumbersByName = std::map<std::string, std::int64_t, std::less<>>;

constexpr int kFewestDumped = 10;  // a printed list has hundreds

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines.push_back(line);
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && number > 0;
  return is_whole ? std::optional(number) : std::nullopt;
}

/// Returns the words of "['core_attn', 'mlp']", or the value itself.
std::vector<std::string> listed(std::string_view value) {
  if (!value.starts_with('[') || !value.ends_with(']')) {
    return {std::string(value)};
  }
  std::vector<std::string> words(1);
  for (const char c : value.substr(1, value.size() - 2)) {
    if (c == ',') {
      words.emplace_back();
    } else if (c != '\'' && c != '"' && c != ' ') {
      words.back() += c;
    }
  }
  return words;
}

/// Returns the flags of a list that Megatron-LM prints, "  name ..... value"; nullopt if the text
/// is none. Values that flags switch off (add_bias_linear False) become those flags.
std::optional<LaunchedProgram> dumped(std::string_view text) {
  const std::map<std::string, std::string, std::less<>> switched_off = {
      {"add_bias_linear", "--disable-bias-linear"},
      {"add_position_embedding", "--no-position-embedding"},
      {"overlap_p2p_comm", "--no-overlap-p2p-communication"}};
  LaunchedProgram result{.is_dump = true};
  int count = 0;
  bool has_chunks = false;
  for (const std::string_view line : lines_of(text)) {
    const std::size_t dots = line.find(" ...");
    if (dots == std::string_view::npos) {
      continue;
    }
    std::string_view name = trimmed(line.substr(0, dots));
    name = name.substr(name.find_last_of(" :>") + 1);
    const std::size_t behind = line.find_first_not_of('.', dots + 1);
    if (name.empty() || behind == std::string_view::npos || line[behind] != ' ') {
      continue;
    }
    const std::string_view value = trimmed(line.substr(behind));
    ++count;
    std::string flag = "--" + std::string(name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (name == "world_size") {
      result.gpus = whole(value).value_or(0);
    } else if (name == "virtual_pipeline_model_parallel_size" && value != "None" && !has_chunks) {
      result.words.insert(result.words.end(),
                          {"--num-virtual-stages-per-pipeline-rank", std::string(value)});
    } else if (value == "False") {
      if (const auto off = switched_off.find(name); off != switched_off.end()) {
        result.words.push_back(off->second);
      }
    } else if (value == "True") {
      result.words.push_back(flag);
    } else if (value != "None") {
      has_chunks = has_chunks || name == "num_virtual_stages_per_pipeline_rank";
      result.words.push_back(flag);
      for (const std::string& word : listed(value)) {
        result.words.push_back(word);
      }
    }
  }
  return count >= kFewestDumped ? std::optional(result) : std::nullopt;
}

/// Returns whether a word is a known flag or key, with or without its value: "--tp", "model.tp=2".
/// Hydra takes "+" before a key.
bool is_known_word(const std::vector<std::string_view>& known, std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('+'), word.size()));
  return std::ranges::find(known, word.substr(0, word.find('='))) != known.end();
}

/// Returns the text as one command line, if it is a list of arguments alone.
std::optional<std::string> as_arguments(std::string_view text,
                                        const std::vector<std::string_view>& known) {
  std::string command = "program.py";
  bool is_first = true;
  for (const std::string_view line : lines_of(text)) {
    std::string_view words = trimmed(line);
    if (words.empty() || words.starts_with('#')) {
      continue;
    }
    // No command's name begins with a dash.
    if (is_first && !words.starts_with('-') &&
        !is_known_word(known, words.substr(0, words.find_first_of(" \t")))) {
      return std::nullopt;
    }
    is_first = false;
    if (words.ends_with('\\')) {
      words.remove_suffix(1);
    }
    command += " " + std::string(words);
  }
  return is_first ? std::nullopt : std::optional(command);
}

/// Returns the settings of #SBATCH lines.
NumbersByName batch_settings(std::string_view text) {
  NumbersByName settings;
  for (const std::string_view line : lines_of(text)) {
    if (!line.starts_with("#SBATCH")) {
      continue;
    }
    std::string_view rest = trimmed(line.substr(7));
    rest = trimmed(rest.substr(0, rest.find(" #")));
    const std::size_t end = rest.find_first_of("= ");
    std::string name(rest.substr(0, end));
    std::string_view value =
        end == std::string_view::npos ? std::string_view() : trimmed(rest.substr(end + 1));
    name = name == "-N" ? "--nodes" : name == "-n" ? "--ntasks" : name;
    if (name == "--gres" || name == "--gpus-per-node" || name == "-G" || name == "--gpus") {
      value = value.substr(value.rfind(':') + 1);  // gpu:a100:8
      name = name == "--gres" ? "--gpus-per-node" : name == "-G" ? "--gpus" : name;
    }
    if (const auto number = whole(value)) {
      settings[name] = *number;
    }
  }
  return settings;
}

/// Returns the settings of a launcher's words, with names as torchrun and srun spell them.
NumbersByName launcher_settings(const std::vector<std::string>& words) {
  const std::map<std::string, std::string, std::less<>> names = {
      {"--nnodes", "nnodes"},
      {"--num_nodes", "nnodes"},
      {"--num-nodes", "nnodes"},
      {"--nproc-per-node", "per node"},
      {"--nproc_per_node", "per node"},
      {"--num_gpus", "per node"},
      {"--num-gpus", "per node"},
      {"--nodes", "nodes"},
      {"-N", "nodes"},
      {"--ntasks-per-node", "tasks per node"},
      {"--ntasks", "tasks"},
      {"-n", "tasks"},
      {"-np", "tasks"}};
  NumbersByName settings;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const auto name = names.find(std::string_view(words[i]).substr(0, equals));
    if (name == names.end()) {
      continue;
    }
    const std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : i + 1 < words.size()      ? words[i + 1]
                                                          : "";
    const auto number = whole(value);
    if (number) {
      settings[name->second] = *number;
    }
    if (name->second == "per node") {
      settings["per node is not known"] = number ? 0 : 1;
    }
  }
  return settings;
}

std::int64_t setting(const NumbersByName& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found == settings.end() || found->second > (std::int64_t{1} << 31) ? 0 : found->second;
}

/// Returns the variables that Slurm sets for a script, as its #SBATCH lines say.
ShellVariables variables_of_slurm(std::string_view text) {
  const NumbersByName batch = batch_settings(text);
  ShellVariables variables;
  const auto set = [&](std::int64_t value, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (value > 0) {
        variables.values[name] = {std::to_string(value)};
      }
    }
  };
  const std::int64_t nodes = setting(batch, "--nodes");
  const std::int64_t tasks_per_node = setting(batch, "--ntasks-per-node");
  const std::int64_t tasks = setting(batch, "--ntasks");
  set(nodes, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  set(setting(batch, "--gpus-per-node"), {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"});
  set(tasks_per_node, {"SLURM_NTASKS_PER_NODE"});
  set(tasks > 0 ? tasks : nodes * tasks_per_node, {"SLURM_NTASKS", "SLURM_NPROCS"});
  set(setting(batch, "--cpus-per-task"), {"SLURM_CPUS_PER_TASK"});
  return variables;
}

/// Returns the number of processes where a launcher starts one for each GPU of a node, `gpu`; 0 if
/// the script says not how many nodes or GPUs those are.
std::int64_t gpus_of_nodes(const NumbersByName& started, const NumbersByName& batch) {
  for (const std::int64_t nodes :
       {setting(started, "nnodes"), setting(started, "nodes"), setting(batch, "--nodes")}) {
    if (nodes > 0) {
      return nodes * setting(batch, "--gpus-per-node");
    }
  }
  return 0;
}

/// Returns the WORLD_SIZE of a command, or of the script; 0 if it is not known.
std::int64_t world_size(const ShellCommand& command, const ShellVariables& variables) {
  if (const auto own = command.environment.find("WORLD_SIZE"); own != command.environment.end()) {
    return whole(own->second).value_or(0);
  }
  const auto size = variables.values.find("WORLD_SIZE");
  return size == variables.values.end() || size->second.empty()
             ? 0
             : whole(size->second.front()).value_or(0);
}

/// Returns the number of processes that the launcher before the arguments at `begin` starts; 0 if
/// neither launcher nor script says it.
std::int64_t count_gpus(const ShellCommand& command, std::ptrdiff_t begin, std::string_view text,
                        const ShellVariables& variables) {
  const NumbersByName started =
      launcher_settings({command.words.begin(), command.words.begin() + begin});
  const NumbersByName batch = batch_settings(text);
  const std::int64_t batch_nodes = setting(batch, "--nodes");
  if (setting(started, "per node is not known") > 0) {
    return gpus_of_nodes(started, batch);
  }
  if (const std::int64_t per_node = setting(started, "per node")) {
    const std::int64_t nodes = setting(started, "nnodes");
    return per_node * std::max<std::int64_t>(nodes > 0 ? nodes : batch_nodes, 1);
  }
  if (const std::int64_t tasks = setting(started, "tasks"); tasks > 0) {
    return tasks;
  }
  if (const std::int64_t per_node = setting(started, "tasks per node");
      per_node > 1 && setting(started, "nodes") > 0) {
    return per_node * setting(started, "nodes");
  }
  if (batch_nodes > 0 && setting(batch, "--gpus-per-node") > 0) {
    return batch_nodes * setting(batch, "--gpus-per-node");
  }
  if (setting(batch, "--gpus") > 0) {
    return setting(batch, "--gpus");
  }
  if (batch_nodes > 0 && setting(batch, "--ntasks-per-node") > 1) {
    return batch_nodes * setting(batch, "--ntasks-per-node");
  }
  return world_size(command, variables);
}

/// Returns where the program's own arguments begin: behind the last "NAME.py", or "-m NAME", before
/// the first known flag.
std::size_t begin_of_arguments(const std::vector<std::string>& words, std::size_t first_known) {
  for (std::size_t i = first_known; i > 0; --i) {
    if (words[i - 1].ends_with(".py") || (i > 1 && words[i - 2] == "-m")) {
      return i;
    }
  }
  return first_known;
}

/// Returns the file's name without folders of the word before `begin`, if that starts a program.
std::string name_of_program(const std::vector<std::string>& words, std::ptrdiff_t begin) {
  if (begin == 0) {
    return "";
  }
  const std::string& word = words[static_cast<std::size_t>(begin) - 1];
  const std::size_t folder = word.rfind('/');
  return word.ends_with(".py") ? word.substr(folder == std::string::npos ? 0 : folder + 1) : "";
}

/// The line of the command that is read, and what a script would start besides it.
struct Choice {
  int line = 0;
  int other_line = 0;     ///< Of another command; 0: none.
  std::string turn = {};  ///< Which of several turns of the line is read; empty: it has one.

  /// Takes note of a command that differs from the one that is read, and may replace it.
  void add_other(int command_line, bool replaces) {
    if (command_line == line) {
      turn = replaces ? "a later turn, with more known arguments," : "the first turn";
      return;
    }
    other_line = replaces ? line : command_line;
    turn = replaces ? "" : turn;
  }

  void add_notes(std::vector<std::string>& notes) const {
    const std::string read = "line " + std::to_string(line);
    if (other_line > 0) {
      notes.push_back("line " + std::to_string(other_line) + " starts something else; " + read +
                      " is read");
    }
    if (!turn.empty()) {
      notes.push_back(read + " runs in several turns with different arguments; " + turn +
                      " is read");
    }
  }
};

class Finder {
 public:
  Finder(const std::vector<std::string_view>& known, std::string_view text, std::size_t fewest)
      : known_(known), text_(text), fewest_(fewest) {}

  std::optional<LaunchedProgram> find(const ShellScript& script) {
    std::size_t most = fewest_ - 1;
    std::optional<LaunchedProgram> best;
    Choice choice;
    for (const ShellCommand& command : script.commands) {
      const KnownWords found = known_words(command);
      if (found.count < fewest_) {
        continue;
      }
      const auto begin =
          static_cast<std::ptrdiff_t>(begin_of_arguments(command.words, found.first));
      std::vector<std::string> words(command.words.begin() + begin, command.words.end());
      if (best && words != best->words) {
        choice.add_other(command.line, found.count > most);
      }
      if (found.count > most) {
        most = found.count;
        choice.line = command.line;
        best = LaunchedProgram{.program = name_of_program(command.words, begin),
                               .words = std::move(words),
                               .gpus = count_gpus(command, begin, text_, script.variables)};
      }
    }
    if (best) {
      best->notes = script.notes;
      choice.add_notes(best->notes);
    }
    return best;
  }

  /// Returns the arguments that variables hold, for a script that another one sources.
  std::optional<LaunchedProgram> find_in_variables(const ShellScript& script) {
    ShellCommand command;
    std::string names;
    for (const auto& [name, values] : script.variables.values) {
      std::vector<std::string> words;
      for (const std::string& value : values) {
        std::istringstream blanks(value);
        words.insert(words.end(), std::istream_iterator<std::string>(blanks), {});
      }
      if (!words.empty() && is_flag(words.front()) &&
          std::ranges::any_of(words, [&](const std::string& word) { return is_known(word); })) {
        command.words.insert(command.words.end(), words.begin(), words.end());
        names += (names.empty() ? "" : ", ") + name;
      }
    }
    ShellScript alone{.notes = script.notes, .variables = script.variables};
    alone.commands.push_back(std::move(command));
    auto program = find(alone);
    if (program) {
      program->notes.push_back("nothing is started here; read are the arguments in " + names);
    }
    return program;
  }

 private:
  /// Known flags of a command: how many, and the place of the first.
  struct KnownWords {
    std::size_t count = 0;
    std::size_t first = 0;
  };

  [[nodiscard]] KnownWords known_words(const ShellCommand& command) const {
    KnownWords found{.first = command.words.size()};
    for (std::size_t i = command.words.size(); i > 0; --i) {
      if (is_known(command.words[i - 1])) {
        ++found.count;
        found.first = i - 1;
      }
    }
    return found;
  }

  [[nodiscard]] bool is_known(const std::string& word) const { return is_known_word(known_, word); }

  const std::vector<std::string_view>& known_;
  std::string_view text_;
  std::size_t fewest_;
};

}  // namespace

bool lists_arguments(std::string_view text) {
  const std::optional<LaunchedProgram> program = dumped(text);
  const auto has = [&](std::string_view flag) {
    return std::ranges::find(program->words, flag) != program->words.end();
  };
  return program && has("--num-layers") &&
         (has("--tensor-model-parallel-size") || has("--model-parallel-size"));
}

LaunchedProgram find_program(std::string_view text, const std::vector<std::string_view>& known,
                             const std::string& place, std::size_t fewest) {
  if (auto program = dumped(text)) {
    return *program;
  }
  Finder finder(known, text, fewest);
  if (const auto command = as_arguments(text, known)) {
    if (auto program = finder.find(follow_script(*command, place))) {
      return *program;
    }
  }
  ShellLimits own_limits(place);
  const ShellScript script = follow_script(text, own_limits, variables_of_slurm(text));
  if (auto program = finder.find(script)) {
    return *program;
  }
  // A script that writes another one, or words that are a command of their own: ssh HOST "...".
  ShellLimits limits(place + ": a script within");
  std::vector<std::string> inner = script.documents;
  for (const ShellCommand& command : script.commands) {
    for (const std::string& word : command.words) {
      if (word.find(" --") != std::string::npos) {
        inner.push_back(word);
      }
    }
  }
  for (const std::string& within : inner) {
    if (auto program = finder.find(follow_script(within, limits, script.variables))) {
      return *program;
    }
  }
  if (auto program = finder.find_in_variables(script)) {
    return *program;
  }
  throw Error(place + ": no command with arguments of a framework that ptdp knows was found");
}

}  // namespace ptdp
