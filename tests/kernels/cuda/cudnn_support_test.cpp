// Asks cuDNN, without a GPU, whether it computes attention as this project's graphs describe it, on
// GPUs that files of gpus/ describe. kernels/cuda/README.md says what the answers are.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/cuda/attention_graphs.h"
#include "kernels/cuda/check.h"

namespace ptdp::cuda {
namespace {

/// The newest cuDNN whose refusals were looked at. A later one may compute more.
constexpr std::size_t kNewestKnown = 92699;
/// The oldest cuDNN that takes descriptions of GPUs.
constexpr std::size_t kOldestWithDescriptions = 90800;
constexpr std::array<std::int64_t, 9> kHeadSizes = {64, 72, 80, 96, 128, 160, 192, 256, 520};

/// A GPU that cuDNN is asked about, and the truth about gradients on it.
struct DescribedGpu {
  std::string file;
  int architecture;
  std::int64_t most_backward;  ///< Largest head of which cuDNN computes gradients.
};

std::string description_of(const std::string& file) {
  std::ifstream in(PTDP_SOURCE_DIR "/tests/kernels/cuda/gpus/" + file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_FALSE(text.empty()) << file;
  return text;
}

// Source of the limits: cudnn-frontend 1.32, scaled_dot_product_flash_attention.h, the requirements
// of SDPA_backward_node; what cuDNN's own engines take is found out here.
std::array<DescribedGpu, 3> described_gpus() {
  return {{{"a100.json", 80, 128}, {"h200.json", 90, 256}, {"b200.json", 100, 128}}};
}
bool takes_gradients(const DescribedGpu& gpu, std::int64_t head_size) {
  constexpr std::size_t blackwell_takes_256 = 92300;
  return head_size <= gpu.most_backward ||
         (gpu.architecture == 100 && head_size == 256 && cudnnGetVersion() >= blackwell_takes_256);
}

/// What one call of the runtime asks for.
struct Case {
  Attention shape;
  AttentionStrides strides;
};

/// Returns the strides of gradients that are written apart from what they replace.
AttentionStrides with_gradients(const Case& asked) {
  AttentionStrides strides = asked.strides;
  strides.dq = asked.shape.heads * asked.shape.head_size;
  strides.dk = strides.dv = asked.shape.key_heads * asked.shape.head_size;
  return strides;
}

/// Returns calls with heads of a size as layers make them (runtime/model/layers/attention.cpp):
/// projections side by side in rows, norms of queries and keys apart from values, one key head that
/// several ranks share.
std::vector<Case> cases_of(std::int64_t d) {
  const auto shape = [d](std::int64_t seq_length, std::int64_t batch, std::int64_t heads,
                         std::int64_t key_heads, std::int64_t window) {
    return Attention{.seq_length = seq_length,
                     .batch = batch,
                     .heads = heads,
                     .key_heads = key_heads,
                     .total_heads = heads,
                     .head_size = d,
                     .scale = 1.0 / std::sqrt(static_cast<double>(d)),
                     .window = window};
  };
  std::vector<Case> cases;
  for (const auto& [heads, key_heads] :
       {std::pair<std::int64_t, std::int64_t>{32, 32}, {32, 8}, {8, 1}}) {
    const std::int64_t row = (heads + 2 * key_heads) * d;
    const std::int64_t normed = (heads + key_heads) * d;
    cases.push_back({shape(128, 1, heads, key_heads, 0), {.q = row, .k = row, .v = row}});
    cases.push_back({shape(4096, 3, heads, key_heads, 512), {.q = row, .k = row, .v = row}});
    cases.push_back({shape(8192, 2, heads, key_heads, 0), {.q = normed, .k = normed, .v = row}});
  }
  cases.push_back({shape(4096, 2, 4, 1, 0), {.q = 6 * d, .k = 2 * d, .v = 2 * d}});
  return cases;
}

std::string text_of(const Case& asked) {
  const Attention& shape = asked.shape;
  return "head " + std::to_string(shape.head_size) + ", heads " + std::to_string(shape.heads) +
         "/" + std::to_string(shape.key_heads) + ", sequences " + std::to_string(shape.batch) +
         " of " + std::to_string(shape.seq_length) + ", window " + std::to_string(shape.window) +
         ", strides " + std::to_string(asked.strides.q) + " " + std::to_string(asked.strides.k) +
         " " + std::to_string(asked.strides.v);
}

/// Calls ask(call, type) for every call of the runtime in the types that cuDNN computes in.
template <class Ask>
void for_all_cases(const Ask& ask) {
  for (const std::int64_t d : kHeadSizes) {
    for (const Case& asked : cases_of(d)) {
      for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
        ASSERT_EQ(why_not_asked(asked.shape, type), "");
        ask(asked, type);
      }
    }
  }
}

class CudnnSupport : public testing::Test {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < kOldestWithDescriptions) {
      GTEST_SKIP() << "cannot ask cuDNN: " << cudnnGetVersion() << " takes no described GPU";
    }
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) {
      GTEST_SKIP() << "cannot ask cuDNN: " << dlerror() << ", and no stub of it";
    }
    dlclose(driver);
  }
};

TEST_F(CudnnSupport, HoldsForForwardPassesOfAllHeads) {
  for (const DescribedGpu& gpu : described_gpus()) {
    const std::string description = description_of(gpu.file);
    for_all_cases([&](const Case& asked, DataType type) {
      AttentionGraph graph(asked.shape, type, asked.strides, /*is_deterministic=*/false);
      EXPECT_EQ(graph.refusal_on(description, gpu.architecture), "")
          << gpu.file << ", " << name_of(type) << ", " << text_of(asked);
    });
  }
}

// Gradients in the order of blocks and in a fixed one.
TEST_F(CudnnSupport, EndsForBackwardPassesAtTheLargestHeadOfAnArchitecture) {
  for (const DescribedGpu& gpu : described_gpus()) {
    const std::string description = description_of(gpu.file);
    for_all_cases([&](const Case& asked, DataType type) {
      const bool is_supported = takes_gradients(gpu, asked.shape.head_size);
      for (const bool is_deterministic : {false, true}) {
        AttentionGraph graph(asked.shape, type, with_gradients(asked), is_deterministic);
        const std::string refusal = graph.refusal_on(description, gpu.architecture);
        if (is_supported || cudnnGetVersion() <= kNewestKnown) {
          EXPECT_EQ(refusal.empty(), is_supported)
              << gpu.file << ", " << name_of(type) << ", " << text_of(asked)
              << (is_deterministic ? ", deterministic: " : ": ") << refusal;
        }
      }
    });
  }
}

// Strides of gradients that take the places of queries, keys and values, which layers do not ask
// for: the runtime lets cuDNN write them apart.
TEST_F(CudnnSupport, IncludesGradientsInTheRowsOfProjections) {
  const DescribedGpu gpu = described_gpus()[1];
  const Case asked = cases_of(128).front();
  AttentionStrides strides = asked.strides;
  strides.dq = strides.dk = strides.dv = strides.q;
  AttentionGraph graph(asked.shape, DataType::kBFloat16, strides, /*is_deterministic=*/true);
  EXPECT_EQ(graph.refusal_on(description_of(gpu.file), gpu.architecture), "");
}

TEST_F(CudnnSupport, IsRefusedByNameForHeadsThatAreTooLarge) {
  const DescribedGpu gpu = described_gpus()[1];
  const Case asked = cases_of(520).front();
  AttentionGraph graph(asked.shape, DataType::kBFloat16, with_gradients(asked),
                       /*is_deterministic=*/false);
  EXPECT_THAT(graph.refusal_on(description_of(gpu.file), gpu.architecture),
              testing::HasSubstr("less than or equal to 256"));
}

// What a description says is what cuDNN goes by.
TEST_F(CudnnSupport, DependsOnTheSharedMemoryOfADescription) {
  std::string description = description_of("h200.json");
  const std::string most = R"("maxSharedMemoryPerBlockOptin": 232448)";
  const std::size_t at = description.find(most);
  ASSERT_NE(at, std::string::npos);
  description.replace(at, most.size(), R"("maxSharedMemoryPerBlockOptin": 16384)");
  const Case asked = cases_of(128).front();
  AttentionGraph graph(asked.shape, DataType::kBFloat16, asked.strides,
                       /*is_deterministic=*/false);
  EXPECT_NE(graph.refusal_on(description, 90), "");
}

TEST_F(CudnnSupport, IsNotAskedForWithABadDescription) {
  const Case asked = cases_of(128).front();
  AttentionGraph graph(asked.shape, DataType::kBFloat16, asked.strides,
                       /*is_deterministic=*/false);
  try {
    static_cast<void>(graph.refusal_on(R"({"deviceVer": 900})", 90));
    FAIL() << "took a GPU of which only the architecture is known";
  } catch (const CudaError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("cuDNN, description of a GPU: "));
  }
}

// These need no cuDNN to answer.
TEST(WhyCudnnIsNotAsked, NamesWhatItDoesNotCompute) {
  const Attention plain = cases_of(128).front().shape;
  EXPECT_EQ(why_not_asked(plain, DataType::kFloat32), "it computes bf16 and fp16, not f32");
  Attention capped = plain;
  capped.soft_cap = 30.0;
  EXPECT_EQ(why_not_asked(capped, DataType::kBFloat16),
            "it does not cap scores, which this model does");
  Attention dropping = plain;
  dropping.dropout.probability = 0.1;
  EXPECT_EQ(why_not_asked(dropping, DataType::kBFloat16),
            "its dropout masks are not those of other layouts (--dropout 0)");
  Attention ragged = plain;
  ragged.seq_length = 100;
  EXPECT_EQ(why_not_asked(ragged, DataType::kFloat16),
            "sequences of 100 and heads of 128 are no multiples of 128 and 8");
  Attention odd = plain;
  odd.head_size = 60;
  EXPECT_EQ(why_not_asked(odd, DataType::kFloat16),
            "sequences of 128 and heads of 60 are no multiples of 128 and 8");
}

}  // namespace
}  // namespace ptdp::cuda
