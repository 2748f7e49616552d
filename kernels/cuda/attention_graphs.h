// Graphs of cuDNN's attention: its operation for scaled dot-product attention, described by the
// templates of cudnn-frontend. A graph is checked for a GPU that need not be there, or built on one
// and run (with_cudnn.cpp).
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "kernels/backend.h"

namespace ptdp::cuda {

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

/// How far rows are apart [elements], by the tensors they belong to. A row has the vectors of a
/// token's heads side by side. Strides of gradients are 0 in a forward pass.
struct AttentionStrides {
  std::int64_t q = 0;
  std::int64_t k = 0;
  std::int64_t v = 0;
  std::int64_t dq = 0;
  std::int64_t dk = 0;
  std::int64_t dv = 0;
};

/// Returns why cuDNN is not even asked to compute attention of this shape, or "" if it is.
[[nodiscard]] std::string why_not_asked(const Attention& shape, DataType type);

/// A graph that computes one pass of attention in bf16 or fp16. It is used by one thread at a time.
class AttentionGraph {
 public:
  /// Describes the forward pass, or with strides of gradients the backward pass.
  AttentionGraph(const Attention& shape, DataType type, const AttentionStrides& strides,
                 bool is_deterministic);
  AttentionGraph(const AttentionGraph&) = delete;
  AttentionGraph& operator=(const AttentionGraph&) = delete;
  AttentionGraph(AttentionGraph&&) = delete;
  AttentionGraph& operator=(AttentionGraph&&) = delete;
  ~AttentionGraph();

  /// Makes the graph ready to run on the handle's GPU. Returns why cuDNN does not compute it, or
  /// "".
  [[nodiscard]] std::string build(cudnnHandle_t handle);
  /// Returns why cuDNN does not compute the graph on a GPU that need not be there, or "". The GPU
  /// is described in cuDNN's JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), its architecture as
  /// 90 for sm_90. The graph is not run after that. Throws CudaError for an unknown description.
  [[nodiscard]] std::string refusal_on(const std::string& gpu, int architecture);
  /// Returns the scratch memory that a built graph needs [B].
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Queues a built graph on the handle's stream, with the addresses of its tensors by
  /// TensorNumber. Throws CudaError.
  void run(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*> pointers, void* workspace);

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace ptdp::cuda
