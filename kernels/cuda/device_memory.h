// A rank's memory of a GPU: released blocks are joined and used again without asking the driver,
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

/// The streams of a rank, by lane.
using LaneStreams = std::array<cudaStream_t, kNumBackendLanes>;

/// Of the driver; null where the GPU has no more. Throws CudaError where something else failed, in
/// an operation before it.
[[nodiscard]] void* allocate_on_device(std::int64_t bytes);

/// Cuts blocks from segments that it asks the driver for, the smallest free one that suffices. A
/// block released on a lane may be used again on that lane at once; on another, which then waits
/// for what the first has queued by then. One thread at a time.
class DeviceMemory {
 public:
  /// `streams` are those of the lanes.
  DeviceMemory(const LaneStreams& streams, std::shared_ptr<EventPool> events)
      : streams_(streams), events_(std::move(events)) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&&) = delete;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  /// Everything was released, and the lanes are empty.
  ~DeviceMemory();

  /// Aligned to 512 bytes; null where the GPU has no more. `bytes` is positive. Throws CudaError.
  [[nodiscard]] void* allocate(std::int64_t bytes, int lane);
  void release(void* memory, int lane) noexcept;
  /// Gives segments that nothing uses back to the driver; the lanes are empty and none is kept
  /// apart.
  void trim() noexcept;
  /// While what is queued on a lane goes into a graph, which is launched later: its memory and that
  /// of other lanes are not exchanged. Of any thread.
  void keep_apart(int lane) { lanes_apart_ |= bit_of(lane); }
  void join(int lane) { lanes_apart_ &= ~bit_of(lane); }
  [[nodiscard]] bool has_lanes_apart() const { return lanes_apart_ != 0; }
  /// Bytes of all segments.
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }

 private:
  struct Block {
    std::int64_t bytes = 0;
    bool is_used = false;
    bool begins_segment = false;
    unsigned lanes = 0;  ///< Bit l: lane l may still use what was here.
  };
  using Blocks = std::map<std::byte*, Block>;

  [[nodiscard]] static unsigned bit_of(int lane) { return 1U << static_cast<unsigned>(lane); }
  [[nodiscard]] bool may_use(int lane, unsigned released_by) const;
  void order(int from, int to) const;
  [[nodiscard]] bool add_segment(std::int64_t bytes);
  [[nodiscard]] Blocks::iterator best_fit(std::int64_t bytes, int lane);
  void join_with_next(Blocks::iterator block);
  void insert_free(const Blocks::iterator& block);
  void erase_free(const Blocks::iterator& block);

  LaneStreams streams_;
  std::shared_ptr<EventPool> events_;
  Blocks blocks_;                                       ///< By address, all of all segments.
  std::set<std::pair<std::int64_t, std::byte*>> free_;  ///< By size, then address.
  std::int64_t reserved_ = 0;
  std::atomic<unsigned> lanes_apart_ = 0;
};

}  // namespace ptdp::cuda
