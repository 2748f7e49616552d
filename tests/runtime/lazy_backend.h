// A device that does everything as late as it may, or at random times. A result that is right on it
// does not rest on luck.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/forwarding_backend.h"

namespace ptdp::testing {

/// When the lanes of a LazyDevice run.
enum class Laziness {
  kLatest,  ///< When a thread waits for them, and no further than it needs.
  kRandom   ///< When a thread waits for them, or at random before.
};

/// The part of a device that the backends of several threads share. Guarded by mutex().
class LazyDevice {
 public:
  explicit LazyDevice(Laziness laziness, unsigned seed = 1) : laziness_(laziness), random_(seed) {}
  LazyDevice(const LazyDevice&) = delete;
  LazyDevice& operator=(const LazyDevice&) = delete;
  LazyDevice(LazyDevice&&) = delete;
  LazyDevice& operator=(LazyDevice&&) = delete;
  ~LazyDevice();

  struct Lane;
  /// A point of a lane that an event records.
  struct Point {
    Lane* lane = nullptr;
    bool is_reached = false;
    std::int64_t nanoseconds = 0;  ///< When the point was reached [ns].
  };
  /// A step of a lane: work, a wait for a point, or a point to reach.
  struct Step {
    std::function<void()> work;
    std::shared_ptr<Point> waits_for;
    std::shared_ptr<Point> reaches;
  };
  struct Lane {
    std::deque<Step> steps;
  };
  using Lanes = std::array<Lane, kNumBackendLanes>;

  void add(Lanes& lanes);
  /// Runs the steps that are left in the lanes and forgets the lanes.
  void remove(Lanes& lanes);
  void queue(Lane& lane, Step step);
  void run_until(const Point& point);
  void run_all(Lanes& lanes);
  /// Poisons memory, and frees it some time later.
  void discard(void* memory, std::int64_t bytes);

  [[nodiscard]] std::mutex& mutex() { return mutex_; }

 private:
  void run_next(Lane& lane);
  void run_some();

  Laziness laziness_;
  std::mt19937 random_;
  std::mutex mutex_;
  std::vector<Lane*> lanes_;
  std::deque<std::pair<void*, std::int64_t>> discarded_;
  std::int64_t discarded_bytes_ = 0;
};

/// One rank's part of the device: the operations of a CpuBackend, queued. Allocated and released
/// memory holds NaN.
class LazyBackend final : public ForwardingBackend<LazyBackend> {
 public:
  explicit LazyBackend(std::shared_ptr<LazyDevice> device);
  LazyBackend(const LazyBackend&) = delete;
  LazyBackend& operator=(const LazyBackend&) = delete;
  LazyBackend(LazyBackend&&) = delete;
  LazyBackend& operator=(LazyBackend&&) = delete;
  ~LazyBackend() override;

  [[nodiscard]] std::shared_ptr<void> message_memory(std::int64_t bytes) override;
  void use_lane(int lane) override;
  [[nodiscard]] Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;
  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override;

  [[nodiscard]] bool replaces_attention_inputs() const override {
    return cpu_.replaces_attention_inputs();
  }
  void copy_in(const void* from, Buffer to) override;
  void copy_out(Buffer from, void* to) override;
  void adamw(const AdamW& settings, std::span<const AdamWSlice> slices) override;

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override;
  void release_memory(void* memory, std::int64_t bytes) noexcept override;

 private:
  friend class ForwardingBackend<LazyBackend>;

  template <auto kOperation, class... Arguments>
  void run(const Arguments&... arguments) {
    queue([=, this] { (cpu_.*kOperation)(arguments...); });
  }
  [[nodiscard]] int lane() const;
  void queue(std::function<void()> work);
  void queue_step(LazyDevice::Step step);

  std::shared_ptr<LazyDevice> device_;
  CpuBackend cpu_;
  LazyDevice::Lanes lanes_;
  std::uint64_t number_;  ///< Number of this backend among all that were made.
};

}  // namespace ptdp::testing
