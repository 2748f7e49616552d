#include "runtime/profiling/profiled_models.h"

#include <algorithm>
#include <array>

namespace ptdp {
namespace {

constexpr double kDropout = 0.1;  // what a run takes unless told otherwise
constexpr std::size_t kFewest = 5;

struct Shape {
  int hidden;
  int heads;
  int head_size;
  int ffn;
  int seq_length;
  int micro_batch_size;
  int vocab;
  int layers;
  double dropout;
};

// In the order of their FLOPs, about; with as many layers as make the caches of a core forget what
// the step before left there.
constexpr std::array<Shape, 20> kShapes = {{
    {32, 2, 16, 128, 32, 1, 128, 4, kDropout},
    {64, 2, 32, 256, 64, 1, 512, 4, kDropout},
    {128, 2, 32, 256, 64, 1, 512, 4, kDropout},  // a rank of two
    {64, 2, 32, 256, 128, 1, 512, 4, 0.0},
    {128, 4, 32, 512, 32, 2, 1024, 4, kDropout},
    {64, 2, 32, 256, 64, 8, 512, 4, kDropout},
    {128, 2, 64, 512, 128, 1, 1024, 4, 0.0},
    {64, 2, 32, 64, 1024, 1, 128, 2, kDropout},
    {128, 1, 128, 128, 1024, 1, 128, 2, kDropout},
    {256, 2, 64, 512, 256, 1, 1024, 4, kDropout},  // a rank of two
    {128, 2, 64, 512, 256, 2, 2048, 4, kDropout},
    {256, 4, 64, 1024, 128, 1, 2048, 4, kDropout},
    {512, 8, 64, 2048, 64, 1, 4096, 2, kDropout},
    {512, 2, 64, 512, 256, 1, 1024, 4, kDropout},  // a rank of four
    {256, 4, 64, 1024, 512, 1, 2048, 2, 0.0},
    {512, 4, 64, 1024, 512, 1, 2048, 2, kDropout},  // a rank of two
    {256, 4, 64, 1024, 256, 2, 4096, 4, kDropout},
    {1024, 8, 128, 4096, 128, 1, 4096, 1, kDropout},
    {512, 8, 64, 2048, 256, 2, 4096, 2, kDropout},
    {1024, 16, 64, 4096, 512, 1, 4096, 1, kDropout},
}};

ProfiledModel profiled_model(const Shape& shape) {
  return {.model = {.num_layers = shape.layers,
                    .hidden_size = shape.hidden,
                    .num_attention_heads = shape.heads,
                    .num_query_groups = shape.heads,
                    .kv_channels = shape.head_size,
                    .ffn_hidden_size = shape.ffn,
                    .vocab_size = shape.vocab,
                    .seq_length = shape.seq_length},
          .micro_batch_size = shape.micro_batch_size,
          .dropout = shape.dropout};
}

}  // namespace

std::vector<ProfiledModel> profiled_models(double most_flops) {
  std::vector<ProfiledModel> models;
  for (const Shape& shape : kShapes) {
    const ProfiledModel model = profiled_model(shape);
    if (models.size() < kFewest || step_flops(model) <= most_flops) {
      models.push_back(model);
    }
  }
  return models;
}

}  // namespace ptdp
