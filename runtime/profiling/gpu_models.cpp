// The models whose layers are run on a GPU.
#include <array>

#include "runtime/profiling/profiled_models.h"

namespace ptdp {
namespace {

constexpr double kGpuDropout = 0.1;
constexpr std::size_t kFewestGpuModels = 4;
using enum ModelParts;
// GPT-2's vocabulary, padded, and its shares on 2, 4 and 8 ranks.
constexpr int kWhole = 50304;
constexpr int kHalf = 25216;
constexpr int kQuarter = 12672;
constexpr int kEighth = 6400;

// Shapes that plans give a GPU: hidden sizes from 1024 on, whole and as 2, 4 and 8 ranks share
// them. They have 1k to 64k tokens in sequences of 1k to 16k, and are roughly in the order of their
// FLOPs. Three large ones come early, so that short measurements have them, too: small models draw
// less than the power limit, and their products say nothing of the clock that it leaves to large
// ones. The models of today are like Llama 2's and 3's. Attention with dropout uses a kernel of
// this project, which takes long; one model says how its rate grows with length and heads.
constexpr std::array<ModelShape, 37> kGpuShapes = {{
    {1024, 16, 64, 4096, 1024, 1, kEighth, 2, kGpuDropout},
    {1024, 16, 64, 4096, 1024, 1, kWhole, 2, 0.0},
    {1024, 2, 64, 512, 2048, 2, kEighth, 4, 0.0},             // a rank of eight
    {2048, 4, 128, 2048, 1024, 2, kQuarter, 2, kGpuDropout},  // a rank of four
    {4096, 32, 128, 16384, 4096, 1, kEighth, 1, kGpuDropout},
    {4096, 32, 128, 16384, 4096, 1, kWhole, 1, 0.0},
    {8192, 64, 128, 32768, 4096, 2, kWhole, 1, 0.0},
    {12288, 96, 128, 49152, 1024, 1, kWhole, 1, 0.0},
    {1600, 25, 64, 6400, 1024, 2, kWhole, 2, kGpuDropout},
    {1024, 8, 128, 4096, 2048, 4, kEighth, 2, 0.0},
    {2048, 16, 128, 8192, 2048, 1, kWhole, 1, 0.0},
    {2048, 16, 128, 5632, 1024, 2, kQuarter, 2, 0.0, kToday},
    {4096, 4, 128, 2048, 2048, 1, kEighth, 2, 0.0},  // a rank of eight
    {4096, 32, 128, 16384, 1024, 1, kEighth, 1, kGpuDropout},
    {1600, 25, 64, 6400, 1024, 8, kWhole, 1, 0.0},
    {4096, 4, 128, 1792, 4096, 1, kEighth, 2, 0.0, kToday},  // a rank of eight
    {1024, 16, 64, 4096, 16384, 1, kEighth, 1, 0.0},
    {4096, 8, 128, 4096, 4096, 2, kQuarter, 2, 0.0},  // a rank of four
    {2048, 16, 128, 8192, 2048, 8, kHalf, 1, 0.0},
    {1024, 16, 64, 4096, 1024, 64, kEighth, 1, 0.0},
    {4096, 8, 128, 3584, 4096, 2, kQuarter, 2, 0.0, kToday},  // a rank of four
    {4096, 16, 128, 8192, 2048, 4, kHalf, 1, 0.0},            // a rank of two
    {8192, 8, 128, 4096, 4096, 2, kEighth, 1, 0.0},           // a rank of eight
    {8192, 8, 128, 3584, 4096, 2, kEighth, 1, 0.0, kToday},   // a rank of eight
    {8192, 64, 128, 32768, 2048, 1, kEighth, 1, 0.0},
    {2048, 4, 128, 2048, 16384, 4, kEighth, 1, 0.0},    // a rank of four
    {8192, 16, 128, 8192, 4096, 4, kQuarter, 1, 0.0},   // a rank of four
    {12288, 12, 128, 6144, 16384, 1, kEighth, 1, 0.0},  // a rank of eight
    {2048, 32, 64, 8192, 4096, 16, kQuarter, 1, 0.0},
    {4096, 32, 128, 11008, 4096, 2, kHalf, 1, 0.0, kToday},
    {4096, 32, 128, 16384, 16384, 1, kEighth, 1, 0.0},
    {4096, 32, 128, 16384, 4096, 4, kWhole, 1, 0.0},
    {4096, 32, 128, 16384, 4096, 16, kEighth, 1, 0.0},
    {8192, 32, 128, 14336, 4096, 2, kEighth, 1, 0.0, kToday},  // a rank of two
    {12288, 96, 128, 49152, 2048, 4, kEighth, 1, 0.0},
    {8192, 8, 128, 4096, 16384, 4, kEighth, 1, 0.0},  // a rank of eight
    {8192, 64, 128, 32768, 8192, 4, kEighth, 1, 0.0},
}};

}  // namespace

std::vector<ProfiledModel> gpu_models(double most_flops) {
  std::vector<ProfiledModel> models;
  for (const ModelShape& shape : kGpuShapes) {
    const ProfiledModel model = profiled_model(shape);
    if (models.size() < kFewestGpuModels || step_flops(model) <= most_flops) {
      models.push_back(model);
    }
  }
  return models;
}

}  // namespace ptdp
