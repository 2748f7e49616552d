// One rank's memory of a GPU. Released blocks are joined and used again without asking the driver,
// which would wait for the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "kernels/backend.h"
#include "kernels/cuda/events.h"

namespace ptdp::cuda {

/// The streams of one rank, by lane.
using LaneStreams = std::array<cudaStream_t, kNumBackendLanes>;

/// Allocates device memory from the driver. Returns null when the GPU is out of memory. Throws
/// CudaError for any other failure, including one left by an earlier asynchronous call.
[[nodiscard]] void* allocate_on_device(std::int64_t bytes);

/// Cuts blocks from segments of the driver's memory, each from the smallest free block that
/// suffices. A block released on a lane may be used again on that lane at once. Another lane that
/// uses it first waits for the work that the releasing lane has queued by then. One thread at a
/// time may use it.
class DeviceMemory {
 public:
  /// `streams` are those of the lanes; `events` order lanes.
  DeviceMemory(const LaneStreams& streams, std::shared_ptr<EventPool> events)
      : streams_(streams), events_(std::move(events)) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&&) = delete;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  /// Gives all segments back. All blocks must have been released, and the lanes must be empty.
  ~DeviceMemory();

  /// Returns a block aligned to 512 bytes for use on `lane`, or null when the GPU is out of memory.
  /// `bytes` must be positive. Throws CudaError.
  [[nodiscard]] void* allocate(std::int64_t bytes, int lane);
  /// Releases a block after the work that `lane` has queued so far.
  void release(void* memory, int lane) noexcept;
  /// Gives unused segments back to the driver. The lanes must be empty, and none may be kept apart.
  void trim() noexcept;
  /// Keeps a lane from exchanging memory with other lanes, until join(). Needed while the work of
  /// the lane goes into a graph, which is launched later. Any thread may call it.
  void keep_apart(int lane) { lanes_apart_ |= bit_of(lane); }
  /// Ends keep_apart() for a lane. Any thread may call it.
  void join(int lane) { lanes_apart_ &= ~bit_of(lane); }
  /// Returns whether a lane is kept apart.
  [[nodiscard]] bool has_lanes_apart() const { return lanes_apart_ != 0; }
  /// Returns the total size of all segments [B].
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }

 private:
  /// A part of a segment.
  struct Block {
    std::int64_t bytes = 0;
    bool is_used = false;
    bool begins_segment = false;
    unsigned lanes = 0;  ///< Bit l is set while lane l may still use what was here.
  };
  using Blocks = std::map<std::byte*, Block>;

  /// Returns the bit of a lane in a set of lanes.
  [[nodiscard]] static unsigned bit_of(int lane) { return 1U << static_cast<unsigned>(lane); }
  /// Returns whether `lane` may use a free block that the lanes `released_by` released.
  [[nodiscard]] bool may_use(int lane, unsigned released_by) const;
  /// Makes lane `to` wait for the work queued on lane `from`.
  void order(int from, int to) const;
  /// Takes a segment for `bytes` bytes from the driver. Returns false when the GPU is out of
  /// memory.
  [[nodiscard]] bool add_segment(std::int64_t bytes);
  /// Returns the smallest free block of `bytes` or more that `lane` may use, or the end of the
  /// blocks.
  [[nodiscard]] Blocks::iterator best_fit(std::int64_t bytes, int lane);
  /// Joins a free block with the next block of its segment, if that is free.
  void join_with_next(Blocks::iterator block);
  void insert_free(const Blocks::iterator& block);
  void erase_free(const Blocks::iterator& block);

  LaneStreams streams_;
  std::shared_ptr<EventPool> events_;
  Blocks blocks_;                                       ///< All blocks of all segments, by address.
  std::set<std::pair<std::int64_t, std::byte*>> free_;  ///< Free blocks, by size and then address.
  std::int64_t reserved_ = 0;                           ///< Total size of all segments [B].
  std::atomic<unsigned> lanes_apart_ = 0;               ///< Lanes that are kept apart, as bits.
};

}  // namespace ptdp::cuda
