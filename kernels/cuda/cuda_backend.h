// A GPU as a device: cuBLASLt for products, cuDNN or own kernels for attention, own kernels for the
// rest. The header names no type of CUDA's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace ptdp {

/// GPUs of this machine that CUDA can use; 0 where there is no driver, or one too old. Throws
/// CudaError where the driver fails.
[[nodiscard]] int num_cuda_devices();

/// What a GPU says of itself.
struct CudaDevice {
  std::string name;
  int num_multiprocessors = 0;
  int compute_capability = 0;     ///< Of 9.0: 90.
  std::int64_t memory_bytes = 0;  ///< All of it.
  std::string pci_bus_id;         ///< "0000:1b:00.0".
  int driver_version = 0;         ///< 13000 is 13.0.
  int runtime_version = 0;
};
/// Throws CudaError (a std::runtime_error).
[[nodiscard]] CudaDevice describe_cuda_device(int device);

struct CudaOptions {
  int device = 0;
  /// Equal inputs give equal bits in attention's backward pass by cuDNN too; own kernels always do.
  bool is_deterministic = false;
  bool uses_cudnn = true;    ///< For attention, where it can.
  bool uses_graphs = false;  ///< run_as_graph makes graphs.
  /// Told once for each reason why attention is computed by own kernels, where cuDNN was to; may be
  /// empty. Of the thread that asks for it.
  std::function<void(const std::string&)> on_note = {};
};

/// A rank's share of a GPU: streams and memory of its own. Operations take f32, bf16 and fp16 (f64
/// and i32 where they only move, add or compare), and are queued; copy_out and synchronize wait.
/// One thread uses a lane at a time. Throws CudaError, and OutOfMemory.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

}  // namespace ptdp
