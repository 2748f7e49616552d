// Holds the cost model's list of element-wise operations to what the stages of models run.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/layer/element_wise_operations.h"
#include "runtime/profiling/timed_backend.h"
#include "tests/runtime/model/stage_run.h"
#include "tests/runtime/model_types.h"

namespace ptdp {
namespace {

/// Numbers of calls of operations, by name and sizes.
using Calls = std::map<std::pair<std::string, OperationSizes>, int>;

/// Returns the element-wise operations that rank 0 calls for one microbatch of the whole model.
Calls calls_of_stage(const Task& task, const Layout& layout, ScheduleKind schedule) {
  Calls calls;
  on_ranks(layout.tp, [&](Backend& inner, Communicator& tensor_group) {
    TimedBackend backend(inner);
    TransformerStage stage(
        backend, tensor_group, settings_of(task, layout),
        {.count = task.model.num_layers, .begins_model = true, .ends_model = true}, nullptr);
    const Batch batch(backend, task, layout.micro_batch_size, 0);
    backend.start();
    static_cast<void>(stage.forward(batch.microbatch(), {}));
    if (traits_of(schedule).splits_backward) {
      static_cast<void>(stage.backward_input(batch.microbatch(), {}));
      stage.backward_weights(batch.microbatch());
    } else {
      static_cast<void>(stage.backward(batch.microbatch(), {}));
    }
    if (tensor_group.rank() != 0) {
      return;
    }
    for (const TimedOperation& timed : backend.take()) {
      if (timed.is_whole && size_names(timed.operation).front() == "rows") {
        ++calls[{std::string(name_of(timed.operation)), timed.sizes}];
      }
    }
  });
  return calls;
}

/// Returns the calls that the cost model counts.
Calls calls_of_model(const Task& task, const Layout& layout, ScheduleKind schedule) {
  const ParallelConfig config = {.tp = layout.tp,
                                 .micro_batch_size = layout.micro_batch_size,
                                 .schedule = schedule,
                                 .sequence_parallel = layout.sequence_parallel};
  Calls calls;
  const auto add = [&](const std::vector<ElementWiseOperation>& list, int count) {
    for (const ElementWiseOperation& each : list) {
      calls[{std::string(name_of(each.operation)), each.sizes}] += count;
    }
  };
  add(layer_operations(task.model, config), task.model.num_layers);
  add(embedding_operations(task.model, config), 1);
  add(logits_operations(task.model, config), 1);
  return calls;
}

std::string to_string(const Calls& calls) {
  std::string text;
  for (const auto& [key, count] : calls) {
    text += std::to_string(count) + " " + key.first + " of " +
            std::to_string(std::lround(key.second[0])) + ", " +
            std::to_string(std::lround(key.second[1])) + "\n";
  }
  return text;
}

/// Returns the layouts whose element-wise work differs.
std::vector<Layout> layouts(int most_tp) {
  std::vector<Layout> all = {{.micro_batch_size = 2}};
  if (most_tp > 1) {
    all.push_back({.tp = 2, .micro_batch_size = 2});
    all.push_back({.tp = 2, .sequence_parallel = true, .micro_batch_size = 1});
    all.push_back({.tp = 4, .micro_batch_size = 1});
  }
  return all;
}

void expect_calls(const Task& task, int most_tp) {
  for (const Layout& layout : layouts(most_tp)) {
    for (const ScheduleKind schedule : {ScheduleKind::kOneFOneB, ScheduleKind::kZbH1}) {
      EXPECT_EQ(to_string(calls_of_stage(task, layout, schedule)),
                to_string(calls_of_model(task, layout, schedule)))
          << to_string(layout) << " " << name_of(schedule);
    }
  }
}

TEST(OperationList, IsWhatStagesOfTodaysModelsRun) {
  for (const std::string& type : testing::model_types()) {
    SCOPED_TRACE(type);
    Task task = small_task();
    task.model = testing::as_type(type, task.model);
    task.dropout = 0.0;
    expect_calls(task, 2);
  }
}

// Rates of dropout apart from each other: what drops nothing is another operation.
TEST(OperationList, IsWhatStagesOfGptRunWithDropoutAndWithout) {
  for (const DropoutRates rates : {DropoutRates(0.1), DropoutRates(0.0)}) {
    SCOPED_TRACE(rates.hidden);
    Task task = small_task();
    task.dropout = rates.hidden;
    task.model.dropout_rates = rates;
    expect_calls(task, 2);
  }
}

TEST(OperationList, IsWhatStagesRunWhoseBranchesAloneHaveBiases) {
  Task task = small_task();
  task.model = testing::as_type("gemma2", task.model);
  task.model.add_projection_bias = true;
  task.model.add_mlp_bias = true;
  task.model.dropout = true;
  task.model.dropout_rates = 0.1;
  task.dropout = 0.1;
  expect_calls(task, 2);
  task.model.residual_multiplier = 0.3;
  expect_calls(task, 2);
  task.model.norm_placement = NormPlacement::kBefore;
  task.model.dropout = false;
  task.dropout = 0.0;
  expect_calls(task, 2);
}

}  // namespace
}  // namespace ptdp
