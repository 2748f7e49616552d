// Runs the built commands, makes inputs from shipped files, and checks results.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/temporary_directory.h"

namespace ptdp {

// Exit statuses of the README; not taken from the code, which could be wrong.
inline constexpr int kDone = 0;
inline constexpr int kBadInput = 2;
inline constexpr int kNothingFits = 3;
inline constexpr int kRuntimeFault = 4;
inline constexpr int kOutputFailed = 5;
inline constexpr int kOutsideTolerance = 6;

/// Factor by which builds that are not optimized may be slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
inline constexpr double kSlowdown = 20.0;
#else
inline constexpr double kSlowdown = 1.0;
#endif
/// CPU time [s] beyond which a command counts as running away. Commands with such a test take 0.01
/// s to 2 s; what grows too fast takes 20 s or never ends. How fast they are is no test's matter.
inline constexpr double kRunawaySeconds = 10.0 * kSlowdown;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;  // memory and address space are not those of a user
#else
inline constexpr bool kIsSanitized = false;
#endif

[[nodiscard]] std::filesystem::path plan_program();
[[nodiscard]] std::filesystem::path validate_program();
[[nodiscard]] std::filesystem::path calibrate_program();
[[nodiscard]] std::filesystem::path sim_program();
[[nodiscard]] std::filesystem::path run_program_path();

/// Runs ptdp-plan with the profiles of the source tree.
[[nodiscard]] ProgramRun run_plan(const std::vector<std::string>& arguments,
                                  RunOptions options = {});
/// Runs ptdp-validate with the profiles of the source tree.
[[nodiscard]] ProgramRun run_validate(const std::vector<std::string>& arguments,
                                      RunOptions options = {});
/// Runs ptdp-validate on the rows of SC21 table 1; all published runs would show no more.
[[nodiscard]] ProgramRun run_validate_few(std::vector<std::string> arguments = {},
                                          RunOptions options = {});
/// Runs ptdp-calibrate with the profiles of the source tree.
[[nodiscard]] ProgramRun run_calibrate(const std::vector<std::string>& arguments,
                                       RunOptions options = {});
/// Runs ptdp-sim with the profiles of the source tree.
[[nodiscard]] ProgramRun run_sim(const std::vector<std::string>& arguments,
                                 RunOptions options = {});

/// Runs ptdp-run with the profiles of the source tree.
[[nodiscard]] ProgramRun run_run(const std::vector<std::string>& arguments,
                                 RunOptions options = {});

/// Texts of input files. An empty text stands for gpt-tiny, selene-a100 or its default stack.
struct Inputs {
  std::string model = {};
  std::string cluster = {};
  std::string stack = {};
  std::string gpus = "8";
  std::vector<std::string> flags = {};
};

/// Runs ptdp-plan on files with these texts, named model.json, cluster.json and stack.json.
[[nodiscard]] ProgramRun run_plan_with(const Inputs& inputs);
/// Runs `ptdp-plan show plan.json` on a file with this text.
[[nodiscard]] ProgramRun run_show_with(std::string_view plan,
                                       const std::vector<std::string>& flags = {});
/// Runs `ptdp-validate --runs runs.csv` on a file with this text.
[[nodiscard]] ProgramRun run_validate_with(std::string_view runs,
                                           const std::vector<std::string>& flags = {});

/// A command that reads a file, whose path is the last argument.
struct FileReader {
  const char* what;
  bool is_plan_command;
  std::vector<std::string> arguments;
};
[[nodiscard]] const std::vector<FileReader>& file_readers();
[[nodiscard]] ProgramRun run_reader(const FileReader& reader, const std::filesystem::path& file);

/// Returns the text of a file of the source tree, such as "profiles/models/1T.json".
[[nodiscard]] std::string source_file(const std::string& path);
[[nodiscard]] std::string tiny_model();
/// Returns the shipped selene-a100 with its GPU and curves in place of their names.
[[nodiscard]] nlohmann::ordered_json selene_cluster();
[[nodiscard]] nlohmann::ordered_json megatron_stack();
/// Returns the plan that `ptdp-plan -o` writes for gpt-tiny with tp, pp and dp of 2.
[[nodiscard]] std::string tiny_plan();
/// A model whose step takes milliseconds.
inline constexpr const char* kSmallModel = R"({
  "schema": "ptdp.model/1", "name": "small", "source": "a test", "num_layers": 4, "hidden_size": 16,
  "num_attention_heads": 4, "vocab_size": 61, "seq_length": 8, "global_batch_size": 8})";
/// Returns a plan for kSmallModel on the shipped host, with these flags.
[[nodiscard]] std::string plan_of_small(const std::vector<std::string>& flags);
/// Returns a plan for kSmallModel with tp and pp of 2.
[[nodiscard]] const std::string& plan_of_four_ranks();

/// A directory with a plan.
class PlanFile {
 public:
  explicit PlanFile(const std::string& plan) {
    static_cast<void>(directory_.file("plan.json", plan));
  }
  [[nodiscard]] std::string path() const { return in("plan.json"); }
  [[nodiscard]] std::string in(const std::string& name) const {
    return (directory_.path() / name).string();
  }
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    return directory_.file(name, text).string();
  }

 private:
  TemporaryDirectory directory_;
};

/// Returns `document` with `literal` at the JSON pointer; the literal need not be JSON.
[[nodiscard]] std::string with_literal(nlohmann::ordered_json document, const std::string& pointer,
                                       const std::string& literal);
/// Returns `text` with the first `from` replaced. Fails the test if there is none.
[[nodiscard]] std::string replaced(std::string text, std::string_view from, std::string_view to);

/// Expects status 2, nothing on standard output, and one printable line on standard error. The line
/// must begin with the program's name and hold each of `mentions`.
[[nodiscard]] testing::AssertionResult is_refused(const ProgramRun& run,
                                                  const std::vector<std::string>& mentions = {});
/// Expects this status, and nothing that a bug, a crash or a sanitizer would print.
[[nodiscard]] testing::AssertionResult ends_with(const ProgramRun& run, int status);
/// Expects status 0 and nothing on standard error.
[[nodiscard]] testing::AssertionResult succeeds(const ProgramRun& run);
/// Expects a plan, or that nothing fits: what a planner may answer to good input.
[[nodiscard]] testing::AssertionResult answers(const ProgramRun& run);
/// Expects JSON without null, which is what a writer makes of NaN and infinity.
[[nodiscard]] testing::AssertionResult is_finite_json(const std::string& text);
/// Expects no word "nan" or "inf", signed or not, in any case.
[[nodiscard]] testing::AssertionResult has_only_numbers(const std::string& text);

[[nodiscard]] std::vector<std::string> entries_of(const std::filesystem::path& directory);
[[nodiscard]] std::string content_of(const std::filesystem::path& file);

}  // namespace ptdp
