// Captures, updates and launches CUDA graphs.
#include "kernels/cuda/graphs.h"

#include "kernels/cuda/check.h"

namespace ptdp::cuda {

void Graphs::run(cudaStream_t stream, std::int64_t key, const std::function<void()>& issue) {
  const auto [place, is_first] = executables_.try_emplace(key);
  if (is_first) {
    issue();
    return;
  }
  const Graph graph = capture(stream, issue);
  Executable& executable = place->second;
  if (executable == nullptr || !update(executable.get(), graph.get())) {
    executable.reset();
    cudaGraphExec_t made = nullptr;
    PTDP_CUDA_CHECK(cudaGraphInstantiate(&made, graph.get(), 0));
    executable.reset(made);
  }
  PTDP_CUDA_CHECK(cudaGraphLaunch(executable.get(), stream));
}

/// Updates an executable graph with the arguments of `graph`. Returns false when the kernels
/// differ.
bool Graphs::update(cudaGraphExec_t executable, cudaGraph_t graph) {
  cudaGraphExecUpdateResultInfo result{};
  const cudaError_t status = cudaGraphExecUpdate(executable, graph, &result);
  if (status == cudaErrorGraphExecUpdateFailure) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(status, "cudaGraphExecUpdate");
  return true;
}

Graphs::Graph Graphs::capture(cudaStream_t stream, const std::function<void()>& issue) {
  cudaGraph_t graph = nullptr;
  // Relaxed, because memory may be allocated meanwhile.
  PTDP_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  try {
    issue();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    static_cast<void>(cudaGetLastError());
    Graph(graph).reset();
    throw;
  }
  PTDP_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  return Graph(graph);
}

void Graphs::Destroy::operator()(cudaGraph_t graph) const noexcept {
  static_cast<void>(cudaGraphDestroy(graph));
}

void Graphs::Destroy::operator()(cudaGraphExec_t exec) const noexcept {
  static_cast<void>(cudaGraphExecDestroy(exec));
}

}  // namespace ptdp::cuda
