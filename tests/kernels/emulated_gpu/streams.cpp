// Streams, events, memory and graphs of emulated GPUs. One lock lets one thing run at a time.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

using ptdp::emulated_gpu::Rendezvous;

namespace {

/// A place in a stream that an event records.
struct Record {
  EmulatedStream* stream = nullptr;
  bool is_reached = false;
  std::chrono::steady_clock::time_point time;
};

/// An operation of a stream: work, a wait for a record, or a meeting.
struct Operation {
  /// Kind of the operation, which must be equal when a graph is updated.
  const void* kind = nullptr;
  std::function<void()> work = {};
  std::shared_ptr<Record> waits_for = {};
  std::shared_ptr<Rendezvous> meeting = {};
};

}  // namespace

struct EmulatedStream {
  int device = 0;
  std::deque<Operation> queue;
  std::unique_ptr<EmulatedGraph> capturing;
  bool is_invalid = false;  ///< Whether the capture failed.
  bool is_visited = false;  ///< Whether advance() is visiting the stream.
};

struct EmulatedEvent {
  std::shared_ptr<Record> last;  ///< The last record; null before the first.
  /// Records of the event in launched graphs, in order of launches.
  std::deque<std::shared_ptr<Record>> in_graphs;
};

struct EmulatedGraph {
  std::vector<Operation> operations;
  std::vector<EmulatedEvent*> records;
};
struct EmulatedExecutable {
  EmulatedGraph graph;
};

namespace {

struct Allocation {
  std::size_t bytes = 0;
  int device = 0;
};

std::recursive_mutex device_mutex;
std::condition_variable_any device_changed;
int num_devices = 1;
thread_local int current_device = 0;
bool has_meetings =
    false;  ///< Whether streams may wait for what other threads have yet to ask for.
std::map<EmulatedStream*, std::unique_ptr<EmulatedStream>> streams;
std::map<void*, Allocation> allocations;
std::size_t memory_size = std::size_t{1} << 40U;
std::size_t memory_used = 0;
// Addresses that tell apart kinds of operation without a kernel.
const char kCopyKind = 0;
const char kSetKind = 0;
const char kRecordKind = 0;
const char kWaitKind = 0;
const char kMeetingKind = 0;

/// Runs one operation without which the stream cannot go on. Returns false if the stream waits for
/// what nobody has asked for yet.
// The recursion is as deep as streams wait for one another: each is visited once.
bool advance(EmulatedStream& stream) {
  if (stream.queue.empty() || stream.is_visited) {
    return false;
  }
  const Operation& next = stream.queue.front();
  stream.is_visited = true;
  const std::unique_ptr<EmulatedStream, void (*)(EmulatedStream*)> visit(
      &stream, [](EmulatedStream* visited) { visited->is_visited = false; });
  if (next.waits_for != nullptr && !next.waits_for->is_reached) {
    return advance(*next.waits_for->stream);
  }
  if (next.meeting != nullptr && !next.meeting->is_over()) {
    const std::vector<EmulatedStream*> others = next.meeting->awaited();
    // A rank that was aborted has left the meeting, with its stream.
    // NOLINTNEXTLINE(misc-no-recursion)
    return std::any_of(others.begin(), others.end(), [](EmulatedStream* other) {
      return streams.contains(other) && advance(*other);
    });
  }
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.work) {
    operation.work();
  }
  device_changed.notify_all();
  return true;
}

using Lock = std::unique_lock<std::recursive_mutex>;

/// Waits until a thread asks for something. Ends the program if no thread can.
void wait_for_threads(Lock& lock) {
  if (!has_meetings) {
    static_cast<void>(std::fprintf(stderr, "emulated GPU: streams wait for each other\n"));
    std::abort();
  }
  device_changed.wait(lock);
}

void run_all(Lock& lock, EmulatedStream& stream) {
  while (!stream.queue.empty()) {
    if (!advance(stream)) {
      wait_for_threads(lock);
    }
  }
}

void run_until(Lock& lock, const std::shared_ptr<Record>& record) {
  while (!record->is_reached) {
    if (!advance(*record->stream)) {
      wait_for_threads(lock);
    }
  }
}

void run_device(Lock& lock, int device) {
  while (true) {
    bool is_done = true;
    bool has_advanced = false;
    for (auto& [key, stream] : streams) {
      while (stream->device == device && !stream->queue.empty() && advance(*stream)) {
        has_advanced = true;
      }
      is_done = is_done && (stream->device != device || stream->queue.empty());
    }
    if (is_done) {
      return;
    }
    if (!has_advanced) {
      wait_for_threads(lock);
    }
  }
}

cudaError_t push(EmulatedStream* stream, Operation operation) {
  const std::lock_guard lock(device_mutex);
  if (!streams.contains(stream)) {
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capturing != nullptr) {
    stream->capturing->operations.push_back(std::move(operation));
  } else {
    stream->queue.push_back(std::move(operation));
    device_changed.notify_all();
  }
  return cudaSuccess;
}

cudaError_t push(EmulatedStream* stream, const void* kind, std::function<void()> work) {
  return push(stream, {.kind = kind, .work = std::move(work)});
}

void reach(Record& record) {
  record.is_reached = true;
  record.time = std::chrono::steady_clock::now();
}

}  // namespace

namespace ptdp::emulated_gpu {

cudaError_t queue(cudaStream_t stream, const void* kind, std::function<void()> work) {
  const std::lock_guard lock(device_mutex);
  if (!streams.contains(stream) || stream->device != current_device) {
    return cudaErrorInvalidResourceHandle;
  }
  return push(stream, kind, std::move(work));
}

cudaError_t queue(cudaStream_t stream, std::shared_ptr<Rendezvous> meeting) {
  const std::lock_guard lock(device_mutex);
  if (!streams.contains(stream) || stream->capturing != nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  has_meetings = true;
  return push(stream, {.kind = &kMeetingKind, .meeting = std::move(meeting)});
}

bool advance(cudaStream_t stream) {
  const std::lock_guard lock(device_mutex);
  return streams.contains(stream) && ::advance(*stream);
}

std::recursive_mutex& mutex() {
  return device_mutex;
}

void notify() {
  device_changed.notify_all();
}

void set_devices(int count) {
  const std::lock_guard lock(device_mutex);
  num_devices = count;
}

void set_memory(std::size_t bytes) {
  const std::lock_guard lock(device_mutex);
  memory_size = bytes;
}

std::size_t memory_in_use() {
  const std::lock_guard lock(device_mutex);
  return memory_used;
}

}  // namespace ptdp::emulated_gpu

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfEmulation";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "emulated";
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(device_mutex);
  *count = num_devices;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(device_mutex);
  if (device < 0 || device >= num_devices) {
    return cudaErrorInvalidValue;
  }
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  const std::lock_guard lock(device_mutex);
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->totalGlobalMem = memory_size;
  properties->multiProcessorCount = 4;
  properties->major = 9;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return cudaDriverGetVersion(version);
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int length, int device) {
  static_cast<void>(
      std::snprintf(address, static_cast<std::size_t>(length), "0000:%02x:00.0", device));
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Lock lock(device_mutex);
  run_device(lock, current_device);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(device_mutex);
  *free = memory_size - memory_used;
  *total = memory_size;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const std::lock_guard lock(device_mutex);
  constexpr std::size_t alignment = 256;
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  if (memory_used + size > memory_size) {
    return cudaErrorMemoryAllocation;
  }
  // The memory has the exact size, so that the address sanitizer sees reads beyond it.
  if (::posix_memalign(memory, alignment, bytes) != 0) {
    return cudaErrorMemoryAllocation;
  }
  allocations[*memory] = {size, current_device};
  memory_used += size;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  Lock lock(device_mutex);
  if (memory == nullptr) {
    return cudaSuccess;
  }
  const auto found = allocations.find(memory);
  if (found == allocations.end()) {
    return cudaErrorInvalidValue;
  }
  const Allocation allocation = found->second;
  run_device(lock, allocation.device);
  memory_used -= allocation.bytes;
  allocations.erase(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice) {
    // Pageable memory may be used again when the call returns.
    std::vector<char> kept(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    return push(stream, &kCopyKind,
                [to, kept = std::move(kept)] { std::memcpy(to, kept.data(), kept.size()); });
  }
  return push(stream, &kCopyKind, [=] { std::memmove(to, from, bytes); });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return push(stream, &kSetKind, [=] { std::memset(to, value, bytes); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  const std::lock_guard lock(device_mutex);
  auto made = std::make_unique<EmulatedStream>();
  made->device = current_device;
  *stream = made.get();
  streams[*stream] = std::move(made);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(device_mutex);
  run_all(lock, *stream);
  streams.erase(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock(device_mutex);
  if (stream->capturing != nullptr) {
    stream->is_invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  run_all(lock, *stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  const std::lock_guard lock(device_mutex);
  if (stream->capturing != nullptr && flags != cudaEventWaitExternal) {
    stream->is_invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  return push(stream, {.kind = &kWaitKind, .waits_for = event->last});
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(device_mutex);
  *status = stream->capturing == nullptr ? cudaStreamCaptureStatusNone
            : stream->is_invalid         ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new EmulatedEvent();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(device_mutex);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  const std::lock_guard lock(device_mutex);
  if (stream->capturing != nullptr) {
    if (flags != cudaEventRecordExternal) {
      stream->is_invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    stream->capturing->records.push_back(event);
    return push(stream, &kRecordKind, [=] {
      reach(*event->in_graphs.front());
      event->in_graphs.pop_front();
    });
  }
  event->last = std::make_shared<Record>(Record{stream});
  return push(stream, &kRecordKind, [record = event->last] { reach(*record); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(device_mutex);
  return event->last == nullptr || event->last->is_reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(device_mutex);
  if (event->last != nullptr) {
    run_until(lock, event->last);
  }
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  const std::lock_guard lock(device_mutex);
  if (first->last == nullptr || second->last == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (!first->last->is_reached || !second->last->is_reached) {
    return cudaErrorNotReady;
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(second->last->time - first->last->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(device_mutex);
  stream->capturing = std::make_unique<EmulatedGraph>();
  stream->is_invalid = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(device_mutex);
  std::unique_ptr<EmulatedGraph> captured = std::move(stream->capturing);
  *graph = nullptr;
  if (stream->is_invalid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  *graph = captured.release();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new EmulatedExecutable{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo*) {
  const std::lock_guard lock(device_mutex);
  std::vector<Operation>& operations = exec->graph.operations;
  bool is_alike = operations.size() == graph->operations.size();
  for (std::size_t i = 0; is_alike && i < operations.size(); ++i) {
    is_alike = operations[i].kind == graph->operations[i].kind;
  }
  if (!is_alike) {
    return cudaErrorGraphExecUpdateFailure;
  }
  exec->graph = *graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(device_mutex);
  for (EmulatedEvent* const event : exec->graph.records) {
    event->last = std::make_shared<Record>(Record{stream});
    event->in_graphs.push_back(event->last);
  }
  for (const Operation& operation : exec->graph.operations) {
    if (const cudaError_t error = push(stream, operation); error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
