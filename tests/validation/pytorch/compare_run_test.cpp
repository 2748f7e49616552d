// Runs compare_run.py beside the runtime: checkpoint, data and training as another program sees
// them.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cost_model/text/files.h"
#include "kernels/counter_random.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/training_data.h"
#include "tests/support/temporary_directory.h"
#include "tests/validation/pytorch/small_training.h"

namespace ptdp {
namespace {

constexpr std::string_view kPython = PTDP_TORCH_PYTHON;
constexpr int kSteps = 6;

TrainingTask make_task(const TrainingData& data, const std::filesystem::path& save_to) {
  TrainingTask task{
      .model = resolved({.num_layers = 2,
                         .hidden_size = 32,
                         .num_attention_heads = 4,
                         .vocab_size = 97,
                         .seq_length = 16},
                        "test"),
      .global_batch_size = 4,
      .samples = [&data](std::int64_t sample) { return data.sample(sample); },
      .seed = 7,
      .rates = {.maximum = 3e-3, .minimum = 3e-4, .warm_up_steps = 2, .decay_steps = 5},
      .weight_decay = 0.1,
      .clip = 0.5};
  task.save_to = save_to;
  return task;
}

/// Runs the script on a checkpoint of a step and on all losses from there on; returns its exit
/// status.
int compare(const std::filesystem::path& directory, int step, const std::string& data_flag) {
  const std::string command = "OMP_NUM_THREADS=1 " + std::string(kPython) +
                              " " PTDP_SOURCE_DIR "/tests/validation/pytorch/compare_run.py" +
                              " --checkpoint " + (directory / step_directory_name(step)).string() +
                              " --losses " + (directory / "run.json").string() +
                              " --global-batch 4 --lr 3e-3 --min-lr 3e-4 --warm-up 2" +
                              " --decay-steps 5 --weight-decay 0.1 --clip 0.5 --tolerance 1e-12" +
                              data_flag + " > " + (directory / "log").string() + " 2>&1";
  const int status = std::system(command.c_str());  // NOLINT(cert-env33-c): paths are the test's
  return status;
}

/// Saves steps 0 and 3, and the losses of six steps, trained in different layouts.
void run_and_save(const TrainingData& data, const std::filesystem::path& directory) {
  TrainingTask task = make_task(data, directory);
  task.num_steps = 0;
  (void)train(task, {.tp = 2, .dp = 2, .num_stages = 2, .shards_states = true});
  task.num_steps = 3;
  TrainingOutcome outcome = train(task, {.tp = 2, .num_stages = 2, .micro_batch_size = 2});
  const Checkpoint checkpoint = Checkpoint::open(directory);
  task.num_steps = kSteps;
  task.save_to.reset();
  task.resume_from = &checkpoint;
  const TrainingOutcome rest = train(task, {.dp = 2, .shards_states = true});
  outcome.losses.insert(outcome.losses.end(), rest.losses.begin(), rest.losses.end());
  write_file_atomically(directory / "run.json", nlohmann::json{{"losses", outcome.losses}}.dump());
}

TEST(CompareRun, FindsPyTorchToTrainTheSameOnAFileOfTokens) {
  if (kPython.empty()) {
    GTEST_SKIP() << "no Python with NumPy and PyTorch";
  }
  const TemporaryDirectory directory;
  std::string bytes;
  for (int i = 0; i < 5000; ++i) {
    bytes.push_back(static_cast<char>(random_word(3, static_cast<std::uint64_t>(i)) % 97));
    bytes.push_back('\0');
  }
  const auto path = directory.file("tokens.bin", bytes);
  const TrainingData data = TrainingData::from_file({path}, 97, 16, /*seed=*/7);
  run_and_save(data, directory.path());
  EXPECT_EQ(compare(directory.path(), 0, " --data " + path.string()), 0)
      << read_file(directory.path() / "log");
}

TEST(CompareRun, FindsPyTorchToTrainTheSameOnTheSyntheticLanguage) {
  if (kPython.empty()) {
    GTEST_SKIP() << "no Python with NumPy and PyTorch";
  }
  const TemporaryDirectory directory;
  const TrainingData data = TrainingData::synthetic(97, 16, /*seed=*/7);
  run_and_save(data, directory.path());
  EXPECT_EQ(compare(directory.path(), 3, ""), 0) << read_file(directory.path() / "log");

  auto run = nlohmann::json::parse(read_file(directory.path() / "run.json"));
  run["losses"][4] = run["losses"][4].get<double>() * (1.0 + 1e-11);
  write_file_atomically(directory.path() / "run.json", run.dump());
  EXPECT_NE(compare(directory.path(), 3, ""), 0) << "a loss that is off by 1e-11";
}

}  // namespace
}  // namespace ptdp
