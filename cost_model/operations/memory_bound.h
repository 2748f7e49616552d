// Bytes moved by the operations of a layer that memory bandwidth limits, and the time that takes.
#pragma once

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// HBM traffic of one layer and microbatch outside the matrix products [B]. Its units are A = ebsh
/// (the layer's activations of e bytes each; A/t on the sequence-parallel part), and S = eb(a/t)s²
/// (attention scores). Q, K and F are ebs/t times the width of all queries, of all keys and of the
/// MLP:
///
///   forward   norms ×2: 4A; bias-dropout-add ×2: 7A (6A without dropout); QKV bias 2(Q+2K);
///             norms of queries and keys 2(Q+K); rotary positions 2(Q+K); context transpose 2Q;
///             bias-GELU 2F, or gate 3F
///   backward  norms ×2: 10A; bias-dropout-add ×2 with the bias gradient: 7A (0 without dropout);
///             residual gradients ×2: 6A; QKV split 2(Q+2K) and its bias gradient Q+2K; norms of
///             queries and keys 5(Q+K); rotary positions 2(Q+K); context transpose 2Q; bias-GELU
///             with the bias gradient 4F, or gate 5F
///   attention (unfused) softmax and dropout: 4.5S forward, 5.5S backward (2S, 3S without dropout)
///
/// The sum is 11A + 16A/t forward and 23A + 27A/t backward for GPT.
///
/// Relative positions add to attention 5S + 4Q forward: a shift of their scores, the sum with the
/// others, and queries to which each of two vectors is added. Backward they add 3S + 5Q: the shift
/// back, the sum of the queries' gradients, and those of the vectors. Source: counted in
/// modeling_transfo_xl.py of Hugging Face transformers 4.35, which fuses none of this.
///
/// In latent attention K is as wide as Q, and the context as the values. The norms of what is
/// compressed add 2 and 5 passes. The passes of rotary positions are those that put heads together
/// from their two parts.
///
/// When the stack fuses no element-wise operations (SC21 section 5.8), each is a kernel of its own.
/// This adds 8A forward where there are biases or dropout, 2F forward, and 4F backward for a gate.
/// It adds 8(Q+K) in each pass for rotary positions, which are numbers of fp32 then. It also adds
/// 16S forward and 17S backward for scores that are converted, scaled, masked and converted back.
///
/// Rotary positions by complex numbers add 8(Q+K) in each pass to a stack that fuses all else. Of
/// latent attention Q and K are then the parts that are turned. torch.compile has no code for
/// complex numbers, and runs their conversions and their product apart
/// (torch/_inductor/lowering.py, fallback_handler).
///
/// A stack whose rotary kernel has no factor for YaRN's growth applies such positions by operations
/// in the elements' precision. This adds 10(Q+K) forward: two products 4, a negated half 1, two
/// concatenations 4, a sum 3, in place of 2. Backward it adds 12(Q+K): two products 4, the half 1,
/// its concatenation 2, two sums 6, a fill 1. Source: apply_rotary_pos_emb of Megatron-Core
/// b0cc2706dd, megatron/core/models/common/embeddings/rope_utils.py, and PyTorch's autograd.
///
/// Heads that are copied into the order of sequences add 2(Q+2K) forward, and 8K for keys and
/// values that are put together and copied again. Backward they add 4K, and 2(Q+2K) where queries
/// are not grouped. A gate by operations on the halves of one product adds 2F forward, and 8F
/// backward with the copy that puts the halves' gradients together. Source: nanotron 3a45a340
/// (August 2024), src/nanotron/models/llama.py, and PyTorch's autograd.
///
/// A stack that looks tokens up copies rows of queries, keys and values forward, 2(Q+2K), and puts
/// the output's back into zeros, 2Q and Q. Backward it copies as much, into zeros of Q+2K. Source:
/// flash-attn 2.3.6, bert_padding.py (unpad_input for each of the three, pad_input), as
/// llm-foundry 5e85bd62d4 calls them in every layer.
///
/// RMS norms that are composed of PyTorch's operations convert to fp32 and have a kernel for each
/// step. They make 18 passes forward and 46 backward instead of 2 and 5. The final norm counts as
/// one kernel even then.
///
/// A deterministic stack fills what TransformerEngine's kernels return, in a pass of its own.
/// Forward these are norms ×2, projection and second linear layer 4A in all, Q+2K, the context, and
/// F or with a gate 2F. Backward they are the gradients of these layers' inputs: 4A, Q+2K, the
/// context and F. Sequence parallelism adds 4A·t in each pass: results before they are scattered,
/// and inputs that are gathered. Experts, casts and scores of unfused attention are left out.
/// Sources: PyTorch, torch.utils.deterministic.fill_uninitialized_memory, which is on;
/// TransformerEngine d0067d0da6, pytorch/csrc, where at::empty allocates, and
/// pytorch/distributed.py.
///
/// Source: counted from Megatron-LM de7dc40f88, megatron/model/{transformer,fused_softmax}.py, with
/// 2-byte elements and one-byte dropout masks. Gates, rotary positions and composed norms: counted
/// from torchtitan of December 2024, torchtitan/models/llama/model.py and norms.py, and autograd.
struct LayerTraffic {
  Bytes forward;
  Bytes backward;
  /// Softmax, dropout and relative positions of unfused attention; callers with fused attention
  /// leave it out.
  Bytes attention_forward;
  Bytes attention_backward;  ///< Backward passes of softmax and dropout of unfused attention.
  /// Copies of rows that an index chooses; look_up_time() says how long they take.
  Bytes looked_up_forward;
  Bytes looked_up_backward;  ///< Copies of such rows in the backward pass.
};
/// Computes the traffic of one layer and microbatch on one GPU of a tensor-parallel group of `tp`.
[[nodiscard]] LayerTraffic layer_traffic(const TransformerConfig& model, int micro_batch_size,
                                         int tp, bool is_sequence_parallel,
                                         const StackSpec& stack = StackSpec());

/// Time to copy rows that an index chooses, `moved` bytes read and written: moved / (0.2 ·
/// bandwidth). PyTorch computes an address for each number.
///
/// Source: two measurements on an H100 of 3.35 TB/s in April 2025, before PyTorch 2.8 changed it.
/// 4096 rows of 4096 numbers of 2 bytes took 85 us (torchtitan pull request 1083). As many of 5120
/// took 136 us (PyTorch issue 151612). They are 0.24 and 0.19 of it.
[[nodiscard]] Seconds look_up_time(Bytes moved, const GpuSpec& gpu);

/// Whether a stack that fuses other element-wise operations applies rotary positions by single
/// operations, in the elements' precision.
[[nodiscard]] bool applies_rotary_apart(const TransformerConfig& model, const StackSpec& stack);

/// Time to move `traffic` by element-wise kernels: bytes / (memory_efficiency · bandwidth).
[[nodiscard]] Seconds memory_bound_time(Bytes traffic, const GpuSpec& gpu);

}  // namespace ptdp
