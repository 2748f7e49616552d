// The part of CUDA's runtime that kernels/cuda uses, on a host: for tests of its logic where there
// is no GPU. Names and arguments are CUDA's (CUDA Runtime API reference, 13.0). What is queued on a
// stream runs as late as possible: when something waits for it. So what CUDA would let run in
// another order does, and a missing event shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorStubLibrary = 34,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorLaunchTimeout = 702,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorGraphExecUpdateFailure = 910
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaEventRecordDefault = 0;
inline constexpr unsigned cudaEventRecordExternal = 1;
inline constexpr unsigned cudaEventWaitDefault = 0;
inline constexpr unsigned cudaEventWaitExternal = 1;

struct EmulatedStream;
struct EmulatedEvent;
struct EmulatedGraph;
struct EmulatedExecutable;
using cudaStream_t = EmulatedStream*;
using cudaEvent_t = EmulatedEvent*;
using cudaGraph_t = EmulatedGraph*;
using cudaGraphExec_t = EmulatedExecutable*;

struct cudaGraphExecUpdateResultInfo {
  int result = 0;
};
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int multiProcessorCount;
  int major;
  int minor;
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDeviceGetPCIBusId(char* address, int length, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

namespace ptdp::emulated_gpu {

/// Queues work of a library: `work` runs when the stream's turn comes. `kind` must not change when
/// a graph is updated.
cudaError_t queue(cudaStream_t stream, const void* kind, std::function<void()> work);
/// Queues work that no GPU would have to do, and that therefore takes no room.
void queue_unseen(cudaStream_t stream, const void* kind, std::function<void()> work);

/// An operation that several streams do together, also those of several devices. Its functions are
/// called under the lock of the emulation.
class Rendezvous {
 public:
  Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  Rendezvous(Rendezvous&&) = delete;
  Rendezvous& operator=(Rendezvous&&) = delete;
  virtual ~Rendezvous() = default;

  /// Called once the stream has come to the meeting, and again until it returns that the stream may
  /// go on.
  [[nodiscard]] virtual bool is_over() = 0;
  /// Returns the streams that have yet to come to the meeting, as far as they were asked to.
  [[nodiscard]] virtual std::vector<cudaStream_t> awaited() = 0;
  /// Returns the multiprocessors that the meeting's kernel takes from its start to its end.
  [[nodiscard]] virtual int multiprocessors() const { return 1; }
};
cudaError_t queue(cudaStream_t stream, std::shared_ptr<Rendezvous> meeting);
/// Runs one operation without which the stream cannot go on. Returns false if there is none.
bool advance(cudaStream_t stream);
/// Waits until the stream's process may queue one more operation. Call it without the lock of the
/// emulation. Returns cudaErrorLaunchTimeout when that never happens.
cudaError_t make_room(cudaStream_t stream);
/// Loads a kernel of a library, which waits for the calling thread's device where loading does.
cudaError_t load_library_kernel();
/// Returns how many kernels of libraries were loaded since set_hardships() while their device had
/// to wait for another one.
[[nodiscard]] int loads_beside_meetings();
/// The lock of the emulation: of all devices and of what is built upon them.
[[nodiscard]] std::recursive_mutex& mutex();
/// Wakes threads that wait for a stream, because a meeting may be over.
void notify();

/// What real GPUs do to programs that rely on luck. Each is meaner than CUDA promises to be, and
/// off at first. When every thread waits for another one, calls return cudaErrorLaunchTimeout.
struct Hardships {
  /// Whether the first launch of a kernel waits until its device is idle, as lazy loading does.
  /// With CUDA_MODULE_LOADING=EAGER in the environment only kernels of libraries do so.
  bool loads_lazily = false;
  /// Operations that a process may have queued on all its streams; 0 for any number. A call that
  /// finds no room waits, and holds up all communication of its process meanwhile.
  int most_queued = 0;
  /// Multiprocessors of a device, which running kernels of communication take and every other
  /// kernel needs one of; 0 for any number. Kernels of communication start as soon as they can.
  int multiprocessors = 0;
  /// Whether cudaMalloc waits until the other devices of its process are idle.
  bool allocates_alone = false;
  /// Whether all devices belong to one process. Otherwise each has a process of its own.
  bool is_one_process = false;
  /// Seed of what streams do by themselves whenever something is queued; 0 for nothing.
  std::uint64_t seed = 0;
  /// Time without any progress after which threads wait for each other [s]. Once one has waited so
  /// long, others wait a hundredth of it.
  double patience = 10.0;
};
/// Sets the hardships from the call on. No kernel is loaded then.
void set_hardships(const Hardships& chosen);

/// Sets the number of devices from the call on; it is 1 at first.
void set_devices(int count);

/// What a device says of itself.
struct Identity {
  const char* name = "emulated GPU";  ///< Name of the device; must outlive the program.
  int multiprocessors = 4;            ///< Multiprocessors, unless a hardship gives it others.
};
/// Sets what all devices say of themselves from the call on.
void set_identity(const Identity& other);

/// Sets the memory of all devices together from the call on [B]; cudaMalloc fails beyond it.
void set_memory(std::size_t bytes);
/// Takes memory of a device beside what is allocated, as a driver and libraries do; gives it back
/// where `bytes` is negative.
void take_memory_beside(int device, std::int64_t bytes);
/// Returns the bytes that are allocated and not freed.
[[nodiscard]] std::size_t memory_in_use();

}  // namespace ptdp::emulated_gpu
