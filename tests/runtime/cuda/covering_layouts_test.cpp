// Ranks that share one GPU compute what one rank of a host does, in layouts that have every pair of
// values of any two dimensions.
#include "tests/runtime/cuda/training_on_gpu.h"
#include "tests/runtime/layout_sets.h"

namespace ptdp::testing {
namespace {

TEST_F(OnGpuTraining, ComputesTheSameInACoveringSetOfLayouts) {
  Job job = small_job();
  job.type = DataType::kFloat32;
  const Trained alone = train({}, job);
  for (const Layout& layout : pairwise_covering(all_layouts(job))) {
    expect_trains_alike(train_on_gpu(layout, job), alone, 1e-5, to_string(layout));
  }
}

}  // namespace
}  // namespace ptdp::testing
