// Plans products by cuBLASLt and times its algorithms.
#include "kernels/cuda/products.h"

#include <cublasLt.h>

#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/events.h"
#include "kernels/cuda/product_plan.h"
#include "kernels/epilogue.h"

namespace ptdp::cuda {
namespace {

constexpr int kTimedRuns = 4;
constexpr float kLongProduct = 0.5F;  // Milliseconds; for longer products one run tells enough.

struct DestroyEvent {
  void operator()(cudaEvent_t event) const noexcept { static_cast<void>(cudaEventDestroy(event)); }
};
using OwnedEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

OwnedEvent new_event() {
  cudaEvent_t event = nullptr;
  PTDP_CUDA_CHECK(cudaEventCreate(&event));
  return OwnedEvent(event);
}

/// Returns the time of `runs` calls of `queue` in a row [ms].
template <class Queue>
float time_of(cudaStream_t stream, int runs, const Queue& queue) {
  const OwnedEvent start = new_event();
  const OwnedEvent end = new_event();
  PTDP_CUDA_CHECK(cudaEventRecord(start.get(), stream));
  for (int i = 0; i < runs; ++i) {
    queue();
  }
  PTDP_CUDA_CHECK(cudaEventRecord(end.get(), stream));
  PTDP_CUDA_CHECK(cudaEventSynchronize(end.get()));
  float milliseconds = 0.0F;
  PTDP_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
  return milliseconds;
}

/// Returns the time of a call of `queue` behind another one, which loads the kernels [ms]. For
/// short ones it is the mean of several.
template <class Queue>
float steady_time(cudaStream_t stream, const Queue& queue) {
  queue();
  const float once = time_of(stream, 1, queue);
  return once > kLongProduct ? once : time_of(stream, kTimedRuns, queue) / kTimedRuns;
}

/// Memory of its own for everything that a product writes, so that it can be run again.
class ApartFromResults {
 public:
  /// Throws OutOfMemory.
  ApartFromResults(Backend& backend, cudaStream_t stream, const ProductCall& call) : call_(call) {
    own(backend, stream, call_.c);
    if (call.epilogue == Epilogue::kActivation) {
      own(backend, stream, call_.x);
    }
    if (call.epilogue == Epilogue::kBiasGradient) {
      own(backend, stream, call_.bias_gradient);
    }
  }
  [[nodiscard]] const ProductCall& call() const { return call_; }

 private:
  void own(Backend& backend, cudaStream_t stream, Buffer& buffer) {
    memory_.push_back(backend.message_memory(buffer.bytes()));
    buffer.data = memory_.back().get();
    PTDP_CUDA_CHECK(
        cudaMemsetAsync(buffer.data, 0, static_cast<std::size_t>(buffer.bytes()), stream));
  }

  ProductCall call_;
  std::vector<std::shared_ptr<void>> memory_;
};

/// Returns the call that carries an epilogue out by single operations.
EpilogueCall with_single_operations(const ProductCall& call) {
  return {.product = call.product,
          .a = call.a,
          .b = call.b,
          .c = call.c,
          .epilogue = *call.epilogue,
          .bias = call.bias,
          .activation = ActivationKind::kTanhGelu,
          .x = call.x,
          .bias_gradient = call.bias_gradient};
}

}  // namespace

struct Products::State {
  State(Backend& of, bool chooses_the_first) : backend(of), takes_first(chooses_the_first) {
    cublasLtHandle_t made = nullptr;
    PTDP_CUBLAS_CHECK(cublasLtCreate(&made));
    handle.reset(made);
  }

  /// Queues a product, and returns cuBLASLt's status.
  [[nodiscard]] cublasStatus_t run(cudaStream_t stream, const ProductPlan& plan,
                                   const ProductCall& call,
                                   const cublasLtMatmulAlgo_t& algorithm) const {
    const float alpha = 1.0F;
    const float beta = call.product.accumulates ? 1.0F : 0.0F;
    Tensor sums;  // The library stores a bias gradient, and does not add to it.
    if (call.epilogue == Epilogue::kBiasGradient) {
      sums = Tensor(backend, call.bias_gradient.type, call.bias_gradient.size);
    }
    point_at_epilogue(plan, call, sums.buffer().data);
    const cublasStatus_t status = cublasLtMatmul(
        handle.get(), plan.descriptor.get(), &alpha, call.b.data, plan.b.get(), call.a.data,
        plan.a.get(), &beta, call.c.data, plan.c.get(), call.c.data, plan.c.get(), &algorithm,
        workspace.buffer().data, static_cast<std::size_t>(kWorkspaceBytes), stream);
    if (status == CUBLAS_STATUS_SUCCESS && !sums.empty()) {
      backend.add(sums, call.bias_gradient);
    }
    return status;
  }

  /// Returns the time of an algorithm [ms], infinite when it refuses.
  [[nodiscard]] float time_of_algorithm(cudaStream_t stream, const ProductPlan& plan,
                                        const ProductCall& call,
                                        const cublasLtMatmulAlgo_t& algorithm) const {
    if (run(stream, plan, call, algorithm) != CUBLAS_STATUS_SUCCESS) {
      return std::numeric_limits<float>::infinity();
    }
    return steady_time(stream, [&] { PTDP_CUBLAS_CHECK(run(stream, plan, call, algorithm)); });
  }

  /// Chooses the fastest algorithm. An epilogue is refused if single operations are faster.
  void choose(cudaStream_t stream, ProductPlan& plan, const ProductCall& call,
              const std::vector<cublasLtMatmulAlgo_t>& algorithms) const {
    try {
      choose_by_time(stream, plan, call, algorithms);
    } catch (const OutOfMemory&) {
      plan.algorithm = algorithms.front();  // Timing takes more memory than a product does.
      plan.refusal = std::nullopt;
    }
  }
  void choose_by_time(cudaStream_t stream, ProductPlan& plan, const ProductCall& call,
                      const std::vector<cublasLtMatmulAlgo_t>& algorithms) const {
    // The contents of the operands must stay as they are.
    const ApartFromResults apart(backend, stream, call);
    float least = std::numeric_limits<float>::infinity();
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
      const float time = time_of_algorithm(stream, plan, apart.call(), algorithm);
      if (time < least) {
        least = time;
        plan.algorithm = algorithm;
      }
    }
    if (!call.epilogue) {
      return;
    }
    const EpilogueCall single = with_single_operations(apart.call());
    if (const float time = steady_time(stream, [&] { multiply_apart(backend, single); });
        time < least) {
      plan.refusal = std::isinf(least) ? "cuBLASLt's algorithms refuse " + describe(call) : "";
    }
  }

  /// Returns the plan of a product, and makes it if there is none that was chosen by time.
  const ProductPlan& plan_of(cudaStream_t stream, const ProductCall& call) {
    const ProductKey key = key_of(call);
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
    return plans.insert_or_assign(key, new_plan(stream, call, may_time)).first->second;
  }

  [[nodiscard]] ProductPlan new_plan(cudaStream_t stream, const ProductCall& call,
                                     bool may_time) const {
    ProductPlan plan = described(call);
    // The alignment of what the epilogue reads and writes is taken from the addresses. Sums lie as
    // every block of the backend's memory does, which the workspace stands for.
    point_at_epilogue(plan, call, workspace.buffer().data);
    const std::vector<cublasLtMatmulAlgo_t> algorithms = proposed(handle.get(), plan, call);
    plan.is_chosen = may_time;
    if (algorithms.empty()) {
      if (!call.epilogue) {
        throw CudaError("cuBLASLt has no algorithm for " + describe(call));
      }
      plan.refusal = "cuBLASLt has no algorithm for " + describe(call);
      return plan;
    }
    plan.algorithm = algorithms.front();
    // An epilogue is timed even with one algorithm, to be compared with single operations.
    const bool has_choice = algorithms.size() > 1 || call.epilogue.has_value();
    if (has_choice && may_time && !takes_first) {
      choose(stream, plan, call, algorithms);
    }
    return plan;
  }

  Backend& backend;
  bool takes_first;
  OwnedByCublasLt<cublasLtHandle_t> handle;
  std::map<ProductKey, ProductPlan> plans;
  Tensor workspace;
};

Products::Products(Backend& backend, bool is_deterministic)
    : state_(std::make_unique<State>(backend, is_deterministic)) {}
Products::~Products() = default;

std::optional<std::string> Products::refusal(cudaStream_t stream, const ProductCall& call) {
  return state_->plan_of(stream, call).refusal;
}

void Products::multiply(cudaStream_t stream, const ProductCall& call) {
  [[maybe_unused]] const Matmul& product = call.product;
  assert(call.a.size == product.m * product.k && call.b.size == product.k * product.n);
  assert(call.c.size == product.m * product.n && call.a.type == call.b.type);
  if (call.c.empty()) {
    return;
  }
  const ProductPlan& plan = state_->plan_of(stream, call);
  PTDP_CUBLAS_CHECK(state_->run(stream, plan, call, plan.algorithm));
}

}  // namespace ptdp::cuda
