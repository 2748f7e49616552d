#include "tests/runtime/lazy_backend.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "runtime/steady_clock.h"

namespace ptdp::testing {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::int64_t kMostDiscarded = std::int64_t{64} << 20;
constexpr int kPoison = 0xFF;  // a NaN in floating types

void* poisoned(std::int64_t bytes) {
  void* const memory = ::operator new(static_cast<std::size_t>(bytes), kAlignment);
  std::memset(memory, kPoison, static_cast<std::size_t>(bytes));
  return memory;
}

/// The lane in use on this thread, by backend.
std::map<std::uint64_t, int>& lanes_in_use() {
  thread_local std::map<std::uint64_t, int> lanes;
  return lanes;
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

LazyDevice::~LazyDevice() {
  for (const auto& [memory, bytes] : discarded_) {
    ::operator delete(memory, kAlignment);
  }
}

void LazyDevice::add(Lanes& lanes) {
  for (Lane& lane : lanes) {
    lanes_.push_back(&lane);
  }
}

void LazyDevice::remove(Lanes& lanes) {
  run_all(lanes);
  std::erase_if(lanes_, [&](const Lane* lane) {
    return std::any_of(lanes.begin(), lanes.end(), [&](const Lane& own) { return &own == lane; });
  });
}

void LazyDevice::queue(Lane& lane, Step step) {
  lane.steps.push_back(std::move(step));
  if (laziness_ == Laziness::kRandom && random_() % 4 == 0) {
    run_some();
  }
}

void LazyDevice::run_some() {
  Lane& lane = *lanes_[random_() % lanes_.size()];
  for (unsigned i = random_() % 16; i > 0 && !lane.steps.empty(); --i) {
    run_next(lane);
  }
}

// Events are recorded before they are waited for, so that lanes do not wait in a circle.
// NOLINTNEXTLINE(misc-no-recursion): lanes wait for lanes
void LazyDevice::run_next(Lane& lane) {
  if (lane.steps.front().waits_for != nullptr) {
    run_until(*lane.steps.front().waits_for);
  }
  const Step step = std::move(lane.steps.front());
  lane.steps.pop_front();
  if (step.work) {
    step.work();
  }
  if (step.reaches != nullptr) {
    step.reaches->is_reached = true;
    step.reaches->nanoseconds = now_ns();
  }
}

// NOLINTNEXTLINE(misc-no-recursion): lanes wait for lanes
void LazyDevice::run_until(const Point& point) {
  while (!point.is_reached) {
    run_next(*point.lane);
  }
}

void LazyDevice::run_all(Lanes& lanes) {
  for (Lane& lane : lanes) {
    while (!lane.steps.empty()) {
      run_next(lane);
    }
  }
}

void LazyDevice::discard(void* memory, std::int64_t bytes) {
  std::memset(memory, kPoison, static_cast<std::size_t>(bytes));
  discarded_.emplace_back(memory, bytes);
  discarded_bytes_ += bytes;
  while (discarded_bytes_ > kMostDiscarded) {
    ::operator delete(discarded_.front().first, kAlignment);
    discarded_bytes_ -= discarded_.front().second;
    discarded_.pop_front();
  }
}

LazyBackend::LazyBackend(std::shared_ptr<LazyDevice> device)
    : device_(std::move(device)), number_(next_number()) {
  const std::lock_guard lock(device_->mutex());
  device_->add(lanes_);
}

LazyBackend::~LazyBackend() {
  const std::lock_guard lock(device_->mutex());
  device_->remove(lanes_);
}

int LazyBackend::lane() const {
  const auto found = lanes_in_use().find(number_);
  return found == lanes_in_use().end() ? 0 : found->second;
}

void LazyBackend::use_lane(int lane) {
  lanes_in_use()[number_] = lane;
}

void LazyBackend::queue_step(LazyDevice::Step step) {
  device_->queue(lanes_[static_cast<std::size_t>(lane())], std::move(step));
}

void LazyBackend::queue(std::function<void()> work) {
  const std::lock_guard lock(device_->mutex());
  queue_step({.work = std::move(work)});
}

Event LazyBackend::record() {
  const std::lock_guard lock(device_->mutex());
  auto point = std::make_shared<LazyDevice::Point>();
  point->lane = &lanes_[static_cast<std::size_t>(lane())];
  queue_step({.reaches = point});
  return {.nanoseconds = now_ns(), .device = std::move(point)};
}

void LazyBackend::wait(const Event& event) {
  const std::lock_guard lock(device_->mutex());
  queue_step({.waits_for = std::static_pointer_cast<LazyDevice::Point>(event.device)});
}

void LazyBackend::synchronize() {
  const std::lock_guard lock(device_->mutex());
  device_->run_all(lanes_);
}

double LazyBackend::seconds_between(const Event& first, const Event& second) {
  const std::lock_guard lock(device_->mutex());
  const auto& from = *static_cast<const LazyDevice::Point*>(first.device.get());
  const auto& to = *static_cast<const LazyDevice::Point*>(second.device.get());
  if (!from.is_reached || !to.is_reached) {
    throw std::logic_error("an event is not reached");
  }
  return static_cast<double>(to.nanoseconds - from.nanoseconds) * 1e-9;
}

// The device may be gone by then, but not while operations are left.
std::shared_ptr<void> LazyBackend::message_memory(std::int64_t bytes) {
  return {poisoned(bytes), [bytes](void* memory) {
            std::memset(memory, kPoison, static_cast<std::size_t>(bytes));
            ::operator delete(memory, kAlignment);
          }};
}

void* LazyBackend::allocate_memory(std::int64_t bytes) {
  return poisoned(bytes);
}

void LazyBackend::release_memory(void* memory, std::int64_t bytes) noexcept {
  const std::lock_guard lock(device_->mutex());
  queue_step({.work = [this, memory, bytes] { device_->discard(memory, bytes); }});
}

void LazyBackend::copy_in(const void* from, Buffer to) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  queue([=, this, source = std::vector(bytes, bytes + to.bytes())] {
    cpu_.copy_in(source.data(), to);
  });
}

void LazyBackend::copy_out(Buffer from, void* to) {
  queue([=, this] { cpu_.copy_out(from, to); });
  const Event done = record();
  const std::lock_guard lock(device_->mutex());
  device_->run_until(*static_cast<const LazyDevice::Point*>(done.device.get()));
}

void LazyBackend::adamw(const AdamW& settings, std::span<const AdamWSlice> slices) {
  queue([=, this, own = std::vector(slices.begin(), slices.end())] { cpu_.adamw(settings, own); });
}

}  // namespace ptdp::testing
