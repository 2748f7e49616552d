// Tests of the backend that times its operations.
#include "runtime/profiling/timed_backend.h"

#include <gmock/gmock.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/profiling/layer_profile.h"
#include "runtime/profiling/profiled_models.h"

namespace ptdp {
namespace {

TEST(TimedBackend, NamesOperationsWithTheirSizesAndPassesThemOn) {
  CpuBackend inner;
  TimedBackend backend(inner);
  const Tensor a(backend, DataType::kFloat32, 6);
  const Tensor b(backend, DataType::kFloat32, 12);
  const Tensor c(backend, DataType::kFloat32, 8);
  inner.fill(a, 1.0);
  inner.fill(b, 2.0);
  inner.fill(c, 10.0);
  backend.start();
  backend.matmul({.m = 2, .n = 4, .k = 3, .transposes_b = true}, a, b, c);
  backend.matmul({.m = 2, .n = 4, .k = 3}, a, b, c);
  backend.matmul({.m = 4, .n = 2, .k = 3, .transposes_a = true, .accumulates = true}, b, a, c);
  backend.maximum(c, c);  // no name
  backend.fill(b, 0.0);
  const std::vector<TimedOperation> timed = backend.take();

  ASSERT_EQ(timed.size(), 4U);
  EXPECT_EQ(timed[0].operation, DeviceOperation::kForwardProduct);
  EXPECT_EQ(timed[0].sizes, (OperationSizes{2, 4, 3}));
  EXPECT_EQ(timed[1].operation, DeviceOperation::kInputGradientProduct);
  EXPECT_EQ(timed[2].operation, DeviceOperation::kWeightGradientProduct);
  EXPECT_EQ(timed[2].sizes, (OperationSizes{4, 2, 3}));
  EXPECT_EQ(timed[3].operation, DeviceOperation::kFill);
  EXPECT_EQ(timed[3].sizes, (OperationSizes{1, 12, 1}));
  for (const TimedOperation& operation : timed) {
    EXPECT_GE(operation.seconds, 0.0);
  }
  EXPECT_EQ(elements<float>(c)[0], 12.0F) << "6 of the second product, and 6 added by the third";
  EXPECT_EQ(inner.bytes_in_use(), (6 + 12 + 8) * 4);
  EXPECT_TRUE(backend.take().empty());
}

/// A backend with every epilogue, none of which it carries out.
class IdleEpilogues final : public ForwardingBackend<IdleEpilogues> {
 public:
  void use_lane(int) override {}
  [[nodiscard]] Event record() override { return host_.record(); }
  void wait(const Event&) override {}
  void synchronize() override {}
  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override {
    return host_.seconds_between(first, second);
  }
  [[nodiscard]] bool replaces_attention_inputs() const override { return false; }
  [[nodiscard]] bool has_epilogue(const EpilogueCall&) override { return true; }
  void matmul_with_epilogue(const EpilogueCall& call) override { ran_.push_back(call.epilogue); }
  [[nodiscard]] const std::vector<Epilogue>& ran() const { return ran_; }

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override { return host_.allocate(bytes); }
  void release_memory(void* memory, std::int64_t bytes) noexcept override {
    host_.release(memory, bytes);
  }

 private:
  friend class ForwardingBackend<IdleEpilogues>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&...) {}

  CpuBackend host_;
  std::vector<Epilogue> ran_;
};

// A bias and its gradient cost a product next to nothing. GELU does, and the cost model adds that.
TEST(TimedBackend, NamesProductsWithEpiloguesUnlessTheyPassOverMore) {
  IdleEpilogues inner;
  TimedBackend backend(inner);
  const Matmul forward{.m = 2, .n = 4, .k = 3, .transposes_b = true};
  const Matmul weights{.m = 4, .n = 2, .k = 3, .transposes_a = true, .accumulates = true};
  EXPECT_TRUE(backend.has_epilogue({.product = forward}));
  backend.start();
  backend.matmul_with_epilogue({.product = forward, .epilogue = Epilogue::kBias});
  backend.matmul_with_epilogue({.product = forward, .epilogue = Epilogue::kActivation});
  backend.matmul_with_epilogue(
      {.product = {.m = 2, .n = 4, .k = 3}, .epilogue = Epilogue::kActivationGradient});
  backend.matmul_with_epilogue({.product = weights, .epilogue = Epilogue::kBiasGradient});
  const std::vector<TimedOperation> timed = backend.take();
  EXPECT_EQ(inner.ran(),
            (std::vector<Epilogue>{Epilogue::kBias, Epilogue::kActivation,
                                   Epilogue::kActivationGradient, Epilogue::kBiasGradient}));
  ASSERT_EQ(timed.size(), 2U);
  EXPECT_EQ(timed[0].operation, DeviceOperation::kForwardProduct);
  EXPECT_EQ(timed[0].sizes, (OperationSizes{2, 4, 3}));
  EXPECT_EQ(timed[1].operation, DeviceOperation::kWeightGradientProduct);
  EXPECT_EQ(timed[1].sizes, (OperationSizes{4, 2, 3}));
}

// One layer: four linear layers and the logits, once forward and twice backward.
TEST(TimeLayers, FindsEveryOperationThatALayerHas) {
  ProfiledModel profiled{.model = {.num_layers = 1,
                                   .hidden_size = 16,
                                   .num_attention_heads = 2,
                                   .num_query_groups = 2,
                                   .kv_channels = 8,
                                   .ffn_hidden_size = 64,
                                   .vocab_size = 128,
                                   .seq_length = 8},
                         .dropout = 0.1};
  LayerMeasurement run{.ranks = 2, .seconds = 0.0, .least_passes = 2, .make_backend = [] {
                         return std::make_unique<CpuBackend>();
                       }};
  const LayerTimes times = time_layers(profiled, run);
  EXPECT_EQ(times.passes.size(), 4U) << "two of each rank";
  EXPECT_GE(times.skew, 0.0);
  using enum DeviceOperation;
  for (const DeviceOperation operation :
       {kDropoutAttention, kDropoutAttentionBackward, kLayerNorm, kLayerNormBackward, kBias,
        kBiasGradient, kBiasGelu, kGeluBackward, kBiasDropoutAdd, kDropoutSumLayerNorm,
        kDropoutBackward, kEmbedding, kEmbeddingGradient, kPositions, kPositionGradient,
        kCrossEntropy, kCrossEntropyBackward, kAddSquares, kAdamW}) {
    EXPECT_THAT(times.operations,
                testing::Contains(testing::Key(testing::Pair(operation, testing::_))))
        << name_of(operation);
  }
  for (const OperationSizes& sizes :
       {OperationSizes{8, 48, 16}, OperationSizes{8, 16, 16}, OperationSizes{8, 64, 16},
        OperationSizes{8, 16, 64}, OperationSizes{8, 128, 16}}) {
    EXPECT_EQ(times.operations.count({kForwardProduct, sizes}), 1U) << sizes[1] << ' ' << sizes[2];
    EXPECT_EQ(times.operations.count({kWeightGradientProduct, {sizes[1], sizes[2], sizes[0]}}), 1U);
  }
  EXPECT_EQ(times.operations.count({kLayerNormBackwardBias, {8, 16, 1}}), 0U);
  EXPECT_EQ(times.operations.count({kBiasGradient, {8, 16, 1}}), 1U);

  // Without dropout, norms in front of branches sum bias gradients; the last norm has none to sum.
  profiled.dropout = 0.0;
  const LayerTimes without = time_layers(profiled, run);
  EXPECT_EQ(without.operations.count({kLayerNormBackwardBias, {8, 16, 1}}), 1U);
  EXPECT_EQ(without.operations.count({kLayerNormBackward, {8, 16, 1}}), 1U);
  EXPECT_EQ(without.operations.count({kBiasGradient, {8, 16, 1}}), 0U);

  run.is_cancelled = [] { return true; };
  EXPECT_TRUE(time_layers(profiled, run).passes.empty());
}

/// A host's backend that notes steps of the optimizer, and waits, which follow the last of them.
class NotedSteps final : public ForwardingBackend<NotedSteps> {
 public:
  explicit NotedSteps(std::vector<int>& steps_before_waits) : steps_(steps_before_waits) {}
  void use_lane(int lane) override { host_.use_lane(lane); }
  [[nodiscard]] Event record() override { return host_.record(); }
  void wait(const Event& event) override { host_.wait(event); }
  void synchronize() override { steps_.push_back(std::exchange(num_steps_, 0)); }
  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override {
    return host_.seconds_between(first, second);
  }
  [[nodiscard]] bool replaces_attention_inputs() const override { return false; }
  [[nodiscard]] bool has_epilogue(const EpilogueCall&) override { return false; }
  void matmul_with_epilogue(const EpilogueCall&) override {}

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override { return host_.allocate(bytes); }
  void release_memory(void* memory, std::int64_t bytes) noexcept override {
    host_.release(memory, bytes);
  }

 private:
  friend class ForwardingBackend<NotedSteps>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... arguments) {
    (host_.*kOperation)(arguments...);
    if constexpr (std::is_same_v<Operation<kOperation>, Operation<&Backend::adamw>>) {
      ++num_steps_;
    }
  }

  CpuBackend host_;
  int num_steps_ = 0;
  std::vector<int>& steps_;
};

// What leads in to a timed step runs without a wait in between, and is not counted with it.
TEST(TimeLayers, LeadsInToEachTimedStepByStepsOfAGivenTime) {
  const ProfiledModel profiled =
      profiled_model({16, 2, 8, 24, 8, 1, 128, 1, 0.0, ModelParts::kToday});
  std::vector<int> steps;
  NotedSteps backend(steps);
  LayerMeasurement run{.seconds = 0.0, .least_passes = 2, .backend = &backend};
  const LayerTimes alone = time_layers(profiled, run);
  EXPECT_EQ(steps, (std::vector<int>{1, 1, 1})) << "the first is not timed";
  steps.clear();
  run.lead_in = 0.02;
  const LayerTimes led = time_layers(profiled, run);
  ASSERT_EQ(steps.size(), 4U) << "the second tells how long a step is";
  EXPECT_GE(steps[2], 2);
  EXPECT_EQ(steps, (std::vector<int>{1, 1, steps[2], steps[2]}));
  ASSERT_EQ(led.passes.size(), 2U);
  EXPECT_LT(led.passes[0], 0.02) << "of one step";
  EXPECT_EQ(led.operations.size(), alone.operations.size());
}

// The heads of queries (2) and of keys (1) are of 8 elements, on 8 tokens; the norms of hidden
// states are of 16. Attention is capped in no model whose operations are measured.
TEST(TimeLayers, FindsEveryOperationThatALayerOfTodayHas) {
  ProfiledModel profiled = profiled_model({16, 2, 8, 24, 8, 1, 128, 1, 0.0, ModelParts::kToday});
  const LayerMeasurement run{
      .seconds = 0.0, .least_passes = 1, .most_passes = 1, .make_backend = [] {
        return std::make_unique<CpuBackend>();
      }};
  using enum DeviceOperation;
  const OperationTimes times = time_layers(profiled, run).operations;
  const std::vector<OperationKey> expected = {{kAttention, {2, 8, 8}},
                                              {kAttentionBackward, {2, 8, 8}},
                                              {kRmsNorm, {8, 16, 1}},
                                              {kRmsNormBackward, {8, 16, 1}},
                                              {kRmsNorm, {16, 8, 1}},
                                              {kRmsNormBackward, {16, 8, 1}},
                                              {kRmsNorm, {8, 8, 1}},
                                              {kRmsNormBackward, {8, 8, 1}},
                                              {kRotary, {24, 8, 1}},
                                              {kGatedActivation, {8, 24, 1}},
                                              {kAdd, {1, 128, 1}},
                                              {kSumRmsNorm, {8, 16, 1}},
                                              {kGatedActivationBackward, {8, 24, 1}},
                                              {kScale, {1, 128, 1}},
                                              {kSoftCap, {1, 1024, 1}},
                                              {kForwardProduct, {8, 32, 16}},
                                              {kForwardProduct, {8, 48, 16}},
                                              {kWeightGradientProduct, {48, 16, 8}}};
  for (const OperationKey& key : expected) {
    EXPECT_EQ(times.count(key), 1U) << name_of(key.first) << ' ' << key.second[0];
  }
  for (const auto& [key, seconds] : times) {
    EXPECT_THAT(key.first, testing::AllOf(testing::Ne(kLayerNorm), testing::Ne(kBias),
                                          testing::Ne(kBiasGelu), testing::Ne(kGeluBackward)));
  }
  // A window as long as the sequence hides nothing.
  profiled.model.window_size = 8;
  EXPECT_EQ(time_layers(profiled, run).operations.count({kAttention, {2, 8, 8}}), 1U);
  profiled.model.window_size = 7;
  EXPECT_EQ(time_layers(profiled, run).operations.count({kAttention, {2, 8, 8}}), 0U);
}

// Each operation keeps its own shorter time, whichever run had it; operations of only one run are
// kept, too.
TEST(KeepShorter, TakesOfEveryOperationTheRunThatWasDisturbedLess) {
  using enum DeviceOperation;
  OperationTimes times = {{{kForwardProduct, {8, 8, 8}}, 2.0},
                          {{kForwardProduct, {16, 8, 8}}, 3.0},
                          {{kLayerNorm, {8, 8, 1}}, 1.0}};
  keep_shorter(times, {{{kForwardProduct, {8, 8, 8}}, 1.5},
                       {{kForwardProduct, {16, 8, 8}}, 4.0},
                       {{kBias, {8, 8, 1}}, 5.0}});
  EXPECT_EQ(times, (OperationTimes{{{kForwardProduct, {8, 8, 8}}, 1.5},
                                   {{kForwardProduct, {16, 8, 8}}, 3.0},
                                   {{kLayerNorm, {8, 8, 1}}, 1.0},
                                   {{kBias, {8, 8, 1}}, 5.0}}));
}

}  // namespace
}  // namespace ptdp
