// Tests of what kernels and operators are for, with names from traces of real runs.
#include "planner/traces/kernel_kinds.h"

#include <gmock/gmock.h>

#include "planner/traces/trace_collectives.h"

namespace ptdp {
namespace {

TEST(KindOfKernel, KnowsTheNamesOfLibraries) {
  struct Known {
    const char* name;
    WorkKind kind;
  };
  for (const Known& known : std::initializer_list<Known>{
           {"nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT", WorkKind::kProduct},
           {"ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", WorkKind::kProduct},
           {"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm>", WorkKind::kProduct},
           {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x192x64", WorkKind::kProduct},
           {"void splitKreduce_kernel<float, float, float>", WorkKind::kProduct},
           {"triton_mm_12", WorkKind::kProduct},
           {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, cutlass::bfloat16_t>>",
            WorkKind::kAttention},
           {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80", WorkKind::kAttention},
           {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", WorkKind::kAttention},
           {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
            WorkKind::kNorm},
           {"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 128>", WorkKind::kNorm},
           {"triton_red_fused_add_addmm_native_layer_norm_3", WorkKind::kNorm},
           {"triton_poi_fused_addmm_gelu_view_26", WorkKind::kElementWise},
           {"triton_poi_fused__scaled_dot_product_flash_attention_cat_4", WorkKind::kElementWise},
           {"void at::native::vectorized_elementwise_kernel<4, at::native::{lambda()#1}>",
            WorkKind::kElementWise},
           {"void fbgemm_gpu::permute_2D_lengths_kernel<int>", WorkKind::kElementWise},
           {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>",
            WorkKind::kOptimizer},
           {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            WorkKind::kCollective},
           {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", WorkKind::kCollective},
           {"__amd_rocclr_copyBuffer", WorkKind::kCopy},
       }) {
    EXPECT_EQ(kind_of_kernel(known.name), known.kind) << known.name;
  }
  EXPECT_EQ(kind_of_copy("Memcpy HtoD (Pinned -> Device)"), WorkKind::kHostCopy);
  EXPECT_EQ(kind_of_copy("Memcpy DtoD (Device -> Device)"), WorkKind::kCopy);
}

TEST(KindOfOperator, KnowsProductsAndAttentionAlone) {
  EXPECT_EQ(kind_of_operator("aten::addmm"), WorkKind::kProduct);
  EXPECT_EQ(kind_of_operator("aten::convolution_backward"), WorkKind::kProduct);
  EXPECT_EQ(kind_of_operator("aten::_flash_attention_forward"), WorkKind::kAttention);
  EXPECT_EQ(kind_of_operator("aten::mul"), std::nullopt);
  EXPECT_EQ(kind_of_operator("mm"), std::nullopt);
}

TEST(CollectiveKindOf, FollowsTheCallAndElseTheKernel) {
  EXPECT_EQ(collective_kind("_allgather_base", "x"), TracedCollective::kAllGather);
  EXPECT_EQ(collective_kind("reduce_scatter_tensor_coalesced", "x"),
            TracedCollective::kReduceScatter);
  EXPECT_EQ(collective_kind("all_to_allv", "ncclDevKernel_SendRecv(x)"),
            TracedCollective::kAllToAll);
  EXPECT_EQ(collective_kind("send", "ncclDevKernel_SendRecv(x)"), TracedCollective::kMessage);
  EXPECT_EQ(collective_kind("", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
            TracedCollective::kMessageOrAllToAll);
  EXPECT_EQ(collective_kind("", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)"),
            TracedCollective::kReduceScatter);
  EXPECT_EQ(collective_kind("", "ncclDevKernel_Generic(x)"), TracedCollective::kOther);
}

// As nccl-tests/doc/PERFORMANCE.md has them, for 4 ranks: 2·3/4, 3/4, 1.
TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(TracedCollective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(TracedCollective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(TracedCollective::kMessage, 4), 1.0);
  EXPECT_DOUBLE_EQ(bus_factor(TracedCollective::kAllReduce, 0), 0.0);
}

TEST(CollectiveSize, IsThatOfTheWhole) {
  const CollectiveCall call{.dtype = "BFloat16", .size = 4, .sent = 100, .gotten = 400};
  EXPECT_EQ(collective_size(TracedCollective::kAllGather, call), Bytes(800.0));
  EXPECT_EQ(collective_size(TracedCollective::kReduceScatter, call), Bytes(200.0));
  EXPECT_EQ(collective_size(TracedCollective::kAllReduce, {.dtype = "?", .sent = 100}), Bytes(0.0));
}

}  // namespace
}  // namespace ptdp
