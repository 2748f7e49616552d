// Tests that a transformer stage computes the same in every layout.
#include "runtime/model/transformer_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/counter_random.h"
#include "tests/runtime/model/stage_run.h"
#include "tests/runtime/model_types.h"

namespace ptdp {
namespace {

double norm_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

double norm_of(const Matrices& matrices) {
  double sum = 0.0;
  for (const auto& [name, values] : matrices) {
    sum += norm_of(values) * norm_of(values);
  }
  return std::sqrt(sum);
}

/// Expects ‖Δ‖ ≤ tolerance·max(‖g‖, ‖all‖/1000) for each gradient.
void expect_close(const Outcome& outcome, const Outcome& expected, double tolerance) {
  EXPECT_NEAR(outcome.loss, expected.loss, tolerance * std::abs(expected.loss));
  const double all = norm_of(expected.gradients);
  ASSERT_EQ(outcome.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    std::vector<double> difference = outcome.gradients.at(name);
    ASSERT_EQ(difference.size(), gradient.size()) << name;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      difference[i] -= gradient[i];
    }
    EXPECT_LE(norm_of(difference), tolerance * std::max(norm_of(gradient), all / 1000)) << name;
  }
}

/// Returns the tensor-parallel layouts, with and without sequence parallelism.
std::vector<Layout> tensor_layouts() {
  return {{.tp = 1},
          {.tp = 2},
          {.tp = 4},
          {.tp = 2, .sequence_parallel = true},
          {.tp = 4, .sequence_parallel = true}};
}

TEST(TransformerStage, ComputesTheSameInEveryLayout) {
  const Task task = small_task();
  const Outcome expected = run_step(task, {});
  int variant = 0;
  for (Layout layout : tensor_layouts()) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      for (const BackwardOrder order :
           {BackwardOrder::kWhole, BackwardOrder::kSplit, BackwardOrder::kWeightsLast}) {
        layout.recompute = recompute;
        layout.order = order;
        layout.num_stages = 1 + variant % 4;
        layout.shares_table = layout.num_stages > 1 && variant % 8 < 4;
        layout.micro_batch_size = 1 + variant % 3;
        ++variant;
        SCOPED_TRACE(to_string(layout));
        expect_close(run_step(task, layout), expected, 1e-12);
      }
    }
  }
}

TEST(TransformerStage, ComputesTheSameForOtherModels) {
  Task untied = small_task();
  untied.model.untied_embeddings = true;
  Task without_biases = small_task();
  without_biases.model.add_bias_linear = false;
  Task without_positions = small_task();
  without_positions.model.position_embedding = PositionEmbedding::kNone;
  without_positions.dropout = 0.0;
  Task without_dropout = small_task();
  without_dropout.dropout = 0.0;
  for (const Task& task : {untied, without_biases, without_positions, without_dropout}) {
    const Outcome expected = run_step(task, {});
    for (Layout layout : tensor_layouts()) {
      layout.num_stages = 2;
      layout.order = BackwardOrder::kSplit;
      SCOPED_TRACE(to_string(layout));
      expect_close(run_step(task, layout), expected, 1e-12);
    }
  }
}

/// Returns small_task() with a model of a type.
Task task_of(const std::string& type) {
  Task task = small_task();
  task.model = testing::as_type(type, task.model);
  return task;
}

TEST(TransformerStage, ComputesTheSameForTodaysModels) {
  int variant = 0;
  for (const std::string& type : testing::model_types()) {
    const Task task = task_of(type);
    const Outcome expected = run_step(task, {});
    for (Layout layout : tensor_layouts()) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        layout.recompute = recompute;
        layout.order = static_cast<BackwardOrder>(variant % 3);
        layout.num_stages = 1 + variant % 4;
        layout.micro_batch_size = 1 + variant % 3;
        layout.overlaps_tensor = variant % 2 == 1;
        ++variant;
        SCOPED_TRACE(type + " " + to_string(layout));
        expect_close(run_step(task, layout), expected, 1e-12);
      }
    }
  }
}

// What only moves work in time: recomputation, weight gradients apart, microbatches interleaved,
// the layers cut into stages.
void expect_same_bits_in_every_order(const Task& task) {
  for (Layout layout : tensor_layouts()) {
    const Outcome expected = run_step(task, layout);
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      for (const BackwardOrder order :
           {BackwardOrder::kWhole, BackwardOrder::kSplit, BackwardOrder::kWeightsLast}) {
        layout.recompute = recompute;
        layout.order = order;
        layout.num_stages = order == BackwardOrder::kWhole ? 3 : 1;
        layout.shares_table = layout.num_stages > 1;
        SCOPED_TRACE(to_string(layout));
        const Outcome outcome = run_step(task, layout);
        EXPECT_EQ(outcome.loss, expected.loss);
        EXPECT_EQ(outcome.gradients, expected.gradients);
      }
    }
  }
}

// Without dropout norms sum the gradients of biases at the ends of branches.
TEST(TransformerStage, GivesTheSameBitsWhateverTheOrderInTime) {
  Task task = small_task();
  expect_same_bits_in_every_order(task);
  task.dropout = 0.0;
  expect_same_bits_in_every_order(task);
}

// What data parallelism with one microbatch per replica relies on. With sequence parallelism norms
// are summed over tensor-parallel ranks last, which is another order.
void expect_sums_of_replicas(Task task) {
  task.num_samples = 2;
  for (const int tp : {1, 2, 4}) {
    Layout layout = {.tp = tp, .adds_gradients_apart = true};
    SCOPED_TRACE(to_string(layout));
    layout.order = BackwardOrder::kSplit;
    const Outcome both = run_step(task, layout);
    task.num_samples = 1;
    layout.order = BackwardOrder::kWhole;
    Outcome sum = run_step(task, layout);
    layout.first_microbatch = 1;
    const Outcome second = run_step(task, layout);
    task.num_samples = 2;
    for (auto& [name, gradient] : sum.gradients) {
      const std::vector<double>& other = second.gradients.at(name);
      std::ranges::transform(gradient, other, gradient.begin(), std::plus<>());
      EXPECT_EQ(gradient, both.gradients.at(name)) << name;
    }
  }
}

TEST(TransformerStage, AddsMicrobatchesAsReplicasDoWhenGradientsAreAddedApart) {
  Task task = small_task();
  expect_sums_of_replicas(task);
  task.dropout = 0.0;
  expect_sums_of_replicas(task);
}

/// Returns the loss after `step` times a random direction is added to all weights, padding of the
/// vocabulary included.
double loss_along(const Task& task, double step) {
  return run_step(task, {},
                  [&](Backend& backend, ParameterStore& store) {
                    const Buffer weights = store.all_weights();
                    const Tensor direction(backend, weights.type, weights.size);
                    backend.fill(direction, 0.0);  // what pads the store stays 0
                    for (const Parameter& parameter : store.parameters()) {
                      backend.fill_normal(
                          direction.buffer().slice(parameter.first, parameter.size()),
                          parameter.block, std::hash<std::string>()(parameter.name) + 1, step);
                    }
                    backend.add(direction, weights);
                  })
      .loss;
}

/// Compares gradients with a difference of losses along a random direction.
void expect_slope_along_a_direction(const Task& task) {
  const Outcome outcome = run_step(task, {});
  double expected = 0.0;
  for (const auto& [name, gradient] : outcome.gradients) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      expected += gradient[i] *
                  random_normal(std::hash<std::string>()(name) + 1, static_cast<std::uint64_t>(i));
    }
  }
  // What a difference leaves out is of order step², its rounding 1e-16/step. Two steps together
  // leave out step⁴ (Richardson).
  const double step = 1e-5;
  const double tokens = 1.0 * task.num_samples * task.model.seq_length;
  const auto difference = [&](double by) {
    return (loss_along(task, by) - loss_along(task, -by)) / (2 * by) / tokens;
  };
  const double slope = (4 * difference(step) - difference(2 * step)) / 3;
  EXPECT_NEAR(slope, expected, 1e-6 * std::abs(expected));
}

TEST(TransformerStage, DifferentiatesTheLossAlongARandomDirection) {
  expect_slope_along_a_direction(small_task());
  for (const std::string& type : testing::model_types()) {
    SCOPED_TRACE(type);
    expect_slope_along_a_direction(task_of(type));
  }
  // No released model multiplies branches behind their norms, or beside each other.
  for (const char* type : {"gemma2", "gpt_neox"}) {
    SCOPED_TRACE(type);
    Task multiplied = task_of(type);
    multiplied.model.residual_multiplier = 0.3;
    expect_slope_along_a_direction(multiplied);
  }
}

/// Compares gradients with differences of losses by elements of each parameter: by three, or by one
/// of these, in turn.
void expect_slopes_by_parameters(const Task& task, std::size_t num_elements = 3) {
  const Outcome outcome = run_step(task, {});
  const double tokens = 1.0 * task.num_samples * task.model.seq_length;
  const double step = 1e-5;
  std::size_t turn = 0;
  for (const auto& [name, gradient] : outcome.gradients) {
    // Three elements over the whole of each matrix.
    const std::array<std::size_t, 3> elements = {gradient.size() / 7, gradient.size() / 2,
                                                 gradient.size() - 1};
    for (std::size_t i = 0; i < num_elements; ++i) {
      const std::size_t element = elements[turn++ % elements.size()];
      const auto loss_at = [&, &name = name](double change_by) {
        return run_step(task, {},
                        [&](Backend& backend, ParameterStore& store) {
                          const Buffer one = store.weights(store.id_of(name))
                                                 .slice(static_cast<std::int64_t>(element), 1);
                          const Tensor change(backend, one.type, 1);
                          backend.fill(change, change_by);
                          backend.add(change, one);
                        })
            .loss;
      };
      const double slope = (loss_at(step) - loss_at(-step)) / (2 * step) / tokens;
      EXPECT_NEAR(slope, gradient[element], 1e-8 + 1e-6 * std::abs(gradient[element]))
          << name << " element " << element;
    }
  }
}

// Every element of every type takes part in the derivative along a random direction.
TEST(TransformerStage, DifferentiatesTheLossByEachKindOfParameter) {
  Task task = small_task();
  task.model.num_layers = 1;
  expect_slopes_by_parameters(task);
  task.dropout = 0.0;
  expect_slopes_by_parameters(task);
  task.model.normalization = Normalization::kRmsNorm;
  expect_slopes_by_parameters(task);
  for (const std::string& type : testing::model_types()) {
    SCOPED_TRACE(type);
    task = task_of(type);
    task.model.num_layers = has_window(task.model) ? 2 : 1;
    expect_slopes_by_parameters(task, 1);
  }
}

double cosine(const std::vector<double>& x, const std::vector<double>& y) {
  double product = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    product += x[i] * y[i];
  }
  return product / (norm_of(x) * norm_of(y));
}

TEST(TransformerStage, LosesLittleInNarrowerTypes) {
  Task task = small_task();
  const Outcome exact = run_step(task, {});
  for (Layout layout : tensor_layouts()) {
    layout.recompute = layout.tp == 2 ? Recompute::kFull : Recompute::kSelective;
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
      SCOPED_TRACE(to_string(layout) + " " + std::string(name_of(type)));
      task.type = type;
      task.loss_scale = type == DataType::kFloat16 ? 1024.0 : 1.0;
      Outcome outcome = run_step(task, layout);
      for (auto& [name, gradient] : outcome.gradients) {
        for (double& value : gradient) {
          value /= task.loss_scale;
        }
      }
      if (type == DataType::kFloat32) {
        expect_close(outcome, exact, 1e-5);
        continue;
      }
      EXPECT_NEAR(outcome.loss, exact.loss, 1e-2 * exact.loss);
      for (const auto& [name, gradient] : exact.gradients) {
        if (norm_of(gradient) < 1e-12 * norm_of(exact.gradients)) {
          continue;  // A bias of keys moves all scores of a query alike: its gradient is 0.
        }
        EXPECT_GT(cosine(gradient, outcome.gradients.at(name)), 0.999) << name;
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
