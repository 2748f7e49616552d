// Tests of what a model's file says of the numbers of training, where it differs from GPT-2.
#include <gmock/gmock.h>

#include <vector>

#include "runtime/model/layers/layer_norm.h"
#include "tests/runtime/model/stage_run.h"

namespace ptdp {
namespace {

using ::testing::HasSubstr;

// By hand: (1, -1, 1, -1) has mean 0 and variance 1, so that it is divided by the root of 1 + 3.
TEST(LayerNorm, AddsTheModelsEpsilonToTheVariance) {
  Task task = small_task();
  task.model.hidden_size = 4;
  task.model.seq_length = 1;
  task.model.layernorm_epsilon = 3.0;
  on_ranks(1, [&](Backend& backend, Communicator& group) {
    ParameterStore parameters;
    const LayerContext context(backend, group, parameters, settings_of(task, {}));
    const LayerNorm norm(context, "norm");
    parameters.allocate(backend, task.type, 1);
    const Tensor x = context.tensor(4);
    const Tensor y = context.tensor(4);
    backend.copy_in(std::vector<double>{1.0, -1.0, 1.0, -1.0}.data(), x);
    static_cast<void>(norm.forward(x, y));
    std::vector<double> found(4);
    backend.copy_out(y, found.data());
    EXPECT_THAT(found, ::testing::Pointwise(::testing::DoubleNear(1e-15),
                                            std::vector<double>{0.5, -0.5, 0.5, -0.5}));
  });
}

TEST(LayerContext, DropsByTheRateOfThePlace) {
  Task task = small_task();
  StageSettings settings = settings_of(task, {});
  settings.dropout.embedding = 0.1;
  settings.dropout.attention = 0.2;
  settings.dropout.hidden = 0.3;
  on_ranks(1, [&](Backend& backend, Communicator& group) {
    ParameterStore parameters;
    const LayerContext context(backend, group, parameters, settings);
    const auto rate = [&](DropoutSite site) { return context.dropout({}, 1, site).probability; };
    EXPECT_EQ(rate(DropoutSite::kEmbedding), 0.1);
    EXPECT_EQ(rate(DropoutSite::kAttention), 0.2);
    EXPECT_EQ(rate(DropoutSite::kProjection), 0.3);
    EXPECT_EQ(rate(DropoutSite::kMlp), 0.3);
  });
}

TEST(TransformerStage, NamesTheNumericsThatItCannotRun) {
  const auto feature_of = [](void (*change)(TransformerConfig&)) {
    TransformerConfig model = small_task().model;
    change(model);
    return find_unsupported_feature(model);
  };
  EXPECT_EQ(feature_of([](TransformerConfig& model) {
              model.layernorm_epsilon = 0.5;
              model.init_method_std = 0.5;
              model.dropout_rates = 0.5;
            }),
            "");
  EXPECT_THAT(
      feature_of([](TransformerConfig& model) { model.activation_func = Activation::kRelu; }),
      HasSubstr("has the activation relu"));
  EXPECT_THAT(
      feature_of([](TransformerConfig& model) { model.activation_func = Activation::kGelu; }),
      HasSubstr("has the activation gelu"));
  EXPECT_THAT(feature_of([](TransformerConfig& model) { model.scale_attn_weights = false; }),
              HasSubstr("scale_attn_weights"));
  EXPECT_THAT(
      feature_of([](TransformerConfig& model) { model.scale_attn_by_inverse_layer_idx = true; }),
      HasSubstr("scale_attn_by_inverse_layer_idx"));
}

}  // namespace
}  // namespace ptdp
