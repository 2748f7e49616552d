#include "tests/runtime/lazy_backend.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/steady_clock.h"

namespace ptdp::testing {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::int64_t kMostDiscarded = std::int64_t{64} << 20;
constexpr int kPoison = 0xFF;  // of floating types a NaN

void* poisoned(std::int64_t bytes) {
  void* const memory = ::operator new(static_cast<std::size_t>(bytes), kAlignment);
  std::memset(memory, kPoison, static_cast<std::size_t>(bytes));
  return memory;
}

/// The lane in use, by backend, of this thread.
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

void LazyBackend::queue(const char* name, std::function<void()> work) {
  const std::lock_guard lock(device_->mutex());
  if (graph_lane_ == lane()) {
    graph_.emplace_back(name);
  }
  queue_step({.work = std::move(work)});
}

void LazyBackend::forbid_in_graph(const char* name) {
  const std::lock_guard lock(device_->mutex());
  if (graph_lane_ == lane()) {
    device_->note_graph_fault(std::string(name) + " in a graph");
  }
}

Event LazyBackend::record() {
  forbid_in_graph("record");
  const std::lock_guard lock(device_->mutex());
  auto point = std::make_shared<LazyDevice::Point>();
  point->lane = &lanes_[static_cast<std::size_t>(lane())];
  queue_step({.reaches = point});
  return {.nanoseconds = now_ns(), .device = std::move(point)};
}

void LazyBackend::wait(const Event& event) {
  forbid_in_graph("wait");
  const std::lock_guard lock(device_->mutex());
  queue_step({.waits_for = std::static_pointer_cast<LazyDevice::Point>(event.device)});
}

void LazyBackend::synchronize() {
  forbid_in_graph("synchronize");
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

void LazyBackend::run_as_graph(std::int64_t key, const std::function<void()>& issue) {
  {
    const std::lock_guard lock(device_->mutex());
    graph_lane_ = lane();
    graph_.clear();
  }
  issue();
  const std::lock_guard lock(device_->mutex());
  graph_lane_ = -1;
  const auto [found, is_new] = graphs_.try_emplace(key, graph_);
  if (!is_new && found->second != graph_) {
    device_->note_graph_fault("another graph of key " + std::to_string(key));
  }
  device_->count_graph();
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
  forbid_in_graph("copy_in");
  const auto* const bytes = static_cast<const std::byte*>(from);
  queue("copy_in", [=, this, source = std::vector(bytes, bytes + to.bytes())] {
    cpu_.copy_in(source.data(), to);
  });
}

void LazyBackend::copy_out(Buffer from, void* to) {
  forbid_in_graph("copy_out");
  queue("copy_out", [=, this] { cpu_.copy_out(from, to); });
  const Event done = record();
  const std::lock_guard lock(device_->mutex());
  device_->run_until(*static_cast<const LazyDevice::Point*>(done.device.get()));
}

void LazyBackend::adamw(const AdamW& settings, std::span<const AdamWSlice> slices) {
  queue("adamw",
        [=, this, own = std::vector(slices.begin(), slices.end())] { cpu_.adamw(settings, own); });
}

void LazyBackend::copy(Buffer from, Buffer to) {
  queue("copy", [=, this] { cpu_.copy(from, to); });
}

void LazyBackend::convert(Buffer from, Buffer to) {
  queue("convert", [=, this] { cpu_.convert(from, to); });
}

void LazyBackend::fill(Buffer x, double value) {
  queue("fill", [=, this] { cpu_.fill(x, value); });
}

void LazyBackend::add(Buffer x, Buffer to) {
  queue("add", [=, this] { cpu_.add(x, to); });
}

void LazyBackend::maximum(Buffer x, Buffer to) {
  queue("maximum", [=, this] { cpu_.maximum(x, to); });
}

void LazyBackend::scale(Buffer x, double factor) {
  queue("scale", [=, this] { cpu_.scale(x, factor); });
}

void LazyBackend::add_bias(Buffer x, Buffer bias, std::int64_t rows) {
  queue("add_bias", [=, this] { cpu_.add_bias(x, bias, rows); });
}

void LazyBackend::bias_gradient(Buffer dy, Buffer gradient, std::int64_t rows) {
  queue("bias_gradient", [=, this] { cpu_.bias_gradient(dy, gradient, rows); });
}

void LazyBackend::bias_gelu(Buffer x, Buffer bias, Buffer y, std::int64_t rows) {
  queue("bias_gelu", [=, this] { cpu_.bias_gelu(x, bias, y, rows); });
}

void LazyBackend::gelu_backward(Buffer x, Buffer dy, Buffer dx) {
  queue("gelu_backward", [=, this] { cpu_.gelu_backward(x, dy, dx); });
}

void LazyBackend::bias_dropout_add(Buffer x, Buffer bias, Buffer residual, const Dropout& dropout,
                                   const TokenRange& range, Buffer y, std::int64_t rows) {
  queue("bias_dropout_add",
        [=, this] { cpu_.bias_dropout_add(x, bias, residual, dropout, range, y, rows); });
}

void LazyBackend::dropout_backward(Buffer dy, const Dropout& dropout, const TokenRange& range,
                                   Buffer dx, std::int64_t rows) {
  queue("dropout_backward", [=, this] { cpu_.dropout_backward(dy, dropout, range, dx, rows); });
}

void LazyBackend::matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) {
  queue("matmul", [=, this] { cpu_.matmul(product, a, b, c); });
}

void LazyBackend::layer_norm(Buffer x, Buffer gamma, Buffer beta, double epsilon, Buffer y,
                             Buffer mean, Buffer rstd, std::int64_t rows) {
  queue("layer_norm", [=, this] { cpu_.layer_norm(x, gamma, beta, epsilon, y, mean, rstd, rows); });
}

void LazyBackend::layer_norm_backward(Buffer dy, Buffer x, Buffer mean, Buffer rstd, Buffer gamma,
                                      Buffer dx, Buffer dgamma, Buffer dbeta, std::int64_t rows) {
  queue("layer_norm_backward",
        [=, this] { cpu_.layer_norm_backward(dy, x, mean, rstd, gamma, dx, dgamma, dbeta, rows); });
}

void LazyBackend::attention(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum) {
  queue("attention", [=, this] { cpu_.attention(shape, qkv, out, log_sum); });
}

void LazyBackend::attention_backward(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum,
                                     Buffer dout, Buffer dqkv) {
  queue("attention_backward",
        [=, this] { cpu_.attention_backward(shape, qkv, out, log_sum, dout, dqkv); });
}

void LazyBackend::embedding(Buffer ids, Buffer table, std::int64_t first, Buffer out) {
  queue("embedding", [=, this] { cpu_.embedding(ids, table, first, out); });
}

void LazyBackend::embedding_gradient(Buffer ids, Buffer dy, std::int64_t first, Buffer gradient) {
  queue("embedding_gradient", [=, this] { cpu_.embedding_gradient(ids, dy, first, gradient); });
}

void LazyBackend::add_positions(Buffer x, Buffer positions, const TokenRange& range,
                                std::int64_t rows) {
  queue("add_positions", [=, this] { cpu_.add_positions(x, positions, range, rows); });
}

void LazyBackend::position_gradient(Buffer dy, Buffer gradient, const TokenRange& range,
                                    std::int64_t rows) {
  queue("position_gradient", [=, this] { cpu_.position_gradient(dy, gradient, range, rows); });
}

void LazyBackend::row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima,
                             std::int64_t rows) {
  queue("row_maxima", [=, this] { cpu_.row_maxima(logits, shard, maxima, rows); });
}

void LazyBackend::softmax_sums(Buffer logits, const VocabShard& shard, Buffer targets,
                               Buffer maxima, Buffer sums, std::int64_t rows) {
  queue("softmax_sums",
        [=, this] { cpu_.softmax_sums(logits, shard, targets, maxima, sums, rows); });
}

void LazyBackend::add_losses(Buffer sums, Buffer total, std::int64_t rows) {
  queue("add_losses", [=, this] { cpu_.add_losses(sums, total, rows); });
}

void LazyBackend::cross_entropy_backward(Buffer logits, const VocabShard& shard, Buffer targets,
                                         Buffer maxima, Buffer sums, double scale,
                                         std::int64_t rows) {
  queue("cross_entropy_backward", [=, this] {
    cpu_.cross_entropy_backward(logits, shard, targets, maxima, sums, scale, rows);
  });
}

void LazyBackend::add_squares(Buffer x, Buffer total) {
  queue("add_squares", [=, this] { cpu_.add_squares(x, total); });
}

void LazyBackend::fill_normal(Buffer x, const MatrixBlock& block, std::uint64_t key,
                              double deviation) {
  queue("fill_normal", [=, this] { cpu_.fill_normal(x, block, key, deviation); });
}

}  // namespace ptdp::testing
