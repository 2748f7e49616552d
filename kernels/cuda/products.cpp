// Plans products by cuBLASLt and times its algorithms.
#include "kernels/cuda/products.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/events.h"

namespace ptdp::cuda {
namespace {

/// Size of cuBLASLt's workspace that NVIDIA recommends for Hopper [B]. Source: cuBLAS
/// documentation, cublasSetWorkspace().
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20U;
constexpr int kMostCandidates = 8;
constexpr int kTimedRuns = 4;
constexpr float kLongProduct = 0.5F;  // Milliseconds; for longer products one run tells enough.
constexpr std::uintptr_t kMostAlignment = 256;

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw CudaError(std::string(call) + ": " + cublasLtGetStatusName(status) + ": " +
                    cublasLtGetStatusString(status));
  }
}
#define PTDP_CUBLAS_CHECK(call) check((call), #call)

struct Destroy {
  void operator()(cublasLtHandle_t handle) const noexcept {
    static_cast<void>(cublasLtDestroy(handle));
  }
  void operator()(cublasLtMatmulDesc_t descriptor) const noexcept {
    static_cast<void>(cublasLtMatmulDescDestroy(descriptor));
  }
  void operator()(cublasLtMatrixLayout_t layout) const noexcept {
    static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
  }
  void operator()(cublasLtMatmulPreference_t preference) const noexcept {
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
  }
  void operator()(cudaEvent_t event) const noexcept { static_cast<void>(cudaEventDestroy(event)); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

cudaDataType_t cuda_type_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return CUDA_R_64F;
    case DataType::kFloat32:
      return CUDA_R_32F;
    case DataType::kBFloat16:
      return CUDA_R_16BF;
    case DataType::kFloat16:
      return CUDA_R_16F;
    case DataType::kInt32:
      break;
  }
  assert(false && "not a type that is multiplied");
  return CUDA_R_32F;
}

/// Returns the largest power of two that divides an address, at most kMostAlignment [B].
std::uint32_t alignment_of(const void* memory) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): its address is meant
  const auto address = reinterpret_cast<std::uintptr_t>(memory) | kMostAlignment;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

/// What products must have in common to share a plan.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, DataType,
                       DataType, std::uint32_t, std::uint32_t, std::uint32_t>;
Key key_of(const ProductCall& call) {
  [[maybe_unused]] const Matmul& product = call.product;
  return {product.m,
          product.n,
          product.k,
          product.transposes_a,
          product.transposes_b,
          product.accumulates,
          call.a.type,
          call.c.type,
          alignment_of(call.a.data),
          alignment_of(call.b.data),
          alignment_of(call.c.data)};
}

/// The descriptors and the algorithm of a product. cuBLAS counts columns first, so that a row-major
/// matrix is its transpose there. It is asked for cᵀ[n,m] = op(b)ᵀ·op(a)ᵀ, whose first operand is
/// b.
struct Plan {
  Owned<cublasLtMatmulDesc_t> descriptor;
  Owned<cublasLtMatrixLayout_t> b;
  Owned<cublasLtMatrixLayout_t> a;
  Owned<cublasLtMatrixLayout_t> c;
  cublasLtMatmulAlgo_t algorithm{};
  bool is_chosen = false;  ///< Not merely the first proposed, as during a capture.
};

/// Returns the layout of a matrix that has `rows` rows when columns are counted first.
Owned<cublasLtMatrixLayout_t> layout_of(DataType type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  PTDP_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, cuda_type_of(type),
                                               static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), rows));
  return Owned<cublasLtMatrixLayout_t>(layout);
}

template <class Value>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  PTDP_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof(value)));
}
template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  PTDP_CUBLAS_CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

/// Returns the plan of a product, without an algorithm.
Plan described(const ProductCall& call) {
  const auto [m, n, k, transposes_a, transposes_b, accumulates] = call.product;
  Plan plan;
  cublasLtMatmulDesc_t descriptor = nullptr;
  PTDP_CUBLAS_CHECK(cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  plan.descriptor.reset(descriptor);
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSB, transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan.b = transposes_b ? layout_of(call.b.type, k, n) : layout_of(call.b.type, n, k);
  plan.a = transposes_a ? layout_of(call.a.type, m, k) : layout_of(call.a.type, k, m);
  plan.c = layout_of(call.c.type, n, m);
  return plan;
}

/// Returns the algorithms that cuBLASLt proposes. Throws CudaError when there are none.
std::vector<cublasLtMatmulAlgo_t> proposed(cublasLtHandle_t handle, const Plan& plan,
                                           const ProductCall& call) {
  cublasLtMatmulPreference_t made = nullptr;
  PTDP_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
  const Owned<cublasLtMatmulPreference_t> preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
  // Partial sums are kept in f32, and are not added in the order in which they come.
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(call.b.data));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(call.a.data));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(call.c.data));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(call.c.data));
  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> results{};
  int count = 0;
  PTDP_CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(handle, plan.descriptor.get(), plan.b.get(),
                                                   plan.a.get(), plan.c.get(), plan.c.get(), made,
                                                   kMostCandidates, results.data(), &count));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS) {
      algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
    }
  }
  if (algorithms.empty()) {
    throw CudaError("cuBLASLt has no algorithm for a product of " + std::to_string(call.product.m) +
                    " x " + std::to_string(call.product.n) + " x " +
                    std::to_string(call.product.k) + " in " + std::string(name_of(call.a.type)));
  }
  return algorithms;
}

Owned<cudaEvent_t> new_event() {
  cudaEvent_t event = nullptr;
  PTDP_CUDA_CHECK(cudaEventCreate(&event));
  return Owned<cudaEvent_t>(event);
}

}  // namespace

struct Products::State {
  State(Backend& of, bool chooses_the_first) : backend(of), takes_first(chooses_the_first) {
    cublasLtHandle_t made = nullptr;
    PTDP_CUBLAS_CHECK(cublasLtCreate(&made));
    handle.reset(made);
  }

  /// Queues a product that writes to `result`, and returns cuBLASLt's status.
  [[nodiscard]] cublasStatus_t run(cudaStream_t stream, const Plan& plan, const ProductCall& call,
                                   void* result, const cublasLtMatmulAlgo_t& algorithm) const {
    const float alpha = 1.0F;
    const float beta = call.product.accumulates ? 1.0F : 0.0F;
    return cublasLtMatmul(handle.get(), plan.descriptor.get(), &alpha, call.b.data, plan.b.get(),
                          call.a.data, plan.a.get(), &beta, result, plan.c.get(), result,
                          plan.c.get(), &algorithm, workspace.buffer().data,
                          static_cast<std::size_t>(kWorkspaceBytes), stream);
  }

  /// Returns the time of `runs` products in a row by an algorithm [ms].
  [[nodiscard]] float time_of(cudaStream_t stream, const Plan& plan, const ProductCall& call,
                              void* result, const cublasLtMatmulAlgo_t& algorithm, int runs) const {
    const Owned<cudaEvent_t> start = new_event();
    const Owned<cudaEvent_t> end = new_event();
    PTDP_CUDA_CHECK(cudaEventRecord(start.get(), stream));
    for (int i = 0; i < runs; ++i) {
      PTDP_CUBLAS_CHECK(run(stream, plan, call, result, algorithm));
    }
    PTDP_CUDA_CHECK(cudaEventRecord(end.get(), stream));
    PTDP_CUDA_CHECK(cudaEventSynchronize(end.get()));
    float milliseconds = 0.0F;
    PTDP_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
    return milliseconds;
  }

  /// Returns the time of a product behind another one, which loads the kernel [ms]. For short
  /// products it is the mean of several. It is infinite when the algorithm refuses.
  [[nodiscard]] float steady_time(cudaStream_t stream, const Plan& plan, const ProductCall& call,
                                  void* result, const cublasLtMatmulAlgo_t& algorithm) const {
    if (run(stream, plan, call, result, algorithm) != CUBLAS_STATUS_SUCCESS) {
      return std::numeric_limits<float>::infinity();
    }
    const float once = time_of(stream, plan, call, result, algorithm, 1);
    if (once > kLongProduct) {
      return once;
    }
    return time_of(stream, plan, call, result, algorithm, kTimedRuns) / kTimedRuns;
  }

  /// Returns the fastest of the proposed algorithms, or the first one when they cannot be timed.
  [[nodiscard]] cublasLtMatmulAlgo_t fastest(cudaStream_t stream, const Plan& plan,
                                             const ProductCall& call) const {
    const std::vector<cublasLtMatmulAlgo_t> algorithms = proposed(handle.get(), plan, call);
    if (algorithms.size() == 1 || takes_first || is_capturing(stream)) {
      return algorithms.front();
    }
    std::shared_ptr<void> result;  // The contents of the operands must stay as they are.
    try {
      result = backend.message_memory(call.c.bytes());
    } catch (const OutOfMemory&) {
      return algorithms.front();
    }
    PTDP_CUDA_CHECK(
        cudaMemsetAsync(result.get(), 0, static_cast<std::size_t>(call.c.bytes()), stream));
    std::size_t best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      const float time = steady_time(stream, plan, call, result.get(), algorithms[i]);
      if (time < least) {
        least = time;
        best = i;
      }
    }
    return algorithms[best];
  }

  /// Returns the plan of a product, and makes it if there is none that was chosen by time.
  const Plan& plan_of(cudaStream_t stream, const ProductCall& call) {
    const Key key = key_of(call);
    const auto found = plans.find(key);
    if (found != plans.end() && found->second.is_chosen) {
      return found->second;
    }
    const bool may_time = !is_capturing(stream);
    if (found != plans.end() && !may_time) {
      return found->second;
    }
    if (workspace.empty()) {
      workspace =
          Tensor(backend, DataType::kFloat32, kWorkspaceBytes / bytes_of(DataType::kFloat32));
    }
    Plan plan = described(call);
    plan.algorithm = fastest(stream, plan, call);
    plan.is_chosen = may_time;
    return plans.insert_or_assign(key, std::move(plan)).first->second;
  }

  Backend& backend;
  bool takes_first;
  Owned<cublasLtHandle_t> handle;
  std::map<Key, Plan> plans;
  Tensor workspace;
};

Products::Products(Backend& backend, bool is_deterministic)
    : state_(std::make_unique<State>(backend, is_deterministic)) {}
Products::~Products() = default;

void Products::multiply(cudaStream_t stream, const ProductCall& call) {
  [[maybe_unused]] const Matmul& product = call.product;
  assert(call.a.size == product.m * product.k && call.b.size == product.k * product.n);
  assert(call.c.size == product.m * product.n && call.a.type == call.b.type);
  if (call.c.empty()) {
    return;
  }
  const Plan& plan = state_->plan_of(stream, call);
  PTDP_CUBLAS_CHECK(state_->run(stream, plan, call, call.c.data, plan.algorithm));
}

}  // namespace ptdp::cuda
