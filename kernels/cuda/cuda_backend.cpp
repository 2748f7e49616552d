// A rank's share of a GPU: its lanes as streams, its memory, and its operations.
#include "kernels/cuda/cuda_backend.h"

#include <array>
#include <cassert>
#include <chrono>
#include <set>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/events.h"
#include "kernels/cuda/fused_attention.h"
#include "kernels/cuda/graphs.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/run_ahead.h"

namespace ptdp {
namespace {

/// The lane that the calling thread uses; a thread belongs to one rank.
thread_local int lane_in_use = 0;

/// The streams of a rank, by lane. Messages and data have a higher priority than compute.
class Lanes {
 public:
  Lanes() {
    int least = 0;
    int greatest = 0;
    PTDP_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int lane = 0; lane < kNumBackendLanes; ++lane) {
      PTDP_CUDA_CHECK(cudaStreamCreateWithPriority(&streams_[lane], cudaStreamNonBlocking,
                                                   lane == 0 ? least : greatest));
    }
  }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  Lanes(Lanes&&) = delete;
  Lanes& operator=(Lanes&&) = delete;
  ~Lanes() {
    for (cudaStream_t stream : streams_) {
      static_cast<void>(cudaStreamDestroy(stream));
    }
  }

  [[nodiscard]] cudaStream_t operator[](int lane) const { return streams_[lane]; }
  [[nodiscard]] const cuda::LaneStreams& all() const { return streams_; }

 private:
  cuda::LaneStreams streams_{};
};

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

cuda::Kernels all_kernels() {
  cuda::Kernels kernels;
  cuda::add_elementwise_kernels(kernels);
  cuda::add_activation_kernels(kernels);
  cuda::add_column_sum_kernels(kernels);
  cuda::add_dropout_kernels(kernels);
  cuda::add_norm_kernels(kernels);
  cuda::add_norm_backward_kernels(kernels);
  cuda::add_sum_norm_kernels(kernels);
  cuda::add_split_norm_kernels(kernels);
  cuda::add_rotary_kernels(kernels);
  cuda::add_attention_kernels(kernels);
  cuda::add_attention_backward_kernels(kernels);
  cuda::add_embedding_kernels(kernels);
  cuda::add_cross_entropy_kernels(kernels);
  cuda::add_optimizer_kernels(kernels);
  return kernels;
}

class CudaBackend final : public ForwardingBackend<CudaBackend> {
 public:
  explicit CudaBackend(const CudaOptions& options)
      : options_(options),
        marks_(std::make_shared<cuda::EventPool>(cuda::EventUse::kOrder)),
        times_(std::make_shared<cuda::EventPool>(cuda::EventUse::kTime)),
        run_ahead_(options.most_operations_ahead, marks_),
        memory_(lanes_.all(), marks_),
        products_(*this, options.is_deterministic),
        fused_attention_(*this, options.is_deterministic) {
    use_lane(0);
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  CudaBackend(CudaBackend&&) = delete;
  CudaBackend& operator=(CudaBackend&&) = delete;
  ~CudaBackend() override {
    for (cudaStream_t stream : lanes_.all()) {
      static_cast<void>(cudaStreamSynchronize(stream));
    }
  }

  // --- memory ---

  [[nodiscard]] std::int64_t bytes_beside() override {
    std::size_t free = 0;
    std::size_t total = 0;
    PTDP_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return static_cast<std::int64_t>(total - free) - memory_.reserved();
  }
  [[nodiscard]] std::shared_ptr<void> message_memory(std::int64_t bytes) override {
    void* const memory = cuda::allocate_on_device(bytes);
    if (memory == nullptr && bytes > 0) {
      throw_out_of_memory(bytes);
    }
    return {memory, [](void* released) { static_cast<void>(cudaFree(released)); }};
  }

  // --- lanes and events ---

  void use_lane(int lane) override {
    assert(lane >= 0 && lane < kNumBackendLanes);
    PTDP_CUDA_CHECK(cudaSetDevice(options_.device));
    lane_in_use = lane;
  }

  [[nodiscard]] Event record() override { return record_with(*times_); }
  [[nodiscard]] Event mark() override { return record_with(*marks_); }

  void wait(const Event& event) override {
    if (event.device != nullptr) {
      count_call();
      cuda::wait_on(stream(), event.device);
    }
  }

  void synchronize() override {
    for (cudaStream_t each : lanes_.all()) {
      PTDP_CUDA_CHECK(cudaStreamSynchronize(each));
    }
  }

  void tell_waits(const std::function<void(bool begins)>& listener) override {
    run_ahead_.tell_waits(listener);
  }

  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override {
    float milliseconds = 0.0F;
    PTDP_CUDA_CHECK(cudaEventSynchronize(cuda::event_of(first.device)));
    PTDP_CUDA_CHECK(cudaEventSynchronize(cuda::event_of(second.device)));
    PTDP_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, cuda::event_of(first.device),
                                         cuda::event_of(second.device)));
    return static_cast<double>(milliseconds) * 1e-3;
  }

  void run_as_graph(std::int64_t key, const std::function<void()>& issue) override {
    if (!options_.uses_graphs) {
      issue();
      return;
    }
    const int lane = lane_in_use;
    memory_.keep_apart(lane);
    try {
      graphs_.run(stream(), key, issue);
    } catch (...) {
      memory_.join(lane);
      throw;
    }
    memory_.join(lane);
  }

  [[nodiscard]] void* native_lane() override {
    constexpr int calls_of_library = 4;  // Events before and behind, and its own call.
    run_ahead_.count(calls_of_library);
    return stream();
  }

  // --- transfers ---

  void copy(Buffer from, Buffer to) override {
    assert(from.type == to.type && from.size == to.size);
    copy_bytes(from.data, to.data, to.bytes(), cudaMemcpyDeviceToDevice);
  }
  void copy_in(const void* from, Buffer to) override {
    if (cuda::is_capturing(stream())) {
      throw CudaError("a copy from the host: its memory may be gone when the graph runs");
    }
    copy_bytes(from, to.data, to.bytes(), cudaMemcpyHostToDevice);
  }
  void copy_out(Buffer from, void* to) override {
    copy_bytes(from.data, to, from.bytes(), cudaMemcpyDeviceToHost);
    PTDP_CUDA_CHECK(cudaStreamSynchronize(stream()));
  }

  // --- what libraries do ---

  void matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) override {
    count_call();
    products_.multiply(stream(), {.product = product, .a = a, .b = b, .c = c});
  }
  [[nodiscard]] bool has_epilogue(const EpilogueCall& call) override {
    if (!options_.uses_epilogues || !is_in_library(call)) {
      return false;
    }
    const auto refusal = products_.refusal(stream(), cuda::product_call(call));
    if (refusal && !refusal->empty()) {
      tell("own kernels behind a product: " + *refusal);
    }
    return !refusal;
  }
  void matmul_with_epilogue(const EpilogueCall& call) override {
    assert(is_in_library(call));
    count_call();
    products_.multiply(stream(), cuda::product_call(call));
  }
  void attention(const AttentionCall& call) override {
    if (is_fused(call)) {
      count_call();
      fused_attention_.forward(stream(), call);
    } else {
      ForwardingBackend::attention(call);
    }
  }
  void attention_backward(const AttentionBackwardCall& call) override {
    if (is_fused(call)) {
      count_call();
      fused_attention_.backward(stream(), call);
    } else {
      ForwardingBackend::attention_backward(call);
    }
  }
  [[nodiscard]] bool replaces_attention_inputs() const override { return false; }

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override {
    if (bytes == 0) {
      return nullptr;
    }
    void* memory = memory_.allocate(bytes, lane_in_use);
    if (memory == nullptr && !memory_.has_lanes_apart()) {
      synchronize();
      memory_.trim();
      memory = memory_.allocate(bytes, lane_in_use);
    }
    if (memory == nullptr) {
      throw_out_of_memory(bytes);
    }
    return memory;
  }
  void release_memory(void* memory, std::int64_t) noexcept override {
    if (memory != nullptr) {
      memory_.release(memory, lane_in_use);
    }
  }

 private:
  friend class ForwardingBackend<CudaBackend>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... arguments) {
    count_call();
    static_cast<const cuda::Kernel<kOperation>&>(kernels_).function({stream(), *this},
                                                                    arguments...);
  }

  [[nodiscard]] cudaStream_t stream() const { return lanes_[lane_in_use]; }

  [[nodiscard]] Event record_with(cuda::EventPool& pool) {
    count_call();
    Event event{.nanoseconds = steady_nanoseconds(), .device = pool.take()};
    cuda::record_on(stream(), event.device);
    return event;
  }

  /// Counts a call that queues something, and waits if the host is too far ahead. Other threads
  /// than that of compute must not wait for compute, which may wait for them.
  void count_call() {
    run_ahead_.count(1);
    if (lane_in_use == 0) {
      run_ahead_.wait(stream());
    }
  }

  /// Returns whether cuDNN computes a pass of attention. Says once why it does not.
  template <class Call>
  [[nodiscard]] bool is_fused(const Call& call) {
    if (!options_.uses_cudnn) {
      return false;
    }
    const std::string refusal = fused_attention_.refusal(call);
    if (!refusal.empty()) {
      tell("attention by own kernels, several times slower than cuDNN's: " + refusal);
    }
    return refusal.empty();
  }

  /// Returns whether cuBLASLt may have an epilogue. It knows GELU alone, in the form with tanh, and
  /// writes everything in the type of the result. GELU is left to it in 16 bits only, since nobody
  /// says how near its tanh comes to f32's.
  [[nodiscard]] static bool is_in_library(const EpilogueCall& call) {
    if (call.c.empty() || call.product.k == 0) {
      return false;
    }
    switch (call.epilogue) {
      case Epilogue::kBias:
        return call.bias.type == call.c.type;
      case Epilogue::kActivation:
      case Epilogue::kActivationGradient:
        return call.activation == ActivationKind::kTanhGelu && call.x.type == call.c.type &&
               bytes_of(call.c.type) == 2;
      case Epilogue::kBiasGradient:
        return call.bias_gradient.type == call.c.type;
    }
    return false;
  }

  /// Gives a note to the user, once.
  void tell(const std::string& note) {
    if (options_.on_note && told_.insert(note).second) {
      options_.on_note(note);
    }
  }

  void copy_bytes(const void* from, void* to, std::int64_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) {  // Either pointer may be null when there are no bytes.
      count_call();
      PTDP_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream()));
    }
  }

  [[noreturn]] void throw_out_of_memory(std::int64_t bytes) const {
    std::size_t free = 0;
    std::size_t total = 0;
    static_cast<void>(cudaMemGetInfo(&free, &total));
    throw OutOfMemory("out of memory on GPU " + std::to_string(options_.device) + ": " +
                      std::to_string(bytes) + " bytes asked for, " +
                      std::to_string(bytes_in_use()) + " in use, " +
                      std::to_string(memory_.reserved()) + " reserved, " + std::to_string(free) +
                      " of " + std::to_string(total) + " free");
  }

  /// Selects the GPU for the calling thread before any member uses it.
  struct Selected {
    explicit Selected(int device) { PTDP_CUDA_CHECK(cudaSetDevice(device)); }
  };

  CudaOptions options_;
  const cuda::Kernels kernels_ = all_kernels();
  Selected selected_{options_.device};
  std::shared_ptr<cuda::EventPool> marks_;
  std::shared_ptr<cuda::EventPool> times_;
  cuda::RunAhead run_ahead_;
  Lanes lanes_;
  cuda::DeviceMemory memory_;
  cuda::Products products_;
  cuda::FusedAttention fused_attention_;
  std::set<std::string> told_;  ///< Notes that on_note was given.
  cuda::Graphs graphs_;  ///< Graphs; destroyed before the libraries whose kernels they launch.
};

}  // namespace

int num_cuda_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
      status == cudaErrorStubLibrary) {
    return 0;
  }
  cuda::check(status, "cudaGetDeviceCount");
  return count;
}

CudaDevice describe_cuda_device(int device) {
  cudaDeviceProp properties{};
  PTDP_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  CudaDevice description{.name = properties.name,
                         .num_multiprocessors = properties.multiProcessorCount,
                         .compute_capability = 10 * properties.major + properties.minor,
                         .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
  std::array<char, 32> address{};
  PTDP_CUDA_CHECK(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device));
  description.pci_bus_id = address.data();
  PTDP_CUDA_CHECK(cudaDriverGetVersion(&description.driver_version));
  PTDP_CUDA_CHECK(cudaRuntimeGetVersion(&description.runtime_version));
  return description;
}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace ptdp
