// Graphs of what was queued on a stream, to launch it at once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <type_traits>

namespace ptdp::cuda {

/// One thread at a time.
class Graphs {
 public:
  /// The first call of a key runs `issue` as it is, so that what is made once (plans of libraries,
  /// memory) is there; from the second on its operations are captured, put into the graph of the
  /// key where they are the same kernels, and launched. Throws CudaError and what `issue` throws.
  void run(cudaStream_t stream, std::int64_t key, const std::function<void()>& issue);

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const noexcept;
    void operator()(cudaGraphExec_t exec) const noexcept;
  };
  using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
  using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

  [[nodiscard]] static bool update(cudaGraphExec_t executable, cudaGraph_t graph);
  [[nodiscard]] static Graph capture(cudaStream_t stream, const std::function<void()>& issue);

  std::map<std::int64_t, Executable> executables_;  ///< Null after the first call.
};

}  // namespace ptdp::cuda
