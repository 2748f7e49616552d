// Tests of the precisions in which stacks train: their names, and what is kept in each.
#include "cost_model/inputs/stack_precision.h"

#include <gmock/gmock.h>

#include <array>
#include <utility>

#include "cost_model/inputs/catalog/catalog.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PrecisionNames, AreThoseOfFlagsAndRows) {
  EXPECT_THAT(precision_names(), ElementsAre("fp16", "bf16", "fp32", "tf32", "fp64", "bf16(pure)",
                                             "fp8", "fp8-delayed", "fp8-current", "fp8-rowwise",
                                             "fp8-block", "fp8-mx", "nvfp4"));
  for (const std::string& name : precision_names()) {
    EXPECT_EQ(find_precision_name(name), name);
  }
  EXPECT_EQ(find_precision_name("mxfp8"), "fp8-mx");
  EXPECT_EQ(find_precision_name("fp5"), std::nullopt);
  for (const auto& [spelling, name] : {std::pair("f16", "fp16"),
                                       {"float16", "fp16"},
                                       {"half", "fp16"},
                                       {"bfloat16", "bf16"},
                                       {"BF16", "bf16"},
                                       {"f32", "fp32"},
                                       {"Float32", "fp32"},
                                       {"TF32", "tf32"},
                                       {"f64", "fp64"},
                                       {"double", "fp64"},
                                       {"FP8", "fp8"},
                                       {"MXFP8", "fp8-mx"},
                                       {"NVFP4", "nvfp4"}}) {
    EXPECT_EQ(find_precision_name(spelling), name);
  }
}

TEST(ChoosePrecision, RefusesByNameWhatAProgramDoesNotComputeIn) {
  const std::array computed = {Precision::kFp64, Precision::kBf16};
  EXPECT_EQ(choose_precision("float64", computed, "--dtype"), Precision::kFp64);
  EXPECT_EQ(choose_precision("bf16", computed, "--dtype"), Precision::kBf16);
  EXPECT_EQ(message_of([&] { return choose_precision("f32", computed, "--dtype"); }),
            "--dtype: expected one of fp64, bf16, got \"f32\", which is fp32");
  EXPECT_EQ(message_of([&] { return choose_precision("fp8", computed, "--dtype"); }),
            "--dtype: expected one of fp64, bf16, got \"fp8\"");
  EXPECT_THAT(message_of([&] { return choose_precision("fp4", computed, "--dtype"); }),
              testing::EndsWith("got \"fp4\"; did you mean \"nvfp4\"?"));
  EXPECT_EQ(choose_precision("MXFP8", "--precision"), "fp8-mx");
}

TEST(WithPrecision, OfNoNameLeavesTheStack) {
  for (const char* name : {"megatron-lm-2021", "megatron-core-2025", "ptdp-cpu"}) {
    EXPECT_EQ(with_precision(find_stack(name), ""), find_stack(name));
  }
}

// Adam in fp32 without a master copy: 16 bytes of state for a parameter. Its step reads 4 numbers
// and writes 3, the norm reads one, clipping reads and writes one, and one is zeroed: 44 bytes.
TEST(WithPrecision, OfFp32KeepsNoMasterCopy) {
  for (const char* name : {"megatron-lm-2021", "megatron-core-2025", "torchtitan-2024"}) {
    for (const char* precision : {"fp32", "tf32"}) {
      const StackSpec stack = with_precision(find_stack(name), precision);
      EXPECT_EQ(name_of(stack.precision), precision);
      EXPECT_EQ(stack.weight_bytes, 4.0);
      EXPECT_EQ(stack.gradient_bytes, 4.0);
      EXPECT_EQ(stack.optimizer_bytes, 8.0);
      EXPECT_EQ(stack.reduced_gradient_bytes, 4.0);
      EXPECT_EQ(stack.optimizer_traffic, 44.0);
      EXPECT_EQ(stack.attention, "unfused");
    }
  }
}

// Buckets of 2 bytes have 4; a host cannot hold more than there is; fused losses of 12 bytes of
// 16-bit logits move 24, those of 52 do so already.
TEST(WithPrecision, OfFp32WidensWhatTheStackHas) {
  const StackSpec old = with_precision(find_stack("megatron-lm-2021"), "fp32");
  EXPECT_EQ(old.gradient_bucket_bytes, 4.0);
  EXPECT_EQ(old.loss_traffic, 52.0);
  StackSpec offloading = find_stack("megatron-core-2025");
  offloading.offloaded_optimizer_bytes = 12.0;
  EXPECT_EQ(with_precision(offloading, "fp32").offloaded_optimizer_bytes, 8.0);
  EXPECT_EQ(with_precision(offloading, "fp32").loss_traffic, 24.0);
  EXPECT_EQ(with_precision(offloading, "fp32").gradient_bucket_bytes, 0.0);
}

// Fused attention is gone, and with it what shares sequences.
TEST(WithPrecision, OfFp32SharesNoSequencesUnlessAttentionWasUnfused) {
  StackSpec stack = find_stack("megatron-core-2025");
  ASSERT_TRUE(stack.can_run.context_parallel);
  EXPECT_FALSE(with_precision(stack, "tf32").can_run.context_parallel);
  stack.attention = "unfused";
  EXPECT_TRUE(with_precision(stack, "tf32").can_run.context_parallel);
}

TEST(WithPrecision, OfFp32HasNoSumThatBf16AllReduces) {
  const StackSpec bf16 = with_precision(find_stack("megatron-deepspeed-2021"), "bf16");
  EXPECT_TRUE(bf16.all_reduces_gradients);
  EXPECT_FALSE(with_precision(bf16, "fp32").all_reduces_gradients);
}

TEST(WithPrecision, OfFp32TakesAnEntryOfTheStack) {
  StackSpec stack = find_stack("megatron-core-2025");
  stack.other_precisions = {{.precision = Precision::kFp32,
                             .weight_bytes = 5.0,
                             .gradient_bytes = 6.0,
                             .optimizer_bytes = 7.0,
                             .reduced_gradient_bytes = 4.5,
                             .optimizer_traffic = 40.0,
                             .loss_traffic = 41.0}};
  for (const char* precision : {"fp32", "tf32"}) {
    const StackSpec wide = with_precision(stack, precision);
    EXPECT_EQ(wide.weight_bytes, 5.0);
    EXPECT_EQ(wide.attention, "cudnn");
    EXPECT_EQ(wide.can_run, stack.can_run);
    EXPECT_EQ(with_precision(wide, "bf16"), stack);
  }
}

TEST(WithPrecision, OfTheRuntimeIsWhatItsListSays) {
  EXPECT_EQ(with_precision(find_stack("ptdp-cuda"), "fp32").optimizer_traffic, 36.0);
  EXPECT_EQ(with_precision(find_stack("ptdp-cuda"), "fp32").attention, "ptdp-cuda");
  StackSpec silent = find_stack("ptdp-cuda");
  silent.other_precisions.clear();
  EXPECT_THAT(message_of([&] { return with_precision(silent, "fp32"); }),
              HasSubstr("stack ptdp-cuda says what it keeps in bf16, not in fp32"));
}

// Composer's PURE: param_dtype and reduce_dtype bf16; the shards of FSDP stay fp32.
TEST(WithPrecision, OfPureBf16ReducesIn2Bytes) {
  const StackSpec composer = find_stack("composer-fsdp-2023");
  EXPECT_EQ(with_precision(composer, "bf16(pure)"), composer);
  const StackSpec titan = with_precision(find_stack("torchtitan-2024"), "bf16(pure)");
  EXPECT_EQ(titan.reduced_gradient_bytes, 2.0);
  EXPECT_EQ(titan.gradient_bytes, 2.0);
  EXPECT_EQ(titan.optimizer_bytes, find_stack("torchtitan-2024").optimizer_bytes);
}

TEST(WithPrecision, OfARecipeStandsBesideBf16) {
  EXPECT_EQ(with_precision(find_stack("megatron-core-2025"), "fp8").fp8, Fp8Scaling::kDelayed);
  EXPECT_EQ(with_precision(find_stack("torchtitan-2024"), "fp8-rowwise").fp8, Fp8Scaling::kRowwise);
  const StackSpec four = with_precision(find_stack("megatron-bridge-2025"), "nvfp4");
  EXPECT_EQ(four.fp8, Fp8Scaling::kNvfp4);
  EXPECT_EQ(four.precision, Precision::kBf16);
  EXPECT_THAT(message_of([] { return with_precision(find_stack("torchtitan-2024"), "nvfp4"); }),
              HasSubstr("stack torchtitan-2024 has no recipe for nvfp4; it has those of "
                        "fp8-current, fp8-rowwise"));
}

// TransformerEngine: "Unsupported quantizer for Userbuffers".
TEST(WithPrecision, OfFourBitsTakesNoUserbuffers) {
  StackSpec stack = find_stack("megatron-bridge-2025");
  ASSERT_EQ(stack.tp_comm_overlap, TpCommOverlap::kUserBuffers);
  EXPECT_EQ(with_precision(stack, "nvfp4").tp_comm_overlap, TpCommOverlap::kNone);
  EXPECT_EQ(with_precision(stack, "fp8-mx").tp_comm_overlap, TpCommOverlap::kUserBuffers);
  stack.tp_comm_overlap = TpCommOverlap::kSymmetricMemory;
  EXPECT_EQ(with_precision(stack, "nvfp4").tp_comm_overlap, TpCommOverlap::kSymmetricMemory);
}

/// Peaks of a data sheet [TFLOP/s], dense; 0: it has none.
struct Sheet {
  const char* gpu;
  double fp32;
  double tf32;
};

// NVIDIA's data sheets. A sheet that says a figure with sparsity halves it; figures of a board of
// eight, or of a rack of 72, are divided by these.
TEST(ShippedGpus, HaveThePeaksOfTheirDataSheets) {
  for (const Sheet& sheet :
       {Sheet{"v100-16gb-sxm2", 15.7, 0.0}, Sheet{"v100-32gb-sxm2", 15.7, 0.0},
        Sheet{"a100-40gb-sxm", 19.5, 312.0 / 2.0}, Sheet{"a100-80gb-sxm", 19.5, 312.0 / 2.0},
        Sheet{"h100-80gb-sxm", 67.0, 989.4 / 2.0}, Sheet{"h100-96gb-hbm2e", 67.0, 989.4 / 2.0},
        Sheet{"h200-141gb-sxm", 67.0, 989.4 / 2.0}, Sheet{"h800-80gb-sxm", 67.0, 989.4 / 2.0},
        Sheet{"b200-180gb-sxm", 600.0 / 8.0, 18'000.0 / 2.0 / 8.0},
        Sheet{"b300-sxm", 600.0 / 8.0, 18'000.0 / 2.0 / 8.0},
        Sheet{"gb200-nvl72", 5760.0 / 72.0, 180'000.0 / 2.0 / 72.0},
        Sheet{"gb300-nvl72", 80.0, 1250.0}}) {
    const GpuSpec gpu = find_gpu(sheet.gpu);
    EXPECT_NEAR(gpu.peak(Precision::kFp32).value() / 1e12, sheet.fp32, 1e-9) << sheet.gpu;
    EXPECT_NEAR(gpu.peak(Precision::kTf32).value() / 1e12, sheet.tf32, 1e-9) << sheet.gpu;
  }
}

}  // namespace
}  // namespace ptdp
