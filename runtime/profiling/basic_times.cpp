#include "runtime/profiling/basic_times.h"

#include <chrono>

#include "runtime/profiling/repeated_calls.h"
#include "runtime/profiling/samples.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kFewElements = 16;
constexpr int kLaunches = 100;  // operations in a row: fewer than a GPU's queue holds
constexpr int kRepeats = 9;

double elapsed_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A product of two square matrices of random numbers.
class SquareProduct {
 public:
  SquareProduct(Backend& backend, DataType type, std::int64_t size)
      : backend_(backend),
        size_(size),
        a_(backend, type, size * size),
        b_(backend, type, size * size),
        c_(backend, type, size * size) {
    const MatrixBlock all = {.rows = size, .columns = size, .total_columns = size};
    backend.fill_normal(a_, all, /*key=*/1, /*deviation=*/1.0);
    backend.fill_normal(b_, all, /*key=*/2, /*deviation=*/1.0);
  }
  void operator()() const {
    backend_.matmul({.m = size_, .n = size_, .k = size_, .transposes_b = true}, a_, b_, c_);
  }

 private:
  Backend& backend_;
  std::int64_t size_;
  Tensor a_;
  Tensor b_;
  Tensor c_;
};

/// Returns the time [s] of the calling thread for each of the kLaunches operations that `issue`
/// queues.
double host_time(Backend& backend, const std::function<void()>& issue) {
  std::vector<double> times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    backend.synchronize();
    const Clock::time_point begin = Clock::now();
    issue();
    times.push_back(elapsed_since(begin) / kLaunches);
  }
  backend.synchronize();
  return quiet_time(times);
}

}  // namespace

double time_copy(Backend& backend, double width) {
  const auto size = static_cast<std::int64_t>(width);
  const Tensor from(backend, DataType::kFloat32, size);
  const Tensor to(backend, DataType::kFloat32, size);
  backend.fill(from, 1.0);
  backend.fill(to, 0.0);
  return time_of(backend, [&] { backend.copy(from, to); });
}

OperationTimes time_copies(Backend& backend, const std::vector<std::int64_t>& sizes) {
  OperationTimes times;
  for (const std::int64_t bytes : sizes) {
    const std::int64_t elements = bytes / bytes_of(DataType::kFloat32);
    const auto width = static_cast<double>(elements);
    times[{DeviceOperation::kCopy, {1.0, width, 1.0}}] = time_copy(backend, width);
  }
  return times;
}

FlopsPerSecond rate_of_products(Backend& backend, DataType type, std::int64_t size) {
  const SquareProduct product(backend, type, size);
  const double seconds = time_of(backend, [&] { product(); });
  const double cube = static_cast<double>(size) * static_cast<double>(size * size);
  return FlopsPerSecond(2.0 * cube / seconds);
}

void warm_up(Backend& backend, DataType type, std::int64_t size, double seconds,
             const std::function<bool()>& is_cancelled) {
  if (seconds <= 0.0) {
    return;
  }
  const SquareProduct product(backend, type, size);
  for (const Clock::time_point begin = Clock::now();
       elapsed_since(begin) < seconds && !(is_cancelled && is_cancelled());) {
    product();
    backend.synchronize();
  }
}

LaunchTimes time_launches(Backend& backend) {
  const Tensor smallest(backend, DataType::kFloat32, kFewElements);
  const Tensor sum(backend, DataType::kFloat32, kFewElements);
  backend.fill(smallest, 0.0);
  backend.fill(sum, 0.0);
  const auto add = [&] { backend.add(smallest, sum); };
  Event begin;
  Event end;
  const auto issue = [&] {
    begin = backend.record();
    for (int i = 0; i < kLaunches; ++i) {
      add();
    }
    end = backend.record();
  };
  const auto as_graph = [&] { backend.run_as_graph(/*key=*/0, issue); };
  as_graph();  // the first call launches no graph yet
  std::vector<double> on_device;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    as_graph();
    backend.synchronize();
    on_device.push_back(backend.seconds_between(begin, end) / kLaunches);
  }
  return {.device = quiet_time(on_device),
          .by_one = time_of(backend, add),
          .of_host = host_time(backend, issue),
          .in_graph = host_time(backend, as_graph)};
}

HostCopyRates rate_host_copies(Backend& backend, std::int64_t bytes) {
  const std::int64_t size = bytes / bytes_of(DataType::kFloat32);
  const Tensor on_device(backend, DataType::kFloat32, size);
  std::vector<float> here(static_cast<std::size_t>(size), 1.0F);
  std::vector<double> in;
  std::vector<double> out;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    Clock::time_point begin = Clock::now();
    backend.copy_in(here.data(), on_device);
    backend.synchronize();
    in.push_back(elapsed_since(begin));
    begin = Clock::now();
    backend.copy_out(on_device, here.data());
    out.push_back(elapsed_since(begin));
  }
  const Bytes copied(static_cast<double>(on_device.buffer().bytes()));
  return {.bytes = on_device.buffer().bytes(),
          .in = copied / Seconds(quiet_time(in)),
          .out = copied / Seconds(quiet_time(out))};
}

}  // namespace ptdp
