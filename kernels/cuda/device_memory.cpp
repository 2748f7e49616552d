// Cuts, joins and reuses blocks of device memory, and orders the lanes that share them.
#include "kernels/cuda/device_memory.h"

#include <algorithm>
#include <cassert>

#ifdef PTDP_EMULATED_GPU
#include <sanitizer/asan_interface.h>
#endif

namespace ptdp::cuda {
namespace {

constexpr std::int64_t kBlockAlignment = 512;
constexpr std::int64_t kSegmentAlignment = std::int64_t{2} << 20U;
constexpr std::int64_t kSmallestSegment = std::int64_t{32} << 20U;

std::int64_t round_up(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// When "device" memory is a host's, these tell the address sanitizer which of it may be touched,
/// at the time when the stream gets there.
#ifdef PTDP_EMULATED_GPU
const char kAllowing = 0;
const char kForbidding = 0;
void allow_access(cudaStream_t stream, std::byte* memory, std::int64_t bytes) {
  emulated_gpu::queue_unseen(stream, &kAllowing, [=] {
    ASAN_UNPOISON_MEMORY_REGION(memory, static_cast<std::size_t>(bytes));
  });
}
void forbid_access(cudaStream_t stream, std::byte* memory, std::int64_t bytes) {
  emulated_gpu::queue_unseen(stream, &kForbidding, [=] {
    ASAN_POISON_MEMORY_REGION(memory, static_cast<std::size_t>(bytes));
  });
}
void return_access(std::byte* memory, std::int64_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(memory, static_cast<std::size_t>(bytes));
}
#else
void allow_access(cudaStream_t, std::byte*, std::int64_t) {}
void forbid_access(cudaStream_t, std::byte*, std::int64_t) {}
void return_access(std::byte*, std::int64_t) {}
#endif

}  // namespace

void* allocate_on_device(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  check(status, "cudaMalloc");
  return memory;
}

DeviceMemory::~DeviceMemory() {
  trim();
}

void* DeviceMemory::allocate(std::int64_t bytes, int lane) {
  const std::int64_t needed = round_up(bytes, kBlockAlignment);
  auto found = best_fit(needed, lane);
  if (found == blocks_.end()) {
    if (!add_segment(needed)) {
      return nullptr;
    }
    found = best_fit(needed, lane);
  }
  erase_free(found);
  Block& block = found->second;
  if (block.bytes > needed) {
    const auto rest = blocks_
                          .emplace(found->first + needed,
                                   Block{.bytes = block.bytes - needed, .lanes = block.lanes})
                          .first;
    block.bytes = needed;
    insert_free(rest);
  }
  block.is_used = true;
  for (int other = 0; other < kNumBackendLanes; ++other) {
    if (other != lane && (block.lanes & bit_of(other)) != 0) {
      order(other, lane);
    }
  }
  block.lanes = 0;
  allow_access(streams_[lane], found->first, bytes);
  return found->first;
}

void DeviceMemory::release(void* memory, int lane) noexcept {
  auto block = blocks_.find(static_cast<std::byte*>(memory));
  assert(block != blocks_.end() && block->second.is_used);
  forbid_access(streams_[lane], block->first, block->second.bytes);
  block->second.is_used = false;
  block->second.lanes = bit_of(lane);
  join_with_next(block);
  if (block != blocks_.begin() && !block->second.begins_segment) {
    const auto before = std::prev(block);
    if (!before->second.is_used) {
      erase_free(before);
      join_with_next(before);
      block = before;
    }
  }
  insert_free(block);
}

void DeviceMemory::trim() noexcept {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto next = std::next(block);
    const bool ends_segment = next == blocks_.end() || next->second.begins_segment;
    if (block->second.is_used || !block->second.begins_segment || !ends_segment) {
      block = next;
      continue;
    }
    erase_free(block);
    reserved_ -= block->second.bytes;
    return_access(block->first, block->second.bytes);
    static_cast<void>(cudaFree(block->first));
    blocks_.erase(block);
    block = next;
  }
}

/// Makes lane `to` wait for the work queued on lane `from`.
void DeviceMemory::order(int from, int to) const {
  const std::shared_ptr<void> event = events_->take();
  record_on(streams_[from], event);
  wait_on(streams_[to], event);
}

bool DeviceMemory::add_segment(std::int64_t bytes) {
  const auto add = [this](std::int64_t size) {
    auto* const begin = static_cast<std::byte*>(allocate_on_device(size));
    if (begin != nullptr) {
      reserved_ += size;
      insert_free(blocks_.emplace(begin, Block{.bytes = size, .begins_segment = true}).first);
    }
    return begin != nullptr;
  };
  const std::int64_t least = round_up(bytes, kSegmentAlignment);
  return add(std::max(least, kSmallestSegment)) || add(least);
}

/// Returns whether a lane may use a block that the lanes `released_by` released.
bool DeviceMemory::may_use(int lane, unsigned released_by) const {
  const unsigned others = released_by & ~bit_of(lane);
  return others == 0 || ((others | bit_of(lane)) & lanes_apart_) == 0;
}

DeviceMemory::Blocks::iterator DeviceMemory::best_fit(std::int64_t bytes, int lane) {
  for (auto free = free_.lower_bound({bytes, nullptr}); free != free_.end(); ++free) {
    const auto block = blocks_.find(free->second);
    if (may_use(lane, block->second.lanes)) {
      return block;
    }
  }
  return blocks_.end();
}

/// Joins a free block with the next one, if that is free and of the same segment.
void DeviceMemory::join_with_next(Blocks::iterator block) {
  const auto next = std::next(block);
  if (next == blocks_.end() || next->second.is_used || next->second.begins_segment) {
    return;
  }
  // A block that was just released is in no list yet.
  free_.erase({next->second.bytes, next->first});
  block->second.bytes += next->second.bytes;
  block->second.lanes |= next->second.lanes;
  blocks_.erase(next);
}

void DeviceMemory::insert_free(const Blocks::iterator& block) {
  free_.emplace(block->second.bytes, block->first);
}

void DeviceMemory::erase_free(const Blocks::iterator& block) {
  free_.erase({block->second.bytes, block->first});
}

}  // namespace ptdp::cuda
