// CUDA graphs of work that was queued on a stream, to launch it at once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <type_traits>

namespace ptdp::cuda {

/// Keeps CUDA graphs by key. One thread at a time may use it.
class Graphs {
 public:
  /// Runs `issue`, which queues work on `stream`. The first call of a key runs it as it is, so that
  /// what is made only once (plans of libraries, memory) exists afterwards. Later calls capture its
  /// operations and launch them as a graph. If the kernels are the same, the graph of the key is
  /// updated; otherwise a new one is made. Throws CudaError and what `issue` throws.
  void run(cudaStream_t stream, std::int64_t key, const std::function<void()>& issue);

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const noexcept;
    void operator()(cudaGraphExec_t exec) const noexcept;
  };
  using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
  using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

  /// Updates an executable graph with the arguments of `graph`. Returns false when the kernels
  /// differ.
  [[nodiscard]] static bool update(cudaGraphExec_t executable, cudaGraph_t graph);
  /// Captures what `issue` queues on `stream` as a graph.
  [[nodiscard]] static Graph capture(cudaStream_t stream, const std::function<void()>& issue);

  /// Executable graphs by key; null after the first call of the key.
  std::map<std::int64_t, Executable> executables_;
};

}  // namespace ptdp::cuda
