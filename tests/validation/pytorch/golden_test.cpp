// Compares losses, gradients and training curves with those of PyTorch (make_golden.py), in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cost_model/text/files.h"
#include "cost_model/text/object_reader.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/support/temporary_directory.h"
#include "tests/validation/pytorch/small_training.h"

namespace ptdp {
namespace {

using nlohmann::json;

// PyTorch sums in another order: the largest difference found is 2e-15, also after 20 steps.
constexpr double kTolerance = 1e-12;

constexpr std::array kGoldens = {"tied", "untied", "no_bias"};

json read_golden(const std::string& name) {
  return json::parse(
      read_file(PTDP_SOURCE_DIR "/tests/validation/pytorch/golden_" + name + ".json"));
}

/// Computes the hash `mixed` of make_golden.py.
std::uint32_t mixed(std::uint64_t number) {
  auto x = static_cast<std::uint32_t>(number);
  x = (x ^ (x >> 16U)) * 0x7FEB352DU;
  x = (x ^ (x >> 15U)) * 0x846CA68BU;
  return x ^ (x >> 16U);
}

/// Computes the 32-bit FNV-1a hash of a name.
std::uint32_t hash_of(const std::string& name) {
  std::uint32_t value = 0x811C9DC5U;
  for (const char byte : name) {
    value = (value ^ static_cast<unsigned char>(byte)) * 0x01000193U;
  }
  return value;
}

bool is_vector(const std::string& name) {
  return name.ends_with("bias") || name.ends_with("gamma") || name.ends_with("beta");
}

double initial(const std::string& name, std::int64_t element) {
  const double uniform =
      2.0 * mixed(static_cast<std::uint64_t>(element) * 2654435761U + hash_of(name)) * 0x1p-32 -
      1.0;
  return uniform * (is_vector(name) ? 0.1 : 0.3) + (name.ends_with("gamma") ? 1.0 : 0.0);
}

TrainingTask task_of(const json& golden) {
  const json& training = golden["training"];
  TrainingTask task{.global_batch_size = golden["global_batch_size"],
                    .initial = initial,
                    .rates = {.maximum = training["maximum"],
                              .minimum = training["minimum"],
                              .warm_up_steps = training["warm_up"],
                              .decay_steps = training["decay"]},
                    .beta1 = training["beta1"],
                    .beta2 = training["beta2"],
                    .epsilon = training["epsilon"],
                    .weight_decay = training["weight_decay"],
                    .clip = training["clip"],
                    .num_steps = training["steps"]};
  ObjectReader reader = ObjectReader::from_text(golden["model"].dump(), "golden");
  describe(reader, task.model);
  task.model = resolved(task.model, "golden");
  task.samples = [model = task.model](std::int64_t sample) {
    std::vector<std::int32_t> tokens;
    for (int position = 0; position <= model.seq_length; ++position) {
      tokens.push_back(
          static_cast<std::int32_t>(mixed(static_cast<std::uint64_t>(1009 * sample + position)) %
                                    static_cast<std::uint32_t>(model.vocab_size)));
    }
    return tokens;
  };
  return task;
}

/// Smallest value that a difference is measured against. Gradients are of order 0.01, but for
/// biases of keys: these move all scores of a query alike, so that their gradients are rounding
/// alone.
constexpr double kLeastScale = 1e-3;

/// Returns the largest difference over the largest value.
double relative_difference(const std::vector<double>& found, const std::vector<double>& expected) {
  double difference = found.size() == expected.size() ? 0.0 : INFINITY;
  double largest = kLeastScale;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    const double own = std::abs(found[i] - expected[i]);
    difference = std::isnan(own) ? INFINITY : std::max(difference, own);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

void expect_equal_gradients(const TrainingOutcome& outcome, const json& golden,
                            const std::string& place) {
  EXPECT_EQ(outcome.gradients.size(), golden["gradients"].size()) << place;
  for (const auto& [name, expected] : golden["gradients"].items()) {
    ASSERT_TRUE(outcome.gradients.contains(name)) << place << ": " << name;
    const double difference =
        relative_difference(outcome.gradients.at(name), expected.get<std::vector<double>>());
    EXPECT_LT(difference, kTolerance) << place << ": " << name;
  }
}

TEST(PyTorch, HasTheSameLossAndGradientsInEveryLayout) {
  for (const std::string name : kGoldens) {
    const json golden = read_golden(name);
    TrainingTask task = task_of(golden);
    task.num_steps = 1;
    const bool is_tied = name != "untied";
    for (const TrainingLayout& layout : std::vector<TrainingLayout>{
             {},
             {.micro_batch_size = 3},
             {.tp = 2, .micro_batch_size = 3},
             {.tp = 4, .sequence_parallel = true, .micro_batch_size = 6},
             {.num_stages = 2, .micro_batch_size = 3},
             {.num_stages = 2, .shares_table = is_tied, .micro_batch_size = 2},
             {.tp = 2, .num_stages = 2, .sequence_parallel = true, .micro_batch_size = 2},
             {.tp = 2, .dp = 3, .num_stages = 2}}) {
      const std::string place = name + ", " + to_string(layout);
      const TrainingOutcome outcome = train(task, layout);
      const double expected = golden["loss"];
      EXPECT_NEAR(outcome.losses.at(0), expected, kTolerance * expected) << place;
      expect_equal_gradients(outcome, golden, place);
    }
  }
}

TEST(PyTorch, TrainsAlongTheSameCurveInEveryLayout) {
  for (const std::string name : kGoldens) {
    const json golden = read_golden(name);
    const TrainingTask task = task_of(golden);
    for (const TrainingLayout& layout : std::vector<TrainingLayout>{
             {.micro_batch_size = 6},
             {.tp = 2, .num_stages = 2, .micro_batch_size = 3},
             {.dp = 3, .num_stages = 2, .shards_states = true, .num_buckets = 2},
             {.tp = 2, .dp = 2, .micro_batch_size = 3},
             {.tp = 2, .dp = 2, .sequence_parallel = true, .shards_states = true}}) {
      const std::string place = name + ", " + to_string(layout);
      const TrainingOutcome outcome = train(task, layout);
      EXPECT_LT(relative_difference(outcome.losses, golden["losses"]), kTolerance) << place;
      EXPECT_LT(relative_difference(outcome.gradient_norms, golden["gradient_norms"]), kTolerance)
          << place;
    }
  }
}

TEST(PyTorch, TrainsAlongTheSameCurveAcrossARestartInAnotherLayout) {
  const json golden = read_golden("tied");
  const TemporaryDirectory directory;
  TrainingTask task = task_of(golden);
  task.num_steps = 9;
  task.save_to = directory.path();
  TrainingOutcome outcome =
      train(task, {.tp = 2, .dp = 2, .num_stages = 2, .shards_states = true, .num_buckets = 3});

  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  task.num_steps = 20;
  task.save_to.reset();
  task.resume_from = &checkpoint;
  const TrainingOutcome rest = train(task, {.dp = 3, .shards_states = true, .micro_batch_size = 2});
  outcome.losses.insert(outcome.losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_LT(relative_difference(outcome.losses, golden["losses"]), kTolerance);
}

}  // namespace
}  // namespace ptdp
