// Holds the cost model's list of element-wise operations to what the stages of models run.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/layer/element_wise_operations.h"
#include "kernels/epilogue.h"
#include "runtime/profiling/timed_backend.h"
#include "tests/runtime/model/stage_run.h"
#include "tests/runtime/model_types.h"

namespace ptdp {
namespace {

/// Numbers of calls of operations, by name and sizes.
using Calls = std::map<std::pair<std::string, OperationSizes>, int>;

/// A backend whose products have the epilogues that cuBLASLt documents, and which counts those that
/// the cost model knows.
class FusingBackend final : public ForwardingBackend<FusingBackend> {
 public:
  FusingBackend(Backend& inner, bool fuses_bias_gradients)
      : inner_(inner), fuses_bias_gradients_(fuses_bias_gradients) {}

  void use_lane(int lane) override { inner_.use_lane(lane); }
  [[nodiscard]] Event record() override { return inner_.record(); }
  void wait(const Event& event) override { inner_.wait(event); }
  void synchronize() override { inner_.synchronize(); }
  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override {
    return inner_.seconds_between(first, second);
  }
  [[nodiscard]] bool replaces_attention_inputs() const override {
    return inner_.replaces_attention_inputs();
  }
  [[nodiscard]] bool has_epilogue(const EpilogueCall& call) override {
    if (call.epilogue == Epilogue::kBiasGradient) {
      return fuses_bias_gradients_;
    }
    return call.x.empty() ||
           (call.activation == ActivationKind::kTanhGelu && call.product.n % 8 == 0);
  }
  void matmul_with_epilogue(const EpilogueCall& call) override {
    multiply_apart(inner_, call);
    const auto count = [&](const char* name, std::int64_t rows, std::int64_t width) {
      ++calls_[{name, {static_cast<double>(rows), static_cast<double>(width), 1.0}}];
    };
    if (!call.x.empty()) {
      count("gelu-epilogue", 1, call.product.m * call.product.n);
    } else if (call.epilogue == Epilogue::kBiasGradient) {
      count("bias-gradient-epilogue", call.product.k, call.product.m);
    }
  }
  [[nodiscard]] const Calls& calls() const { return calls_; }

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override {
    return inner_.allocate(bytes);
  }
  void release_memory(void* memory, std::int64_t bytes) noexcept override {
    inner_.release(memory, bytes);
  }

 private:
  friend class ForwardingBackend<FusingBackend>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... arguments) {
    (inner_.*kOperation)(arguments...);
  }

  Backend& inner_;
  bool fuses_bias_gradients_;
  Calls calls_;
};

/// Returns the element-wise operations that rank 0 calls for one microbatch of the whole model.
Calls calls_of_stage(const Task& task, const Layout& layout, ScheduleKind schedule,
                     const FusedEpilogues& fused) {
  Calls calls;
  on_ranks(layout.tp, [&](Backend& inner, Communicator& tensor_group) {
    FusingBackend fusing(inner, fused.bias_gradients);
    TimedBackend backend(fused.biases ? static_cast<Backend&>(fusing) : inner);
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
    calls = fusing.calls();
    for (const TimedOperation& timed : backend.take()) {
      if (timed.is_whole && size_names(timed.operation).front() == "rows") {
        ++calls[{std::string(name_of(timed.operation)), timed.sizes}];
      }
    }
  });
  return calls;
}

/// Returns the calls that the cost model counts.
Calls calls_of_model(const Task& task, const Layout& layout, ScheduleKind schedule,
                     const FusedEpilogues& fused) {
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
  add(layer_operations(task.model, config, fused), task.model.num_layers);
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
      for (const FusedEpilogues& fused :
           {FusedEpilogues{}, FusedEpilogues{.biases = true, .gelu = true},
            FusedEpilogues{.biases = true, .bias_gradients = true, .gelu = true}}) {
        EXPECT_EQ(to_string(calls_of_stage(task, layout, schedule, fused)),
                  to_string(calls_of_model(task, layout, schedule, fused)))
            << to_string(layout) << " " << name_of(schedule)
            << (fused.biases ? ", with epilogues" : "")
            << (fused.bias_gradients ? " of bias gradients" : "");
      }
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

// An MLP of 48: each of two ranks has rows of 24, which GELU's epilogue takes, and each of four
// rows of 12, which it does not.
TEST(OperationList, IsWhatStagesOfGptRunWhereRowsFitEpilogues) {
  Task task = small_task();
  task.model.ffn_hidden_size = 48;
  expect_calls(task, 2);
  task.model.activation_func = Activation::kGelu;
  expect_calls(task, 2);
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
