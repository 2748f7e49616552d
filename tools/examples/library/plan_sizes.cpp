// Plans one model on several numbers of GPUs: which is worth its price?
#include <cstdio>
#include <exception>

#include "cost_model/inputs/catalog/catalog.h"
#include "planner/answer/planning.h"

int main() try {
  const ptdp::ModelProfile model = ptdp::find_model("llama-3-70b");
  for (const int gpus : {256, 512, 1024}) {
    const ptdp::Scenario scenario = {
        .job = {.model_name = model.name, .model = model.config, .global_batch_size = 1024},
        .cluster = ptdp::find_cluster("dgx-h100"),
        .stack = ptdp::find_stack("megatron-core-2024")};
    const ptdp::PlanningResult result =
        ptdp::plan_training(scenario, {.gpus = gpus, .num_best = 1});
    if (result.plans.empty()) {
      std::printf("%4d GPUs: nothing fits\n", gpus);
      continue;
    }
    const ptdp::Plan& best = result.plans.front();
    const double seconds = best.predicted.iteration_time.value.value();
    std::printf("%4d GPUs: %6.2f s, %6.2f GPU-hours per iteration with %s\n", gpus, seconds,
                seconds * gpus / 3600.0, ptdp::to_string(best.config).c_str());
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "plan_sizes: %s\n", error.what());
  return 2;
}
