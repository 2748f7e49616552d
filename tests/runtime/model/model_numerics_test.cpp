// Tests of what a model's file says of the numbers of training, where it differs from GPT-2.
#include <gmock/gmock.h>

#include <vector>

#include "runtime/model/layers/norm.h"
#include "tests/runtime/model/stage_run.h"

namespace ptdp {
namespace {

// By hand: (1, -1, 1, -1) has mean 0 and variance 1, so that it is divided by the root of 1 + 3.
TEST(Norm, AddsTheModelsEpsilonToTheVariance) {
  Task task = small_task();
  task.model.hidden_size = 4;
  task.model.seq_length = 1;
  task.model.layernorm_epsilon = 3.0;
  on_ranks(1, [&](Backend& backend, Communicator& group) {
    ParameterStore parameters;
    const LayerContext context(backend, group, parameters, settings_of(task, {}));
    const Norm norm(context, "norm");
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

}  // namespace
}  // namespace ptdp
