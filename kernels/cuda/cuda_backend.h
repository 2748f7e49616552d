// A GPU as a device: cuBLASLt for products, cuDNN or own kernels for attention, own kernels for the
// rest. This header names no type of CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace ptdp {

/// Returns the number of GPUs of this machine that CUDA can use. It is 0 when the driver is missing
/// or too old. Throws CudaError when the driver fails.
[[nodiscard]] int num_cuda_devices();

/// What CUDA reports about a GPU.
struct CudaDevice {
  std::string name;
  int num_multiprocessors = 0;
  int compute_capability = 0;     ///< Compute capability times 10: 90 for 9.0.
  std::int64_t memory_bytes = 0;  ///< Total memory [B].
  std::string pci_bus_id;         ///< Bus address, such as "0000:1b:00.0".
  int driver_version = 0;         ///< Newest CUDA version of the driver: 13000 for 13.0.
  int runtime_version = 0;        ///< CUDA version of the runtime library: 13000 for 13.0.
};
/// Describes GPU number `device`. Throws CudaError (a std::runtime_error).
[[nodiscard]] CudaDevice describe_cuda_device(int device);

/// Options of a backend on a GPU.
struct CudaOptions {
  int device = 0;  ///< Number of the GPU.
  /// Whether equal inputs give equal bits also in cuBLASLt's products and in cuDNN's backward pass
  /// of attention. Own kernels always give equal bits.
  bool is_deterministic = false;
  bool uses_cudnn = true;  ///< Whether cuDNN computes attention that it supports.
  /// Whether products add biases, activate, and sum bias gradients by cuBLASLt's epilogues.
  bool uses_epilogues = true;
  bool uses_graphs = false;  ///< Whether run_as_graph() makes graphs.
  /// Operations of this backend by which the host may be ahead of compute on its GPU, each of which
  /// queues one to four things. A process may have 1024 queued; a launch beyond them would hold up
  /// all else that the process asks of CUDA.
  int most_operations_ahead = 256;
  /// Called once for each reason why own kernels compute attention, although uses_cudnn is set, or
  /// what follows a product, although uses_epilogues is set. It may be empty. The thread that asks
  /// for the operation calls it.
  std::function<void(const std::string&)> on_note = {};
};

/// Makes one rank's share of a GPU, with streams and memory of its own. Operations take f32, bf16
/// and fp16; those that only move, add or compare also take f64 and i32. Operations are queued;
/// copy_out and synchronize wait. One thread at a time uses a lane. The call and the operations
/// throw CudaError and OutOfMemory.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

}  // namespace ptdp
