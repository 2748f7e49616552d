// The models whose layers are run on a host's cores.
#include <array>

#include "runtime/profiling/profiled_models.h"

namespace ptdp {
namespace {

constexpr double kHostDropout = 0.1;  // what a run takes by default
constexpr std::size_t kFewestHostModels = 6;
using enum ModelParts;

// Shapes roughly in the order of their FLOPs. They have enough layers that a core's caches forget
// what the step before left there.
constexpr std::array<ModelShape, 24> kHostShapes = {{
    {32, 2, 16, 128, 32, 1, 128, 4, kHostDropout},
    {64, 2, 32, 256, 64, 1, 512, 4, kHostDropout},
    {128, 2, 32, 256, 64, 1, 512, 4, kHostDropout},  // a rank of two
    {64, 2, 32, 256, 128, 1, 512, 4, 0.0},
    {64, 2, 32, 192, 64, 1, 512, 4, 0.0, kToday},
    {128, 4, 32, 512, 32, 2, 1024, 4, kHostDropout},
    {128, 4, 32, 352, 128, 1, 1024, 4, 0.0, kToday},
    {64, 2, 32, 256, 64, 8, 512, 4, kHostDropout},
    {128, 2, 64, 512, 128, 1, 1024, 4, 0.0},
    {64, 2, 32, 64, 1024, 1, 128, 2, kHostDropout},
    {128, 1, 128, 128, 1024, 1, 128, 2, kHostDropout},
    {256, 2, 64, 512, 256, 1, 1024, 4, kHostDropout},  // a rank of two
    {128, 2, 64, 512, 256, 2, 2048, 4, kHostDropout},
    {256, 4, 64, 1024, 128, 1, 2048, 4, kHostDropout},
    {256, 4, 64, 704, 256, 1, 2048, 2, 0.0, kToday},
    {512, 4, 64, 704, 128, 1, 2048, 2, 0.0, kToday},  // a rank of two
    {512, 8, 64, 2048, 64, 1, 4096, 2, kHostDropout},
    {512, 2, 64, 512, 256, 1, 1024, 4, kHostDropout},  // a rank of four
    {256, 4, 64, 1024, 512, 1, 2048, 2, 0.0},
    {512, 4, 64, 1024, 512, 1, 2048, 2, kHostDropout},  // a rank of two
    {256, 4, 64, 1024, 256, 2, 4096, 4, kHostDropout},
    {1024, 8, 128, 4096, 128, 1, 4096, 1, kHostDropout},
    {512, 8, 64, 2048, 256, 2, 4096, 2, kHostDropout},
    {1024, 16, 64, 4096, 512, 1, 4096, 1, kHostDropout},
}};

}  // namespace

std::vector<ProfiledModel> host_models(double most_flops) {
  std::vector<ProfiledModel> models;
  for (const ModelShape& shape : kHostShapes) {
    const ProfiledModel model = profiled_model(shape);
    if (models.size() < kFewestHostModels || step_flops(model) <= most_flops) {
      models.push_back(model);
    }
  }
  return models;
}

}  // namespace ptdp
