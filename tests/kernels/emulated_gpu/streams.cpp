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
#include <random>
#include <set>
#include <string_view>
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
  bool is_kernel = false;  ///< Whether it needs a multiprocessor.
  bool takes_room = true;  ///< Whether a real GPU has it in its queue.
  int taken = 0;           ///< Multiprocessors that its meeting has taken so far.
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
  bool tells_time = true;
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
ptdp::emulated_gpu::Identity identity;
std::size_t memory_size = std::size_t{1} << 40U;
std::size_t memory_used = 0;
// Addresses that tell apart kinds of operation without a kernel.
const char kCopyKind = 0;
const char kSetKind = 0;
const char kRecordKind = 0;
const char kWaitKind = 0;
const char kMeetingKind = 0;

// What makes a program wait, by Hardships.
ptdp::emulated_gpu::Hardships hardships;
bool loads_eagerly = false;
std::set<std::pair<int, const void*>> loaded;  ///< Kernels by process.
std::map<int, int> num_queued;                 ///< Operations in the streams of a process.
std::map<int, int> num_blocked;                ///< Threads of a process that wait for room.
std::map<int, int> num_taken;                  ///< Multiprocessors of a device that meetings hold.
int num_loads_beside_meetings = 0;
std::mt19937_64 random_numbers;
std::uint64_t progress = 0;  ///< Counts whatever may let a thread go on.
bool is_stuck = false;       ///< Whether a thread has waited in vain since set_hardships().

/// Memory taken by nobody's cudaMalloc, by device. Programs take it before main().
std::map<int, std::size_t>& taken_beside() {
  static std::map<int, std::size_t> taken;
  return taken;
}

int process_of(int device) {
  return hardships.is_one_process ? 0 : device;
}

void tell_of_progress() {
  ++progress;
  device_changed.notify_all();
}

/// Takes the first operation off a stream, whose multiprocessors are then free.
Operation pop(EmulatedStream& stream) {
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  num_queued[process_of(stream.device)] -= operation.takes_room ? 1 : 0;
  num_taken[stream.device] -= operation.taken;
  tell_of_progress();
  return operation;
}

/// Whether the stream is at a meeting that its process lets go on.
bool is_at_meeting(const EmulatedStream& stream) {
  return !stream.queue.empty() && stream.queue.front().meeting != nullptr &&
         num_blocked[process_of(stream.device)] == 0;
}

/// Starts the blocks of the meeting that a stream is at for which there is room on its device.
/// Returns whether all of them run.
bool start_meeting(EmulatedStream& stream) {
  Operation& next = stream.queue.front();
  const int all = next.meeting->multiprocessors();
  const int room = hardships.multiprocessors - num_taken[stream.device];
  const int more =
      hardships.multiprocessors == 0 ? all - next.taken : std::min(all - next.taken, room);
  next.taken += more;
  num_taken[stream.device] += more;
  return next.taken == all;
}

/// Starts all meetings that may start on a device, and ends those that are over.
void start_meetings(int device) {
  for (auto& [key, stream] : streams) {
    if (stream->device != device || !is_at_meeting(*stream)) {
      continue;
    }
    if (start_meeting(*stream) && stream->queue.front().meeting->is_over()) {
      static_cast<void>(pop(*stream));
    }
  }
}

bool advance(EmulatedStream& stream);

/// Brings the meeting of a running kernel on. Returns whether anything was run.
// NOLINTNEXTLINE(misc-no-recursion): see advance().
bool advance_meeting(Rendezvous& meeting) {
  // NOLINTNEXTLINE(readability-use-anyofallof): the library's would recur, too.
  for (EmulatedStream* const other : meeting.awaited()) {
    // A rank that was aborted has left the meeting, with its stream.
    if (streams.contains(other) && advance(*other)) {
      return true;
    }
  }
  return false;
}

/// Brings any meeting on that holds multiprocessors of a device. Returns whether anything was run.
// NOLINTNEXTLINE(misc-no-recursion): see advance().
bool advance_meetings_of(int device) {
  for (const auto& [key, stream] : streams) {
    if (stream->device == device && !stream->queue.empty() && stream->queue.front().taken > 0 &&
        advance(*stream)) {
      return true;
    }
  }
  return false;
}

/// Runs one operation without which the stream cannot go on. Returns false if the stream waits for
/// what nobody has asked for yet.
// The recursion is as deep as streams wait for one another: each is visited once.
// NOLINTNEXTLINE(misc-no-recursion)
bool advance(EmulatedStream& stream) {
  if (stream.queue.empty() || stream.is_visited) {
    return false;
  }
  stream.is_visited = true;
  const std::unique_ptr<EmulatedStream, void (*)(EmulatedStream*)> visit(
      &stream, [](EmulatedStream* visited) { visited->is_visited = false; });
  const Operation& next = stream.queue.front();
  if (next.waits_for != nullptr && !next.waits_for->is_reached) {
    return advance(*next.waits_for->stream);
  }
  if (next.meeting != nullptr) {
    if (!is_at_meeting(stream)) {
      return false;
    }
    if (!start_meeting(stream)) {
      return advance_meetings_of(stream.device);
    }
    if (!next.meeting->is_over()) {
      return advance_meeting(*next.meeting);
    }
  }
  if (next.is_kernel && hardships.multiprocessors > 0) {
    start_meetings(stream.device);
    if (num_taken[stream.device] >= hardships.multiprocessors) {
      return advance_meetings_of(stream.device);
    }
  }
  const Operation operation = pop(stream);
  if (operation.work) {
    operation.work();
  }
  return true;
}

using Lock = std::unique_lock<std::recursive_mutex>;

/// Waits until a thread asks for something. Returns false when none does: threads wait for each
/// other. Ends the program if no thread can.
bool wait_for_threads(Lock& lock) {
  if (!has_meetings) {
    static_cast<void>(std::fprintf(stderr, "emulated GPU: streams wait for each other\n"));
    std::abort();
  }
  // Threads that are stuck unwind, and wait for each of their streams while they do.
  constexpr double of_the_stuck = 0.01;
  const std::uint64_t before = progress;
  const std::chrono::duration<double> patience(hardships.patience * (is_stuck ? of_the_stuck : 1));
  const bool goes_on = device_changed.wait_for(lock, patience, [=] { return progress != before; });
  is_stuck = is_stuck || !goes_on;
  return goes_on;
}

cudaError_t run_all(Lock& lock, EmulatedStream& stream) {
  while (!stream.queue.empty()) {
    if (!advance(stream) && !wait_for_threads(lock)) {
      return cudaErrorLaunchTimeout;
    }
  }
  return cudaSuccess;
}

cudaError_t run_until(Lock& lock, const std::shared_ptr<Record>& record) {
  while (!record->is_reached) {
    if (!advance(*record->stream) && !wait_for_threads(lock)) {
      return cudaErrorLaunchTimeout;
    }
  }
  return cudaSuccess;
}

/// Runs all streams of the devices for which `is_meant` holds.
template <class IsMeant>
cudaError_t run_devices(Lock& lock, const IsMeant& is_meant) {
  while (true) {
    bool is_done = true;
    bool has_advanced = false;
    for (auto& [key, stream] : streams) {
      if (!is_meant(stream->device)) {
        continue;
      }
      while (!stream->queue.empty() && advance(*stream)) {
        has_advanced = true;
      }
      is_done = is_done && stream->queue.empty();
    }
    if (is_done) {
      return cudaSuccess;
    }
    if (!has_advanced && !wait_for_threads(lock)) {
      return cudaErrorLaunchTimeout;
    }
  }
}

cudaError_t run_device(Lock& lock, int device) {
  return run_devices(lock, [=](int other) { return other == device; });
}

/// Runs a few operations of streams that chance picks.
void run_by_chance() {
  constexpr std::uint64_t most = 3;
  for (std::uint64_t left = random_numbers() % (most + 1); left > 0; --left) {
    const auto number = static_cast<std::ptrdiff_t>(random_numbers() % streams.size());
    EmulatedStream& stream = *std::next(streams.begin(), number)->second;
    static_cast<void>(advance(stream));
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
    num_queued[process_of(stream->device)] += operation.takes_room ? 1 : 0;
    stream->queue.push_back(std::move(operation));
    tell_of_progress();
    if (hardships.seed != 0) {
      run_by_chance();
    }
  }
  return cudaSuccess;
}

/// Queues what is no kernel, once there is room.
cudaError_t push(EmulatedStream* stream, const void* kind, std::function<void()> work) {
  if (const cudaError_t error = ptdp::emulated_gpu::make_room(stream); error != cudaSuccess) {
    return error;
  }
  return push(stream, {.kind = kind, .work = std::move(work)});
}

void reach(Record& record) {
  record.is_reached = true;
  record.time = std::chrono::steady_clock::now();
}

}  // namespace

namespace ptdp::emulated_gpu {

cudaError_t make_room(cudaStream_t stream) {
  Lock lock(device_mutex);
  if (!streams.contains(stream)) {
    return cudaErrorInvalidResourceHandle;
  }
  const int process = process_of(stream->device);
  while (hardships.most_queued > 0 && stream->capturing == nullptr &&
         num_queued[process] >= hardships.most_queued) {
    ++num_blocked[process];
    const bool has_advanced = std::any_of(streams.begin(), streams.end(), [=](const auto& entry) {
      return process_of(entry.second->device) == process && ::advance(*entry.second);
    });
    const bool goes_on = has_advanced || wait_for_threads(lock);
    --num_blocked[process];
    if (!goes_on) {
      return cudaErrorLaunchTimeout;
    }
  }
  return cudaSuccess;
}

int loads_beside_meetings() {
  const Lock lock(device_mutex);
  return num_loads_beside_meetings;
}

cudaError_t load_library_kernel() {
  Lock lock(device_mutex);
  const bool has_meeting = std::any_of(streams.begin(), streams.end(), [](const auto& entry) {
    const EmulatedStream& stream = *entry.second;
    return stream.device == current_device &&
           std::any_of(stream.queue.begin(), stream.queue.end(),
                       [](const Operation& queued) { return queued.meeting != nullptr; });
  });
  num_loads_beside_meetings += has_meeting ? 1 : 0;
  return hardships.loads_lazily ? run_device(lock, current_device) : cudaSuccess;
}

cudaError_t queue(cudaStream_t stream, const void* kind, std::function<void()> work) {
  if (const cudaError_t error = make_room(stream); error != cudaSuccess) {
    return error;
  }
  Lock lock(device_mutex);
  if (stream->device != current_device) {
    return cudaErrorInvalidResourceHandle;
  }
  if (hardships.loads_lazily && !loads_eagerly &&
      loaded.emplace(process_of(current_device), kind).second) {
    if (const cudaError_t error = run_device(lock, current_device); error != cudaSuccess) {
      return error;
    }
  }
  return push(stream, {.kind = kind, .work = std::move(work), .is_kernel = true});
}

void queue_unseen(cudaStream_t stream, const void* kind, std::function<void()> work) {
  static_cast<void>(push(stream, {.kind = kind, .work = std::move(work), .takes_room = false}));
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
  const std::lock_guard lock(device_mutex);
  tell_of_progress();
}

void set_hardships(const Hardships& chosen) {
  const std::lock_guard lock(device_mutex);
  const char* const loading = std::getenv("CUDA_MODULE_LOADING");
  hardships = chosen;
  loads_eagerly = loading != nullptr && std::string_view(loading) == "EAGER";
  loaded.clear();
  num_loads_beside_meetings = 0;
  is_stuck = false;
  random_numbers.seed(chosen.seed);
}

void set_devices(int count) {
  const std::lock_guard lock(device_mutex);
  num_devices = count;
}

void set_identity(const Identity& other) {
  const std::lock_guard lock(device_mutex);
  identity = other;
}

void set_memory(std::size_t bytes) {
  const std::lock_guard lock(device_mutex);
  memory_size = bytes;
}

void take_memory_beside(int device, std::int64_t bytes) {
  const std::lock_guard lock(device_mutex);
  taken_beside()[device] += static_cast<std::size_t>(bytes);  // wraps around for what is given back
}

std::size_t memory_in_use() {
  const std::lock_guard lock(device_mutex);
  return memory_used;
}

}  // namespace ptdp::emulated_gpu

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : error == cudaErrorLaunchTimeout  ? "cudaErrorLaunchTimeout"
                                            : "cudaErrorOfEmulation";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory"
         : error == cudaErrorLaunchTimeout  ? "threads wait for each other"
                                            : "emulated";
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
  std::strncpy(properties->name, identity.name, sizeof(properties->name) - 1);
  properties->totalGlobalMem = memory_size;
  properties->multiProcessorCount =
      hardships.multiprocessors > 0 ? hardships.multiprocessors : identity.multiprocessors;
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
  return run_device(lock, current_device);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(device_mutex);
  std::size_t used = taken_beside()[current_device];
  for (const auto& [address, allocation] : allocations) {
    used += allocation.device == current_device ? allocation.bytes : 0;
  }
  *free = memory_size - std::min(used, memory_size);
  *total = memory_size;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  Lock lock(device_mutex);
  if (hardships.allocates_alone) {
    const cudaError_t error = run_devices(lock, [](int device) {
      return device != current_device && process_of(device) == process_of(current_device);
    });
    if (error != cudaSuccess) {
      return error;
    }
  }
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
  if (const cudaError_t error = run_device(lock, allocation.device); error != cudaSuccess) {
    return error;
  }
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
  const cudaError_t error = run_all(lock, *stream);
  while (!stream->queue.empty()) {
    static_cast<void>(pop(*stream));
  }
  streams.erase(stream);
  return error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock(device_mutex);
  if (stream->capturing != nullptr) {
    stream->is_invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return run_all(lock, *stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (const cudaError_t error = ptdp::emulated_gpu::make_room(stream); error != cudaSuccess) {
    return error;
  }
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

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new EmulatedEvent();
  (*event)->tells_time = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(device_mutex);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (const cudaError_t error = ptdp::emulated_gpu::make_room(stream); error != cudaSuccess) {
    return error;
  }
  const std::lock_guard lock(device_mutex);
  if (stream->capturing != nullptr) {
    if (flags != cudaEventRecordExternal) {
      stream->is_invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    stream->capturing->records.push_back(event);
    return push(stream, {.kind = &kRecordKind, .work = [=] {
                           reach(*event->in_graphs.front());
                           event->in_graphs.pop_front();
                         }});
  }
  event->last = std::make_shared<Record>(Record{stream});
  return push(stream, {.kind = &kRecordKind, .work = [record = event->last] { reach(*record); }});
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(device_mutex);
  return event->last == nullptr || event->last->is_reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(device_mutex);
  return event->last != nullptr ? run_until(lock, event->last) : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  const std::lock_guard lock(device_mutex);
  if (first->last == nullptr || second->last == nullptr || !first->tells_time ||
      !second->tells_time) {
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
  if (const cudaError_t error = ptdp::emulated_gpu::make_room(stream); error != cudaSuccess) {
    return error;
  }
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

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  return ptdp::emulated_gpu::grant_shared_memory(kernel, value) ? cudaSuccess
                                                                : cudaErrorInvalidValue;
}
