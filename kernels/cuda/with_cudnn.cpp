// Attention by cuDNN: graphs of its operation for scaled dot-product attention, made by the
// templates of cudnn-frontend. NVIDIA, cudnn-frontend, docs/operations/Attention.md, says what they
// compute and take. Their statistics, max + ln(sum of exponentials) of scaled scores, are our
// log_sum.
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
#include <vector>

// Graphs are not stored, and need no JSON library.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/fused_attention.h"
#include "kernels/cuda/operations.h"

namespace ptdp::cuda {
namespace {

namespace frontend = cudnn_frontend;
using FusedGraph = frontend::graph::Graph;
using GraphTensor = std::shared_ptr<frontend::graph::Tensor_attributes>;

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    std::array<char, 512> text{};
    cudnnGetLastErrorString(text.data(), text.size());
    throw CudaError(std::string(call) + ": " + cudnnGetErrorString(status) + ": " + text.data());
  }
}
void check_cudnn(frontend::error_t status, const char* call) {
  if (status.is_bad()) {
    throw CudaError(std::string("cuDNN, ") + call + ": " + status.get_message());
  }
}

struct HandleDeleter {
  void operator()(cudnnHandle_t handle) const { static_cast<void>(cudnnDestroy(handle)); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, HandleDeleter>;

/// Numbers of the tensors of a graph.
enum TensorNumber : std::int64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kOut,
  kLogSum,
  kDout,
  kDqueries,
  kDkeys,
  kDvalues
};

/// A graph that computes one pass, and the workspace that it needs.
struct Pass {
  std::shared_ptr<FusedGraph> graph;
  std::int64_t workspace_bytes = 0;
  std::string refusal;  ///< Why cuDNN does not compute it; empty if it does.
};

/// How vectors of heads side by side in rows lie in memory [elements].
using Stride = std::int64_t;

/// The strides of rows, by the tensors they belong to. Those of gradients are 0 in a forward pass.
struct Strides {
  Stride q = 0;
  Stride k = 0;
  Stride v = 0;
  Stride dq = 0;
  Stride dk = 0;
  Stride dv = 0;
};

/// Builds the graph of one pass, with tensors described as cuDNN wants them.
class GraphBuilder {
 public:
  GraphBuilder(const Attention& shape, DataType type, const Strides& strides)
      : shape_(shape), strides_(strides), graph_(std::make_shared<FusedGraph>()) {
    graph_
        ->set_io_data_type(type == DataType::kBFloat16 ? frontend::DataType_t::BFLOAT16
                                                       : frontend::DataType_t::HALF)
        .set_intermediate_data_type(frontend::DataType_t::FLOAT)
        .set_compute_data_type(frontend::DataType_t::FLOAT);
  }

  /// Returns the graph of the forward pass.
  [[nodiscard]] std::shared_ptr<FusedGraph> forward() {
    auto options = frontend::graph::SDPA_attributes();
    options.set_name("attention").set_generate_stats(true);
    set_scores(options);
    const auto [out, log_sum] = graph_->sdpa(
        input(kQueries, shape_.heads, strides_.q), input(kKeys, shape_.key_heads, strides_.k),
        input(kValues, shape_.key_heads, strides_.v), std::move(options));
    set_output(out, kOut, shape_.heads, stride_of_out());
    log_sum->set_uid(kLogSum).set_dim(rows()).set_stride(row_strides());
    log_sum->set_output(true).set_data_type(frontend::DataType_t::FLOAT);
    return graph_;
  }

  /// Returns the graph of the backward pass.
  [[nodiscard]] std::shared_ptr<FusedGraph> backward(bool is_deterministic) {
    auto options = frontend::graph::SDPA_backward_attributes();
    options.set_name("attention_backward").set_deterministic_algorithm(is_deterministic);
    set_scores(options);
    const GraphTensor out = input(kOut, shape_.heads, stride_of_out());
    const GraphTensor dout = input(kDout, shape_.heads, stride_of_out());
    frontend::graph::Tensor_attributes statistics;
    statistics.set_uid(kLogSum).set_dim(rows()).set_stride(row_strides());
    statistics.set_data_type(frontend::DataType_t::FLOAT);
    const auto [dq, dk, dv] = graph_->sdpa_backward(
        input(kQueries, shape_.heads, strides_.q), input(kKeys, shape_.key_heads, strides_.k),
        input(kValues, shape_.key_heads, strides_.v), out, dout, graph_->tensor(statistics),
        std::move(options));
    set_output(dq, kDqueries, shape_.heads, strides_.dq);
    set_output(dk, kDkeys, shape_.key_heads, strides_.dk);
    set_output(dv, kDvalues, shape_.key_heads, strides_.dv);
    return graph_;
  }

 private:
  /// Sets the scale of scores, and the keys that a query sees: those from `window` − 1 positions
  /// before it to its own.
  template <class Options>
  void set_scores(Options& options) const {
    options.set_attn_scale(static_cast<float>(shape_.scale));
    options.set_diagonal_alignment(frontend::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
    if (shape_.window > 0 && shape_.window < shape_.seq_length) {
      options.set_diagonal_band_left_bound(static_cast<int>(shape_.window));
    }
  }

  /// Returns the dimensions of vectors: [b, heads, s, d].
  [[nodiscard]] std::vector<std::int64_t> vectors(std::int64_t heads) const {
    return {shape_.batch, heads, shape_.seq_length, shape_.head_size};
  }
  /// Returns the strides of [b, heads, s, d] whose rows [s, b] are `stride` elements apart.
  [[nodiscard]] std::vector<std::int64_t> vector_strides(Stride stride) const {
    return {stride, shape_.head_size, shape_.batch * stride, 1};
  }
  [[nodiscard]] Stride stride_of_out() const { return shape_.heads * shape_.head_size; }
  /// Returns the dimensions of a number per query: [b, heads, s, 1].
  [[nodiscard]] std::vector<std::int64_t> rows() const {
    return {shape_.batch, shape_.heads, shape_.seq_length, 1};
  }
  [[nodiscard]] std::vector<std::int64_t> row_strides() const {
    return {shape_.heads * shape_.seq_length, shape_.seq_length, 1, 1};
  }

  [[nodiscard]] GraphTensor input(std::int64_t number, std::int64_t heads, Stride stride) {
    frontend::graph::Tensor_attributes attributes;
    attributes.set_uid(number).set_dim(vectors(heads)).set_stride(vector_strides(stride));
    return graph_->tensor(attributes);
  }
  /// Gives a tensor that a graph has made a number and a layout, and makes it a result.
  void set_output(const GraphTensor& tensor, std::int64_t number, std::int64_t heads,
                  Stride stride) const {
    tensor->set_uid(number).set_dim(vectors(heads)).set_stride(vector_strides(stride));
    tensor->set_output(true);
  }

  Attention shape_;
  Strides strides_;
  std::shared_ptr<FusedGraph> graph_;
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

/// Returns why cuDNN is not even asked, or "" if it is. Its backward pass has given wrong gradients
/// at the ends of sequences that are no multiple of its tiles. Sources: cudnn-frontend, issue 160
/// and pull request 628.
std::string why_not_asked(const Attention& shape, DataType type) {
  constexpr std::int64_t largest_tile = 128;
  constexpr std::int64_t head_multiple = 8;
  if (type != DataType::kBFloat16 && type != DataType::kFloat16) {
    return "it computes bf16 and fp16, not " + std::string(name_of(type));
  }
  if (shape.dropout.probability > 0.0) {
    return "its dropout masks are not those of other layouts (--dropout 0)";
  }
  if (shape.soft_cap > 0.0) {
    return "it does not cap scores, which this model does";
  }
  if (shape.seq_length % largest_tile != 0 || shape.head_size % head_multiple != 0 ||
      shape.seq_length * shape.batch * shape.heads * shape.head_size == 0) {
    return "sequences of " + std::to_string(shape.seq_length) + " and heads of " +
           std::to_string(shape.head_size) + " are no multiples of " +
           std::to_string(largest_tile) + " and " + std::to_string(head_multiple);
  }
  return "";
}

constexpr const char* kNotAligned =
    "queries, keys, values or results are not at multiples of 16 bytes";

}  // namespace

struct FusedAttention::State {
  State(Backend& own_backend, bool deterministic)
      : backend(own_backend), is_deterministic(deterministic) {}

  /// What a graph depends on: the shape's sizes, the type, and the strides of the tensors.
  using Key = std::tuple<std::array<std::int64_t, 6>, double, DataType, std::array<Stride, 6>>;

  /// Returns the graph of a pass, and builds it at its first use. A pass with the strides of
  /// gradients is a backward one.
  Pass& pass_of(const Attention& shape, DataType type, const Strides& strides);
  /// Builds a graph, or sets the refusal.
  void build(const Attention& shape, DataType type, const Strides& strides, Pass& to);
  /// Queues a pass with the given addresses by tensor number.
  void run(cudaStream_t stream, const Pass& pass, std::unordered_map<std::int64_t, void*> pointers);

  Backend& backend;
  bool is_deterministic;
  Handle handle;  ///< Made when a shape is first asked for.
  std::map<Key, Pass> passes;
};

Pass& FusedAttention::State::pass_of(const Attention& shape, DataType type,
                                     const Strides& strides) {
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

void FusedAttention::State::build(const Attention& shape, DataType type, const Strides& strides,
                                  Pass& to) {
  if (handle == nullptr) {
    cudnnHandle_t made = nullptr;
    const cudnnStatus_t status = cudnnCreate(&made);
    if (status != CUDNN_STATUS_SUCCESS) {  // One of cuDNN's libraries may be missing.
      to.refusal = std::string("cudnnCreate: ") + cudnnGetErrorString(status);
      return;
    }
    handle.reset(made);
  }
  GraphBuilder builder(shape, type, strides);
  to.graph = strides.dq == 0 ? builder.forward() : builder.backward(is_deterministic);
  frontend::error_t status = to.graph->build(handle.get(), {frontend::HeurMode_t::A});
  if (status.is_good()) {
    status = to.graph->get_workspace_size(to.workspace_bytes);
  }
  if (status.is_bad()) {
    to.refusal = status.get_message();
  } else if (!is_affordable(to.workspace_bytes, shape, type)) {
    to.refusal = "needs a workspace of " + std::to_string(to.workspace_bytes) + " bytes";
  }
}

void FusedAttention::State::run(cudaStream_t stream, const Pass& pass,
                                std::unordered_map<std::int64_t, void*> pointers) {
  check_cudnn(cudnnSetStream(handle.get(), stream), "cudnnSetStream");
  constexpr std::int64_t word = bytes_of(DataType::kInt32);
  const Tensor workspace(backend, DataType::kInt32, (pass.workspace_bytes + word - 1) / word);
  check_cudnn(pass.graph->execute(handle.get(), pointers, workspace.buffer().data), "execute");
}

namespace {

Strides strides_of(const AttentionCall& call) {
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

Strides strides_of(const AttentionBackwardCall& call) {
  Strides strides{.q = call.q.stride,
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
