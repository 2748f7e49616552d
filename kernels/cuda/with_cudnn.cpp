// Attention by cuDNN: builds a graph of a pass at its first use, keeps it, and runs it.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/attention_graphs.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/fused_attention.h"
#include "kernels/cuda/operations.h"

namespace ptdp::cuda {
namespace {

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    std::array<char, 512> text{};
    cudnnGetLastErrorString(text.data(), text.size());
    throw CudaError(std::string(call) + ": " + cudnnGetErrorString(status) + ": " + text.data());
  }
}

struct HandleDeleter {
  void operator()(cudnnHandle_t handle) const { static_cast<void>(cudnnDestroy(handle)); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, HandleDeleter>;

/// A graph that computes one pass.
struct Pass {
  std::unique_ptr<AttentionGraph> graph;
  std::string refusal;  ///< Why cuDNN does not compute it; empty if it does.
};

/// Alignment of the addresses and of the rows that cuDNN takes [B].
constexpr std::int64_t kAlignment = 16;

bool is_aligned(const Buffer& buffer) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): its address is meant
  return reinterpret_cast<std::uintptr_t>(buffer.data) % kAlignment == 0;
}
bool is_aligned(const VectorRows& rows) {
  return is_aligned(rows.elements) && rows.stride * bytes_of(rows.elements.type) % kAlignment == 0;
}

/// Returns whether a graph may have this much scratch: up to 1 GiB, or up to four times the size of
/// queries, keys and values. Deterministic gradients can take s² elements for each head.
bool is_affordable(std::int64_t workspace_bytes, const Attention& shape, DataType type) {
  constexpr std::int64_t always = std::int64_t{1} << 30U;
  const std::int64_t qkv_bytes = shape.seq_length * shape.batch *
                                 (shape.heads + 2 * shape.key_heads) * shape.head_size *
                                 bytes_of(type);
  return workspace_bytes <= std::max(always, 4 * qkv_bytes);
}

constexpr const char* kNotAligned =
    "queries, keys, values or results are not at multiples of 16 bytes";

}  // namespace

struct FusedAttention::State {
  State(Backend& own_backend, bool deterministic)
      : backend(own_backend), is_deterministic(deterministic) {}

  /// What a graph depends on: the shape's sizes, the type, and the strides of the tensors.
  using Key =
      std::tuple<std::array<std::int64_t, 6>, double, DataType, std::array<std::int64_t, 6>>;

  /// Returns the graph of a pass, and builds it at its first use. A pass with the strides of
  /// gradients is a backward one.
  Pass& pass_of(const Attention& shape, DataType type, const AttentionStrides& strides);
  /// Builds a graph, or sets the refusal.
  void build(const Attention& shape, DataType type, const AttentionStrides& strides, Pass& to);
  /// Queues a pass with the given addresses by tensor number.
  void run(cudaStream_t stream, const Pass& pass, std::unordered_map<std::int64_t, void*> pointers);

  Backend& backend;
  bool is_deterministic;
  Handle handle;  ///< Made when a shape is first asked for.
  std::map<Key, Pass> passes;
};

Pass& FusedAttention::State::pass_of(const Attention& shape, DataType type,
                                     const AttentionStrides& strides) {
  const auto& [q, k, v, dq, dk, dv] = strides;
  const Key key{
      {shape.seq_length, shape.batch, shape.heads, shape.key_heads, shape.head_size, shape.window},
      shape.scale,
      type,
      {q, k, v, dq, dk, dv}};
  const auto [found, is_new] = passes.try_emplace(key);
  if (is_new) {
    build(shape, type, strides, found->second);
  }
  return found->second;
}

void FusedAttention::State::build(const Attention& shape, DataType type,
                                  const AttentionStrides& strides, Pass& to) {
  if (handle == nullptr) {
    cudnnHandle_t made = nullptr;
    const cudnnStatus_t status = cudnnCreate(&made);
    if (status != CUDNN_STATUS_SUCCESS) {  // One of cuDNN's libraries may be missing.
      to.refusal = std::string("cudnnCreate: ") + cudnnGetErrorString(status);
      return;
    }
    handle.reset(made);
  }
  to.graph = std::make_unique<AttentionGraph>(shape, type, strides, is_deterministic);
  to.refusal = to.graph->build(handle.get());
  const std::int64_t workspace_bytes = to.graph->workspace_bytes();
  if (to.refusal.empty() && !is_affordable(workspace_bytes, shape, type)) {
    to.refusal = "needs a workspace of " + std::to_string(workspace_bytes) + " bytes";
  }
}

void FusedAttention::State::run(cudaStream_t stream, const Pass& pass,
                                std::unordered_map<std::int64_t, void*> pointers) {
  check_cudnn(cudnnSetStream(handle.get(), stream), "cudnnSetStream");
  constexpr std::int64_t word = bytes_of(DataType::kInt32);
  const Tensor workspace(backend, DataType::kInt32,
                         (pass.graph->workspace_bytes() + word - 1) / word);
  pass.graph->run(handle.get(), std::move(pointers), workspace.buffer().data);
}

namespace {

AttentionStrides strides_of(const AttentionCall& call) {
  return {.q = call.q.stride, .k = call.k.stride, .v = call.v.stride};
}

/// Returns whether gradients go to memory of their own first, without gaps: nothing guarantees that
/// cuDNN has read what it overwrites.
bool are_apart(const AttentionBackwardCall& call) {
  const auto is_input = [&](const VectorRows& rows) {
    return rows.elements.data == call.q.elements.data ||
           rows.elements.data == call.k.elements.data || rows.elements.data == call.v.elements.data;
  };
  return is_input(call.dq) || is_input(call.dk) || is_input(call.dv);
}

AttentionStrides strides_of(const AttentionBackwardCall& call) {
  AttentionStrides strides{.q = call.q.stride,
                           .k = call.k.stride,
                           .v = call.v.stride,
                           .dq = call.dq.stride,
                           .dk = call.dk.stride,
                           .dv = call.dv.stride};
  if (are_apart(call)) {
    strides.dq = call.shape.heads * call.shape.head_size;
    strides.dk = strides.dv = call.shape.key_heads * call.shape.head_size;
  }
  return strides;
}

}  // namespace

FusedAttention::FusedAttention(Backend& backend, bool is_deterministic)
    : state_(std::make_unique<State>(backend, is_deterministic)) {}
FusedAttention::~FusedAttention() = default;

std::string FusedAttention::refusal(const AttentionCall& call) {
  const std::string reason = why_not_asked(call.shape, call.out.type);
  if (!reason.empty()) {
    return reason;
  }
  if (!is_aligned(call.q) || !is_aligned(call.k) || !is_aligned(call.v) || !is_aligned(call.out) ||
      !is_aligned(call.log_sum)) {
    return kNotAligned;
  }
  return state_->pass_of(call.shape, call.out.type, strides_of(call)).refusal;
}

std::string FusedAttention::refusal(const AttentionBackwardCall& call) {
  const std::string reason = why_not_asked(call.shape, call.out.type);
  if (!reason.empty()) {
    return reason;
  }
  for (const VectorRows* const rows : {&call.q, &call.k, &call.v, &call.dq, &call.dk, &call.dv}) {
    if (!is_aligned(*rows)) {
      return kNotAligned;
    }
  }
  if (!is_aligned(call.out) || !is_aligned(call.dout) || !is_aligned(call.log_sum)) {
    return kNotAligned;
  }
  return state_->pass_of(call.shape, call.out.type, strides_of(call)).refusal;
}

void FusedAttention::forward(cudaStream_t stream, const AttentionCall& call) {
  assert(refusal(call).empty());
  state_->run(stream, state_->pass_of(call.shape, call.out.type, strides_of(call)),
              {{kQueries, call.q.elements.data},
               {kKeys, call.k.elements.data},
               {kValues, call.v.elements.data},
               {kOut, call.out.data},
               {kLogSum, call.log_sum.data}});
}

void FusedAttention::backward(cudaStream_t stream, const AttentionBackwardCall& call) {
  assert(refusal(call).empty());
  const Attention& shape = call.shape;
  const DataType type = call.out.type;
  const std::int64_t tokens = shape.seq_length * shape.batch;
  const std::int64_t num_keys = tokens * shape.key_heads * shape.head_size;
  Tensor apart;
  Buffer dq = call.dq.elements;
  Buffer dk = call.dk.elements;
  Buffer dv = call.dv.elements;
  if (are_apart(call)) {
    apart = Tensor(state_->backend, type, call.out.size + 2 * num_keys);
    dq = apart.buffer().slice(0, call.out.size);
    dk = apart.buffer().slice(call.out.size, num_keys);
    dv = apart.buffer().slice(call.out.size + num_keys, num_keys);
  }
  state_->run(stream, state_->pass_of(shape, type, strides_of(call)),
              {{kQueries, call.q.elements.data},
               {kKeys, call.k.elements.data},
               {kValues, call.v.elements.data},
               {kOut, call.out.data},
               {kLogSum, call.log_sum.data},
               {kDout, call.dout.data},
               {kDqueries, dq.data},
               {kDkeys, dk.data},
               {kDvalues, dv.data}});
  if (!apart.empty()) {
    copy_rows(stream, dq, call.dq, tokens);
    copy_rows(stream, dk, call.dk, tokens);
    copy_rows(stream, dv, call.dv, tokens);
  }
}

}  // namespace ptdp::cuda
