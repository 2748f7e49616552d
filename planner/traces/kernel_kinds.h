// What the GPU works on, by the names of kernels and of the operators that launch them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cost_model/text/named_values.h"

namespace ptdp {

/// What a piece of work on a GPU is for. Of two at once the earlier kind here counts: compute hides
/// communication, communication hides copies between host and device.
enum class WorkKind : std::uint8_t {
  kProduct,      ///< Products of matrices, and convolutions.
  kAttention,    ///< Fused attention.
  kNorm,         ///< Layer, RMS and batch norms.
  kElementWise,  ///< Activations, sums, casts, and all that no other kind names.
  kOptimizer,    ///< Optimizer steps and gradient norms that go through many tensors at once.
  kCopy,         ///< Copies and fills within the device.
  kCollective,   ///< Communication with other ranks.
  kHostCopy,     ///< Copies between host and device.
};

/// The names of all kinds of work, in files and for people.
inline constexpr auto kWorkKindNames =
    std::to_array<NamedValue<WorkKind>>({{WorkKind::kProduct, "products"},
                                         {WorkKind::kAttention, "attention"},
                                         {WorkKind::kNorm, "norms"},
                                         {WorkKind::kElementWise, "element-wise"},
                                         {WorkKind::kOptimizer, "optimizer"},
                                         {WorkKind::kCopy, "copies"},
                                         {WorkKind::kCollective, "communication"},
                                         {WorkKind::kHostCopy, "host copies"}});

/// Returns the kind of work of an operator of PyTorch that is a product or attention; nullopt for
/// all others.
[[nodiscard]] std::optional<WorkKind> kind_of_operator(std::string_view name);

/// Returns the kind of work of a kernel by its name: of cuBLAS, cuDNN, CUTLASS, Triton, NCCL,
/// PyTorch, and their counterparts of ROCm.
[[nodiscard]] WorkKind kind_of_kernel(std::string_view name);

/// Returns the kind of a copy by its name: "Memcpy HtoD (Pinned -> Device)".
[[nodiscard]] WorkKind kind_of_copy(std::string_view name);

}  // namespace ptdp
