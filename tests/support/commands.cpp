#include "tests/support/commands.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <regex>

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

constexpr std::size_t kLongestShown = 2000;

std::string shown(const ProgramRun& run) {
  return run.command.substr(0, kLongestShown) +
         (run.is_timed_out ? "\nstill ran at the deadline" : "") + "\nstatus " +
         std::to_string(run.status) + ", " + std::to_string(run.output.size()) +
         " bytes of output, standard error:\n" + run.errors.substr(0, kLongestShown);
}

/// Returns a part of the text that only a bug, a crash or a sanitizer prints; empty if there is
/// none.
std::string sign_of_a_bug(const std::string& text) {
  for (const char* sign : {"Sanitizer", "runtime error:", "terminate called", "#0 0x",
                           "what():", "Assertion", "Segmentation", "bug of ours"}) {
    if (text.find(sign) != std::string::npos) {
      return sign;
    }
  }
  return "";
}

bool is_one_printable_line(const std::string& text) {
  return !text.empty() && text.back() == '\n' &&
         std::none_of(text.begin(), text.end() - 1,
                      [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

}  // namespace

fs::path plan_program() {
  return PTDP_PLAN_PROGRAM;
}

fs::path validate_program() {
  return PTDP_VALIDATE_PROGRAM;
}

fs::path calibrate_program() {
  return PTDP_CALIBRATE_PROGRAM;
}

fs::path sim_program() {
  return PTDP_SIM_PROGRAM;
}

fs::path run_program_path() {
  return PTDP_RUN_PROGRAM;
}

ProgramRun run_run(const std::vector<std::string>& arguments, RunOptions options) {
  return run_program(run_program_path(), arguments, std::move(options));
}

ProgramRun run_plan(const std::vector<std::string>& arguments, RunOptions options) {
  return run_program(plan_program(), arguments, std::move(options));
}

ProgramRun run_validate(const std::vector<std::string>& arguments, RunOptions options) {
  return run_program(validate_program(), arguments, std::move(options));
}

ProgramRun run_validate_few(std::vector<std::string> arguments, RunOptions options) {
  arguments.insert(arguments.end(), {"--group", "sc21-t1"});
  return run_validate(arguments, std::move(options));
}

ProgramRun run_calibrate(const std::vector<std::string>& arguments, RunOptions options) {
  return run_program(calibrate_program(), arguments, std::move(options));
}

ProgramRun run_sim(const std::vector<std::string>& arguments, RunOptions options) {
  return run_program(sim_program(), arguments, std::move(options));
}

ProgramRun run_plan_with(const Inputs& inputs) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {"--gpus", inputs.gpus, "--model"};
  arguments.push_back(inputs.model.empty() ? "gpt-tiny"
                                           : directory.file("model.json", inputs.model).string());
  if (!inputs.cluster.empty()) {
    arguments.insert(arguments.end(),
                     {"--cluster", directory.file("cluster.json", inputs.cluster).string()});
  } else if (std::find(inputs.flags.begin(), inputs.flags.end(), "--cluster") ==
             inputs.flags.end()) {
    arguments.insert(arguments.end(), {"--cluster", "selene-a100"});
  }
  if (!inputs.stack.empty()) {
    arguments.insert(arguments.end(),
                     {"--stack", directory.file("stack.json", inputs.stack).string()});
  }
  arguments.insert(arguments.end(), inputs.flags.begin(), inputs.flags.end());
  return run_plan(arguments);
}

ProgramRun run_show_with(std::string_view plan, const std::vector<std::string>& flags) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {"show", directory.file("plan.json", plan).string()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_plan(arguments);
}

ProgramRun run_validate_with(std::string_view runs, const std::vector<std::string>& flags) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {"--runs", directory.file("runs.csv", runs).string()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_validate(arguments);
}

const std::vector<FileReader>& file_readers() {
  static const std::vector<FileReader> readers = {
      {"model", true, {"--gpus", "8", "--model"}},
      {"cluster", true, {"--gpus", "8", "--model", "gpt-tiny", "--cluster"}},
      {"stack",
       true,
       {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "--stack"}},
      {"plan", true, {"show"}},
      {"calibration",
       true,
       {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "--calibration"}},
      {"runs", false, {"--runs"}}};
  return readers;
}

ProgramRun run_reader(const FileReader& reader, const fs::path& file) {
  std::vector<std::string> arguments = reader.arguments;
  arguments.push_back(file.string());
  return reader.is_plan_command ? run_plan(arguments) : run_validate(arguments);
}

std::string source_file(const std::string& path) {
  return content_of(fs::path(PTDP_SOURCE_DIR) / path);
}

std::string tiny_model() {
  return source_file("profiles/models/gpt-tiny.json");
}

ordered_json selene_cluster() {
  ordered_json cluster = ordered_json::parse(source_file("profiles/clusters/selene-a100.json"));
  const auto inlined = [](const std::string& directory, const ordered_json& name) {
    ordered_json profile = ordered_json::parse(
        source_file("profiles/" + directory + "/" + name.get<std::string>() + ".json"));
    profile.erase("schema");
    return profile;
  };
  cluster["gpu"] = inlined("gpus", cluster["gpu"]);
  cluster["all_reduce_curves"] =
      inlined("curves", cluster["all_reduce_curves"])["all_reduce_curves"];
  return cluster;
}

ordered_json megatron_stack() {
  return ordered_json::parse(source_file("profiles/stacks/megatron-lm-2021.json"));
}

std::string tiny_plan() {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "plan.json";
  const ProgramRun run = run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100",
                                   "--tp", "2", "--pp", "2", "--dp", "2", "-o", file.string()});
  EXPECT_EQ(run.status, kDone) << shown(run);
  return content_of(file);
}

std::string plan_of_small(const std::vector<std::string>& flags) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "plan.json").string();
  std::vector<std::string> arguments = {
      "--model", directory.file("small.json", kSmallModel).string(), "--cluster", "host", "-o",
      file};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  EXPECT_TRUE(succeeds(run_plan(arguments)));
  return content_of(file);
}

const std::string& plan_of_four_ranks() {
  static const std::string plan =
      plan_of_small({"--gpus", "4", "--tp", "2", "--pp", "2", "--dp", "1", "--micro-batch-size",
                     "1", "--schedule", "1f1b"});
  return plan;
}

std::string with_literal(ordered_json document, const std::string& pointer,
                         const std::string& literal) {
  const std::string marker = "@here@";
  document[ordered_json::json_pointer(pointer)] = marker;
  return replaced(document.dump(2), '"' + marker + '"', literal);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << "nothing to replace: " << from;
    return text;
  }
  return text.replace(at, from.size(), to);
}

AssertionResult ends_with(const ProgramRun& run, int status) {
  const std::string sign = sign_of_a_bug(run.errors);
  if (run.is_timed_out || run.status != status || !sign.empty()) {
    return AssertionFailure() << "expected status " << status
                              << (sign.empty() ? "" : " and no \"" + sign + "\"") << ": "
                              << shown(run);
  }
  return AssertionSuccess();
}

AssertionResult is_refused(const ProgramRun& run, const std::vector<std::string>& mentions) {
  if (const AssertionResult result = ends_with(run, kBadInput); !result) {
    return result;
  }
  if (!run.output.empty()) {
    return AssertionFailure() << "expected nothing on standard output: " << shown(run);
  }
  if (!is_one_printable_line(run.errors) || !run.errors.starts_with(run.program + ": ")) {
    return AssertionFailure() << "expected one printable line from " << run.program << ": "
                              << shown(run);
  }
  for (const std::string& mention : mentions) {
    if (run.errors.find(mention) == std::string::npos) {
      return AssertionFailure() << "expected a message with \"" << mention << "\": " << shown(run);
    }
  }
  return AssertionSuccess();
}

AssertionResult succeeds(const ProgramRun& run) {
  if (run.status != kDone || !run.errors.empty()) {
    return AssertionFailure() << "expected success without a message: " << shown(run);
  }
  return ends_with(run, kDone);
}

AssertionResult answers(const ProgramRun& run) {
  return ends_with(run, run.status == kNothingFits ? kNothingFits : kDone);
}

AssertionResult is_finite_json(const std::string& text) {
  // The parser itself refuses the literals NaN and Infinity, and numbers beyond a double.
  const ordered_json document = ordered_json::parse(text, nullptr, false);
  if (document.is_discarded()) {
    return AssertionFailure() << "not JSON: " << text.substr(0, kLongestShown);
  }
  const ordered_json flat = document.is_structured() ? document.flatten() : ordered_json::object();
  for (const auto& item : flat.items()) {
    // flatten() writes empty arrays and objects as null.
    if (item.value().is_null() && document[ordered_json::json_pointer(item.key())].is_null()) {
      return AssertionFailure() << "null at " << item.key();
    }
  }
  return AssertionSuccess();
}

AssertionResult has_only_numbers(const std::string& text) {
  // Between blanks or punctuation of tables, JSON and CSV: random file names may hold the letters.
  static const std::regex word(R"((^|[\s(\[:,"=])[+-]?(nan|inf|infinity)($|[\s)\],;"%]))",
                               std::regex::icase | std::regex::optimize);
  std::smatch found;
  return std::regex_search(text, found, word) ? AssertionFailure()
                                                    << "\"" << found.str()
                                                    << "\" in: " << text.substr(0, kLongestShown)
                                              : AssertionSuccess();
}

std::vector<std::string> entries_of(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream) << file;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace ptdp
