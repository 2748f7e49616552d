// Attention by cuDNN: graphs of its operation for scaled dot-product attention, made by the
// templates of cudnn-frontend. NVIDIA, cudnn-frontend, docs/operations/Attention.md, says what they
// compute and take. Their statistics, max + ln(sum of exponentials) of scaled scores, are our
// log_sum.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
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

/// Gives a tensor that a graph has made a number and a layout.
void describe(const GraphTensor& tensor, std::int64_t number, const std::vector<std::int64_t>& dims,
              const std::vector<std::int64_t>& strides) {
  tensor->set_uid(number).set_dim(dims).set_stride(strides);
}

/// A graph that computes one pass, and the workspace that it needs.
struct Pass {
  std::shared_ptr<FusedGraph> graph;
  std::int64_t workspace_bytes = 0;
};

/// Builds the graphs of one shape and type, with tensors described as cuDNN wants them.
class GraphBuilder {
 public:
  GraphBuilder(const Attention& shape, DataType type)
      : shape_(shape), graph_(std::make_shared<FusedGraph>()) {
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
    const auto [out, log_sum] = graph_->sdpa(part_of_qkv(kQueries), part_of_qkv(kKeys),
                                             part_of_qkv(kValues), std::move(options));
    describe(out, kOut, vectors(), strides(/*of_each=*/1));
    describe(log_sum, kLogSum, rows(), row_strides());
    out->set_output(true);
    log_sum->set_output(true).set_data_type(frontend::DataType_t::FLOAT);
    return graph_;
  }

  /// Returns the graph of the backward pass.
  [[nodiscard]] std::shared_ptr<FusedGraph> backward(bool is_deterministic) {
    auto options = frontend::graph::SDPA_backward_attributes();
    options.set_name("attention_backward").set_deterministic_algorithm(is_deterministic);
    set_scores(options);
    const GraphTensor out = input(kOut, strides(/*of_each=*/1));
    const GraphTensor dout = input(kDout, strides(/*of_each=*/1));
    frontend::graph::Tensor_attributes statistics;
    statistics.set_uid(kLogSum).set_dim(rows()).set_stride(row_strides());
    statistics.set_data_type(frontend::DataType_t::FLOAT);
    const auto gradients =
        graph_->sdpa_backward(part_of_qkv(kQueries), part_of_qkv(kKeys), part_of_qkv(kValues), out,
                              dout, graph_->tensor(statistics), std::move(options));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      describe(gradients[i], kDqueries + static_cast<std::int64_t>(i), vectors(),
               strides(/*of_each=*/3));
      gradients[i]->set_output(true);
    }
    return graph_;
  }

 private:
  template <class Options>
  /// Sets the scale of scores, and the causal mask.
  void set_scores(Options& options) const {
    options.set_attn_scale(
        static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape_.head_size))));
    options.set_diagonal_alignment(frontend::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
  }

  /// Returns the dimensions of vectors: [b, heads, s, d].
  [[nodiscard]] std::vector<std::int64_t> vectors() const {
    return {shape_.batch, shape_.heads, shape_.seq_length, shape_.head_size};
  }
  /// Returns the strides of [b, heads, s, d] in memory laid out as [s, b, heads, of_each, d].
  [[nodiscard]] std::vector<std::int64_t> strides(std::int64_t of_each) const {
    const std::int64_t of_head = of_each * shape_.head_size;
    const std::int64_t of_sequence = shape_.heads * of_head;
    return {of_sequence, of_head, shape_.batch * of_sequence, 1};
  }
  /// Returns the dimensions of a number per query: [b, heads, s, 1].
  [[nodiscard]] std::vector<std::int64_t> rows() const {
    return {shape_.batch, shape_.heads, shape_.seq_length, 1};
  }
  [[nodiscard]] std::vector<std::int64_t> row_strides() const {
    return {shape_.heads * shape_.seq_length, shape_.seq_length, 1, 1};
  }

  [[nodiscard]] GraphTensor input(std::int64_t number, const std::vector<std::int64_t>& strides) {
    frontend::graph::Tensor_attributes attributes;
    attributes.set_uid(number).set_dim(vectors()).set_stride(strides);
    return graph_->tensor(attributes);
  }
  [[nodiscard]] GraphTensor part_of_qkv(std::int64_t number) {
    return input(number, strides(/*of_each=*/3));
  }

  Attention shape_;
  std::shared_ptr<FusedGraph> graph_;
};

/// Alignment of the addresses that cuDNN takes [B].
constexpr std::uintptr_t kPointerAlignment = 16;

/// A buffer that cuDNN may read or write: the caller's, or an aligned one that stands in for it.
class Placed {
 public:
  /// Uses a stand-in when `meant` is not aligned or `is_apart` is set.
  Placed(Backend& backend, Buffer meant, bool is_apart = false) : meant_(meant) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): its address is meant
    if (is_apart || reinterpret_cast<std::uintptr_t>(meant.data) % kPointerAlignment != 0) {
      instead_ = Tensor(backend, meant.type, meant.size);
    }
  }

  [[nodiscard]] void* pointer() const { return instead_.empty() ? meant_.data : buffer().data; }
  /// Returns the address of element `i`.
  [[nodiscard]] void* pointer(std::int64_t i) const {
    return static_cast<std::byte*>(pointer()) + i * bytes_of(meant_.type);
  }
  /// Copies the caller's buffer to the stand-in, if there is one.
  void load(cudaStream_t stream) const {
    if (!instead_.empty()) {
      copy(stream, meant_, buffer());
    }
  }
  /// Copies the stand-in to the caller's buffer, if there is one.
  void store(cudaStream_t stream) const {
    if (!instead_.empty()) {
      copy(stream, buffer(), meant_);
    }
  }

 private:
  [[nodiscard]] const Buffer& buffer() const { return instead_.buffer(); }
  static void copy(cudaStream_t stream, Buffer from, Buffer to) {
    PTDP_CUDA_CHECK(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(to.bytes()),
                                    cudaMemcpyDeviceToDevice, stream));
  }

  Buffer meant_;
  Tensor instead_;
};

/// Returns whether a graph may have this much scratch: up to 1 GiB, or up to four times the size of
/// qkv. Deterministic gradients can take s² elements for each head.
bool is_affordable(std::int64_t workspace_bytes, const Attention& shape, DataType type) {
  constexpr std::int64_t always = std::int64_t{1} << 30U;
  const std::int64_t qkv_bytes =
      shape.seq_length * shape.batch * shape.heads * 3 * shape.head_size * bytes_of(type);
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
  if (shape.seq_length % largest_tile != 0 || shape.head_size % head_multiple != 0 ||
      shape.seq_length * shape.batch * shape.heads * shape.head_size == 0) {
    return "sequences of " + std::to_string(shape.seq_length) + " and heads of " +
           std::to_string(shape.head_size) + " are no multiples of " +
           std::to_string(largest_tile) + " and " + std::to_string(head_multiple);
  }
  return "";
}

}  // namespace

struct FusedAttention::State {
  State(Backend& own_backend, bool deterministic)
      : backend(own_backend), is_deterministic(deterministic) {}

  /// The graphs of one shape and type.
  struct Graphs {
    Pass forward;
    Pass backward;
    std::string refusal;  ///< Why cuDNN does not compute it; empty if it does.
  };
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, DataType>;

  /// Returns the graphs of a shape and type, and builds them at their first use.
  Graphs& graphs_of(const Attention& shape, DataType type);
  /// Builds the graphs of a shape and type, or sets the refusal.
  void build(const Attention& shape, DataType type, Graphs& to);
  /// Queues a pass with the given addresses by tensor number.
  void run(cudaStream_t stream, const Pass& pass, std::unordered_map<std::int64_t, void*> pointers);

  Backend& backend;
  bool is_deterministic;
  Handle handle;  ///< Made when a shape is first asked for.
  std::map<Key, Graphs> graphs;
};

FusedAttention::State::Graphs& FusedAttention::State::graphs_of(const Attention& shape,
                                                                DataType type) {
  const Key key{shape.seq_length, shape.batch, shape.heads, shape.head_size, type};
  const auto [found, is_new] = graphs.try_emplace(key);
  if (is_new) {
    build(shape, type, found->second);
  }
  return found->second;
}

void FusedAttention::State::build(const Attention& shape, DataType type, Graphs& to) {
  if (handle == nullptr) {
    cudnnHandle_t made = nullptr;
    const cudnnStatus_t status = cudnnCreate(&made);
    if (status != CUDNN_STATUS_SUCCESS) {  // One of cuDNN's libraries may be missing.
      to.refusal = std::string("cudnnCreate: ") + cudnnGetErrorString(status);
      return;
    }
    handle.reset(made);
  }
  to.forward.graph = GraphBuilder(shape, type).forward();
  to.backward.graph = GraphBuilder(shape, type).backward(is_deterministic);
  for (Pass* const pass : {&to.forward, &to.backward}) {
    frontend::error_t status = pass->graph->build(handle.get(), {frontend::HeurMode_t::A});
    if (status.is_good()) {
      status = pass->graph->get_workspace_size(pass->workspace_bytes);
    }
    if (status.is_bad()) {
      to.refusal = status.get_message();
    } else if (!is_affordable(pass->workspace_bytes, shape, type)) {
      to.refusal = "needs a workspace of " + std::to_string(pass->workspace_bytes) + " bytes";
    }
    if (!to.refusal.empty()) {
      return;
    }
  }
}

void FusedAttention::State::run(cudaStream_t stream, const Pass& pass,
                                std::unordered_map<std::int64_t, void*> pointers) {
  check_cudnn(cudnnSetStream(handle.get(), stream), "cudnnSetStream");
  constexpr std::int64_t word = bytes_of(DataType::kInt32);
  const Tensor workspace(backend, DataType::kInt32, (pass.workspace_bytes + word - 1) / word);
  check_cudnn(pass.graph->execute(handle.get(), pointers, workspace.buffer().data), "execute");
}

FusedAttention::FusedAttention(Backend& backend, bool is_deterministic)
    : state_(std::make_unique<State>(backend, is_deterministic)) {}
FusedAttention::~FusedAttention() = default;

std::string FusedAttention::refusal(const Attention& shape, DataType type) {
  const std::string reason = why_not_asked(shape, type);
  return reason.empty() ? state_->graphs_of(shape, type).refusal : reason;
}

void FusedAttention::forward(cudaStream_t stream, const Attention& shape, Buffer qkv, Buffer out,
                             Buffer log_sum) {
  assert(supports(shape, qkv.type));
  const Placed in(state_->backend, qkv);
  const Placed to(state_->backend, out);
  const Placed statistics(state_->backend, log_sum);
  in.load(stream);
  state_->run(stream, state_->graphs_of(shape, qkv.type).forward,
              {{kQueries, in.pointer(0)},
               {kKeys, in.pointer(shape.head_size)},
               {kValues, in.pointer(2 * shape.head_size)},
               {kOut, to.pointer()},
               {kLogSum, statistics.pointer()}});
  to.store(stream);
  statistics.store(stream);
}

void FusedAttention::backward(cudaStream_t stream, const Attention& shape, Buffer qkv, Buffer out,
                              Buffer log_sum, Buffer dout, Buffer dqkv) {
  assert(supports(shape, qkv.type));
  const Placed in(state_->backend, qkv);
  const Placed results(state_->backend, out);
  const Placed statistics(state_->backend, log_sum);
  const Placed gradients(state_->backend, dout);
  // Nothing guarantees that cuDNN has read what it overwrites.
  const Placed to(state_->backend, dqkv, /*is_apart=*/dqkv.data == qkv.data);
  for (const Placed* const input : {&in, &results, &statistics, &gradients}) {
    input->load(stream);
  }
  const std::int64_t d = shape.head_size;
  state_->run(stream, state_->graphs_of(shape, qkv.type).backward,
              {{kQueries, in.pointer(0)},
               {kKeys, in.pointer(d)},
               {kValues, in.pointer(2 * d)},
               {kOut, results.pointer()},
               {kLogSum, statistics.pointer()},
               {kDout, gradients.pointer()},
               {kDqueries, to.pointer(0)},
               {kDkeys, to.pointer(d)},
               {kDvalues, to.pointer(2 * d)}});
  to.store(stream);
}

}  // namespace ptdp::cuda
