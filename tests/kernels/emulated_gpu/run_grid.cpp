// Runs the threads of a grid as fibers.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cuda/launch.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

dim3 threadIdx;
dim3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace ptdp::emulated_gpu {
namespace {

using boost::context::fiber;

constexpr unsigned kWarpSize = 32;
constexpr std::size_t kStackBytes = 64 << 10U;
// What dynamic shared memory holds before a block runs: not a number, in f32, bf16 and fp16.
constexpr int kPoison = 0xFF;

// Shared memory of a block [B]: in all, and what it has without asking.
constexpr std::size_t kMostShared = 227U << 10U;
constexpr std::size_t kSharedUnasked = 48U << 10U;
// A kernel's own is not known here. The emulated GPU takes it for the most that launches expect.
constexpr auto kDeclaredShared = static_cast<std::size_t>(cuda::kMostDeclaredShared);

/// The dynamic shared memory that kernels were granted.
struct Grants {
  std::mutex mutex;
  std::map<const void*, std::size_t> bytes;
};
Grants& grants() {
  static Grants all;
  return all;
}

/// Stacks of fibers; those of fibers that ended are used again.
class KeptStacks {
 public:
  using Stack = boost::context::stack_context;
  static Stack allocate() {
    if (kept().empty()) {
      kept().push_back(std::make_unique<char[]>(kStackBytes));
    }
    Stack stack;
    stack.size = kStackBytes;
    stack.sp = kept().back().release() + kStackBytes;
    kept().pop_back();
    return stack;
  }
  static void deallocate(Stack& stack) noexcept {
    char* const memory = static_cast<char*>(stack.sp) - kStackBytes;
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(memory, kStackBytes);  // what the last frame left
#endif
    kept().emplace_back(memory);
  }

 private:
  static std::vector<std::unique_ptr<char[]>>& kept() {
    static std::vector<std::unique_ptr<char[]>> stacks;
    return stacks;
  }
};

[[noreturn]] void fail(const char* what) {
  static_cast<void>(std::fprintf(stderr, "emulated GPU: block %u, thread %u: %s\n", blockIdx.x,
                                 threadIdx.x, what));
  std::abort();
}

/// The threads of the block that runs.
class Block {
 public:
  Block(const Launch& launch, const std::function<void()>& kernel, bool descends)
      : launch_(launch),
        kernel_(kernel),
        descends_(descends),
        threads_(launch.threads.x),
        shared_(launch.shared_bytes / sizeof(float4) + 1) {}

  void run();
  void wait(bool for_block);
  std::uint64_t exchange(std::uint64_t value, unsigned from);
  void* shared() { return shared_.data(); }

 private:
  enum class State : std::uint8_t { kNotBegun, kReady, kAtWarp, kAtBlock, kDone };
  struct Thread {
    State state = State::kNotBegun;
    fiber context;  ///< Fiber in which the thread waits.
    int parity = 0;
    std::array<std::uint64_t, 2> passed{};
  };

  [[nodiscard]] unsigned thread_at(unsigned turn) const {
    return descends_ ? static_cast<unsigned>(threads_.size()) - 1 - turn : turn;
  }

  void resume(unsigned number);
  bool release_waiting();
  fiber begin(fiber&& back);

  const Launch& launch_;
  const std::function<void()>& kernel_;
  bool descends_;
  std::vector<Thread> threads_;
  std::vector<float4> shared_;
  unsigned num_begun_ = 0;
  fiber back_;  ///< Fiber of the caller that runs the block.
};

Block* running = nullptr;
bool descends_next = false;

/// Runs threads in a fiber, one after the other, until one of them waits.
fiber Block::begin(fiber&& back) {
  back_ = std::move(back);
  while (num_begun_ < threads_.size()) {
    threadIdx.x = thread_at(num_begun_++);
    const unsigned number = threadIdx.x;
    threads_[number].state = State::kReady;
    kernel_();
    threads_[number].state = State::kDone;
  }
  return std::move(back_);
}

void Block::resume(unsigned number) {
  threadIdx.x = number;
  threads_[number].state = State::kReady;
  static_cast<void>(std::move(threads_[number].context).resume());
}

void Block::wait(bool for_block) {
  const unsigned number = threadIdx.x;
  threads_[number].state = for_block ? State::kAtBlock : State::kAtWarp;
  fiber to = std::move(back_);
  back_ = std::move(to).resume_with([&](fiber&& here) {
    threads_[number].context = std::move(here);
    return fiber();
  });
  threadIdx.x = number;
}

std::uint64_t Block::exchange(std::uint64_t value, unsigned from) {
  Thread& own = threads_[threadIdx.x];
  const auto parity = static_cast<std::size_t>(own.parity);
  own.parity ^= 1;
  own.passed[parity] = value;
  const unsigned first = threadIdx.x / kWarpSize * kWarpSize;
  wait(/*for_block=*/false);
  return threads_[first + from].passed[parity];
}

/// Lets threads go on whose warp or block is complete. Returns whether there were any.
bool Block::release_waiting() {
  bool has_released = false;
  std::size_t at_block = 0;
  for (std::size_t first = 0; first < threads_.size(); first += kWarpSize) {
    unsigned at_warp = 0;
    for (std::size_t i = first; i < first + kWarpSize; ++i) {
      at_warp += threads_[i].state == State::kAtWarp ? 1 : 0;
      at_block += threads_[i].state == State::kAtBlock ? 1 : 0;
    }
    if (at_warp == kWarpSize) {
      has_released = true;
      for (std::size_t i = first; i < first + kWarpSize; ++i) {
        threads_[i].state = State::kReady;
      }
    }
  }
  if (at_block == threads_.size()) {
    has_released = true;
    for (Thread& thread : threads_) {
      thread.state = State::kReady;
    }
  }
  return has_released;
}

void Block::run() {
  std::memset(shared_.data(), kPoison, shared_.size() * sizeof(float4));
  running = this;
  while (num_begun_ < threads_.size()) {
    fiber first(std::allocator_arg, KeptStacks(),
                [this](fiber&& back) { return begin(std::move(back)); });
    static_cast<void>(std::move(first).resume());
  }
  while (release_waiting()) {
    for (unsigned turn = 0; turn < threads_.size(); ++turn) {
      const unsigned number = thread_at(turn);
      if (threads_[number].state == State::kReady) {
        resume(number);
      }
    }
  }
  for (const Thread& thread : threads_) {
    if (thread.state != State::kDone) {
      fail("waits for threads of its block that are done or wait elsewhere");
    }
  }
  running = nullptr;
}

}  // namespace

void run_grid(const Launch& launch, const std::function<void()>& kernel) {
  const bool descends = descends_next;
  descends_next = !descends_next;
  blockDim = launch.threads;
  gridDim = launch.blocks;
  const std::size_t count = std::size_t{launch.blocks.x} * launch.blocks.y * launch.blocks.z;
  for (std::size_t turn = 0; turn < count; ++turn) {
    const std::size_t number = descends ? count - 1 - turn : turn;
    blockIdx.x = static_cast<unsigned>(number % launch.blocks.x);
    blockIdx.y = static_cast<unsigned>(number / launch.blocks.x % launch.blocks.y);
    blockIdx.z = static_cast<unsigned>(number / launch.blocks.x / launch.blocks.y);
    threadIdx = dim3(0, 0, 0);
    Block block(launch, kernel, descends);
    block.run();
  }
}

void wait_for_block() {
  running->wait(/*for_block=*/true);
}

std::uint64_t exchange_in_warp(std::uint64_t value, unsigned from) {
  return running->exchange(value, from);
}

bool grant_shared_memory(const void* kernel, int bytes) {
  const auto size = static_cast<std::size_t>(std::max(bytes, 0));
  if (size + kDeclaredShared > kMostShared) {
    return false;
  }
  Grants& all = grants();
  const std::lock_guard lock(all.mutex);
  all.bytes[kernel] = size;
  return true;
}

bool has_shared_memory(const void* kernel, std::size_t bytes) {
  if (bytes + kDeclaredShared <= kSharedUnasked) {
    return true;
  }
  Grants& all = grants();
  const std::lock_guard lock(all.mutex);
  const auto granted = all.bytes.find(kernel);
  return granted != all.bytes.end() && bytes <= granted->second;
}

unsigned lane_of_thread() {
  return threadIdx.x % kWarpSize;
}

}  // namespace ptdp::emulated_gpu

void* emulated_dynamic_shared() {
  return ptdp::emulated_gpu::running->shared();
}
