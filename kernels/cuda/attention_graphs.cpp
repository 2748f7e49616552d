// Describes passes of attention to cuDNN. NVIDIA, cudnn-frontend, docs/operations/Attention.md,
// says what its operation computes and takes. Its statistics, max + ln(sum of exponentials) of
// scaled scores, are our log_sum.
#include "kernels/cuda/attention_graphs.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

// Graphs are not stored, and need no JSON library.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "kernels/cuda/check.h"

namespace ptdp::cuda {
namespace {

namespace frontend = cudnn_frontend;
using FusedGraph = frontend::graph::Graph;
using GraphTensor = std::shared_ptr<frontend::graph::Tensor_attributes>;

/// How vectors of heads side by side in rows lie in memory [elements].
using Stride = std::int64_t;

/// A GPU that need not be there, or by default none.
struct DescribedGpu {
  std::shared_ptr<const frontend::DeviceProperties> properties;
  int architecture = 0;  ///< Its architecture, 90 for sm_90.
};

/// Builds the graph of one pass, with tensors described as cuDNN wants them.
class GraphBuilder {
 public:
  GraphBuilder(const Attention& shape, DataType type, const AttentionStrides& strides,
               const DescribedGpu& gpu)
      : shape_(shape), strides_(strides), graph_(std::make_shared<FusedGraph>()) {
    graph_
        ->set_io_data_type(type == DataType::kBFloat16 ? frontend::DataType_t::BFLOAT16
                                                       : frontend::DataType_t::HALF)
        .set_intermediate_data_type(frontend::DataType_t::FLOAT)
        .set_compute_data_type(frontend::DataType_t::FLOAT);
    // Before there are operations, which copy it.
    if (gpu.properties) {
      graph_->set_device_properties(gpu.properties);
      graph_->set_sm_version(gpu.architecture);
    }
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
  AttentionStrides strides_;
  std::shared_ptr<FusedGraph> graph_;
};

}  // namespace

// cuDNN's backward pass has given wrong gradients at the ends of sequences that are no multiple of
// its tiles. Sources: cudnn-frontend, issue 160 and pull request 628.
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

struct AttentionGraph::Graph {
  Attention shape;
  DataType type;
  AttentionStrides strides;
  bool is_deterministic;
  std::shared_ptr<FusedGraph> graph;  ///< Null before the first plan().

  /// Makes the graph for the handle's GPU, or with null for the given one. Asks cuDNN for plans and
  /// whether it supports one of them.
  [[nodiscard]] frontend::error_t plan(cudnnHandle_t handle, const DescribedGpu& gpu = {}) {
    GraphBuilder builder(shape, type, strides, gpu);
    graph = strides.dq == 0 ? builder.forward() : builder.backward(is_deterministic);
    frontend::error_t status = graph->validate();
    if (status.is_good()) {
      status = graph->build_operation_graph(handle);
    }
    if (status.is_good()) {
      status = graph->create_execution_plans({frontend::HeurMode_t::A});
    }
    return status.is_good() ? graph->check_support() : status;
  }
};

AttentionGraph::AttentionGraph(const Attention& shape, DataType type,
                               const AttentionStrides& strides, bool is_deterministic)
    : graph_(std::make_unique<Graph>(Graph{shape, type, strides, is_deterministic, nullptr})) {}
AttentionGraph::~AttentionGraph() = default;

std::string AttentionGraph::build(cudnnHandle_t handle) {
  frontend::error_t status = graph_->plan(handle);
  if (status.is_good()) {
    status = graph_->graph->build_plans();
  }
  if (status.is_good()) {
    status = graph_->graph->get_workspace_size(workspace_bytes_);
  }
  return status.is_bad() ? status.get_message() : "";
}

std::string AttentionGraph::refusal_on(const std::string& gpu, int architecture) {
  auto properties = std::make_shared<frontend::DeviceProperties>();
  frontend::error_t status = properties->deserialize({gpu.begin(), gpu.end()});
  if (status.is_bad()) {
    throw CudaError("cuDNN, description of a GPU: " + status.get_message());
  }
  status = graph_->plan(nullptr, {properties, architecture});
  return status.is_bad() ? status.get_message() : "";
}

void AttentionGraph::run(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*> pointers,
                         void* workspace) {
  frontend::error_t status = graph_->graph->execute(handle, pointers, workspace);
  if (status.is_bad()) {
    throw CudaError("cuDNN, execute: " + status.get_message());
  }
}

}  // namespace ptdp::cuda
