// Which epilogues of products a GPU has, and what it says of those that it has not.
#include <string>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/epilogue.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

using GpuEpilogue = OnBackend;

/// A product of bf16 matrices [m,k] and [n,k], with m, n and k alike, and buffers of a backend.
struct SquareProduct {
  SquareProduct(Backend& backend, std::int64_t size)
      : product{.m = size, .n = size, .k = size, .transposes_b = true},
        a(backend, DataType::kBFloat16, size * size),
        b(backend, DataType::kBFloat16, size * size),
        c(backend, DataType::kBFloat16, size * size),
        x(backend, DataType::kBFloat16, size * size),
        bias(backend, DataType::kBFloat16, size) {
    for (const Tensor* each : {&a, &b, &bias}) {
      backend.fill(*each, 0.5);
    }
  }
  [[nodiscard]] EpilogueCall with(Epilogue epilogue) const {
    return {.product = product, .a = a, .b = b, .c = c, .epilogue = epilogue, .bias = bias, .x = x};
  }

  Matmul product;
  Tensor a, b, c, x, bias;
};

TEST_F(GpuEpilogue, IsCuBlasLtsForBiasAndGeluByTanh) {
  const SquareProduct square(backend(), 64);
  EXPECT_TRUE(backend().has_epilogue(square.with(Epilogue::kBias)));
  EXPECT_TRUE(backend().has_epilogue(square.with(Epilogue::kActivation)));
  EXPECT_TRUE(backend().has_epilogue(square.with(Epilogue::kActivationGradient)));
  EpilogueCall other = square.with(Epilogue::kActivation);
  for (const ActivationKind kind : {ActivationKind::kGelu, ActivationKind::kRelu,
                                    ActivationKind::kSilu, ActivationKind::kQuickGelu}) {
    other.activation = kind;
    EXPECT_FALSE(backend().has_epilogue(other)) << static_cast<int>(kind);
  }
  const Tensor wide(backend(), DataType::kFloat32, 64 * 64);
  other.activation = ActivationKind::kTanhGelu;
  other.a = other.b = other.c = other.x = wide;
  other.bias = wide.buffer().slice(0, 64);
  EXPECT_FALSE(backend().has_epilogue(other)) << "f32";
  other.epilogue = Epilogue::kBias;
  EXPECT_TRUE(backend().has_epilogue(other)) << "f32";
}

// Weight gradients are f32, and so are the sums of biases.
TEST_F(GpuEpilogue, IsCuBlasLtsForBiasGradientsInF32) {
  const SquareProduct square(backend(), 64);
  const Tensor gradient(backend(), DataType::kFloat32, 64 * 64);
  const Tensor sums(backend(), DataType::kFloat32, 64);
  EpilogueCall weights{.product = {.m = 64, .n = 64, .k = 64, .transposes_a = true},
                       .a = square.a,
                       .b = square.b,
                       .c = gradient,
                       .epilogue = Epilogue::kBiasGradient,
                       .bias_gradient = sums};
  EXPECT_TRUE(backend().has_epilogue(weights));
  weights.c = square.c;
  EXPECT_FALSE(backend().has_epilogue(weights));
}

TEST_F(GpuEpilogue, SaysOnceWhyItIsNotUsed) {
  std::vector<std::string> notes;
  const std::unique_ptr<Backend> gpu =
      make_cuda_backend({.is_deterministic = true,
                         .on_note = [&](const std::string& note) { notes.push_back(note); }});
  const SquareProduct narrow(*gpu, 12);
  for (int call = 0; call < 2; ++call) {
    EXPECT_FALSE(gpu->has_epilogue(narrow.with(Epilogue::kActivation)));
  }
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("own kernels behind a product: "), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("12"), std::string::npos) << notes[0];
}

TEST_F(GpuEpilogue, IsNotUsedIfTheUserDoesNotWantIt) {
  const std::unique_ptr<Backend> gpu = make_cuda_backend(
      {.uses_epilogues = false, .on_note = [](const std::string& note) { ADD_FAILURE() << note; }});
  const SquareProduct square(*gpu, 64);
  for (const Epilogue epilogue :
       {Epilogue::kBias, Epilogue::kActivation, Epilogue::kActivationGradient}) {
    EXPECT_FALSE(gpu->has_epilogue(square.with(epilogue)));
  }
  // 64 · 0.5 · 0.5 + 0.5
  multiply_apart(*gpu, square.with(Epilogue::kBias));
  std::vector<std::uint16_t> bits(64 * 64);
  gpu->copy_out(square.c, bits.data());
  EXPECT_EQ(bits, std::vector<std::uint16_t>(64 * 64, 0x4184));
}

}  // namespace
}  // namespace ptdp
