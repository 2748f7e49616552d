#include "runtime/profiling/link_profile.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/launch/launch.h"
#include "runtime/profiling/samples.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSmallest = 8;
constexpr std::int64_t kStep = 16;
constexpr std::int64_t kWorkSize = 192;  // size of the square product between communications
constexpr int kBatches = 9;
constexpr int kMostRounds = 100;
constexpr double kLeastTime = 2e-7;  // shorter differences of two times say nothing [s]

/// Returns the sizes to measure, from kSmallest to `largest` [B].
std::vector<std::int64_t> sizes_up_to(std::int64_t largest) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = kSmallest; size < largest; size *= kStep) {
    sizes.push_back(size);
  }
  sizes.push_back(largest);
  return sizes;
}

/// The product that ranks compute between communications.
class Work {
 public:
  explicit Work(Backend& backend)
      : backend_(backend),
        a_(backend, DataType::kFloat32, kWorkSize * kWorkSize),
        b_(backend, DataType::kFloat32, kWorkSize * kWorkSize),
        c_(backend, DataType::kFloat32, kWorkSize * kWorkSize) {
    backend.fill(a_, 1.0);
    backend.fill(b_, 1.0);
  }
  void operator()() const {
    backend_.matmul({.m = kWorkSize, .n = kWorkSize, .k = kWorkSize, .transposes_b = true}, a_, b_,
                    c_);
  }

 private:
  Backend& backend_;
  Tensor a_;
  Tensor b_;
  Tensor c_;
};

/// Returns the time [s] of `rounds` calls of `round`, from when all ranks begin to when all are
/// done.
template <class Round>
double batch_time(Communicator& world, Backend& backend, int rounds, const Round& round) {
  world.barrier();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    round();
  }
  backend.synchronize();
  world.barrier();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the time [s] that `with` takes longer than `without`, each called by all ranks. The
/// result may differ between ranks; only the first rank's is used.
template <class With, class Without>
double difference(Communicator& world, Backend& backend, double seconds, const With& with,
                  const Without& without) {
  with();
  without();
  // All ranks run equally many rounds, by the longest time of any.
  double longest = std::max(batch_time(world, backend, 1, with), 1e-6);
  const Tensor agreed(backend, DataType::kFloat64, 1);
  backend.copy_in(&longest, agreed);
  world.all_reduce(agreed, Reduction::kMaximum);
  backend.copy_out(agreed, &longest);
  const int rounds =
      std::clamp(static_cast<int>(seconds / (2 * kBatches) / longest), 1, kMostRounds);
  std::vector<double> times_with;
  std::vector<double> times_without;
  for (int batch = 0; batch < kBatches; ++batch) {
    times_with.push_back(batch_time(world, backend, rounds, with));
    times_without.push_back(batch_time(world, backend, rounds, without));
  }
  return std::max((quiet_time(times_with) - quiet_time(times_without)) / rounds, kLeastTime);
}

/// Appends a point whose time is no less than the one before. A larger message is never faster: a
/// time that says so is noise.
void add(std::vector<MeasuredPoint>& points, std::int64_t bytes, double seconds) {
  const Seconds before = points.empty() ? Seconds(0.0) : points.back().time;
  points.push_back(
      {.size = Bytes(static_cast<double>(bytes)), .time = std::max(Seconds(seconds), before)});
}

/// Raises the time of each size to at least the next size's time divided by 3 times the ratio of
/// the sizes. A small size's time is a small difference of large times, and may be lost in noise.
std::vector<MeasuredPoint> plausible(std::vector<MeasuredPoint> points) {
  constexpr double steepest = 3.0;  // less than a MeasuredCurve takes for an outlier
  for (std::size_t i = points.size(); i-- > 1;) {
    const double growth = points[i].size / points[i - 1].size;
    points[i - 1].time = std::max(points[i - 1].time, points[i].time / (steepest * growth));
  }
  return points;
}

/// Calls `measure(world, backend, work, buffer)` on all ranks for every size, until cancelled.
template <class Measure>
void for_each_size(const LinkMeasurement& run, const Measure& measure) {
  run_ranks({.size = run.ranks, .make_backend = run.make_backend},
            [&](Communicator& world, Backend& backend) {
              const Work work(backend);
              for (const std::int64_t bytes : sizes_up_to(run.largest_bytes)) {
                StopFlag stop;
                if (world.rank() == 0 && run.is_cancelled && run.is_cancelled()) {
                  stop.raise();
                }
                if (agree_to_stop(stop, world, backend)) {
                  return;
                }
                const Tensor tensor(backend, DataType::kFloat32, bytes / 4);
                backend.fill(tensor, 0.0);
                measure(world, backend, work, tensor.buffer());
              }
            });
}

}  // namespace

CollectiveTimes time_collectives(const LinkMeasurement& run) {
  CollectiveTimes times;
  for_each_size(run, [&](Communicator& world, Backend& backend, const Work& work, Buffer buffer) {
    const auto measure = [&](std::vector<MeasuredPoint>& points, const auto& collective) {
      const double seconds = difference(
          world, backend, run.seconds,
          [&] {
            work();
            collective();
          },
          work);
      if (world.rank() == 0) {
        add(points, buffer.bytes(), seconds);
      }
    };
    measure(times.all_reduce, [&] { world.all_reduce(buffer, Reduction::kSum); });
    measure(times.reduce_scatter, [&] { world.reduce_scatter(buffer); });
    measure(times.all_gather, [&] { world.all_gather(buffer); });
  });
  return {.all_reduce = plausible(std::move(times.all_reduce)),
          .reduce_scatter = plausible(std::move(times.reduce_scatter)),
          .all_gather = plausible(std::move(times.all_gather))};
}

std::vector<MeasuredPoint> time_messages(const LinkMeasurement& run) {
  std::vector<MeasuredPoint> points;
  for_each_size(run, [&](Communicator& world, Backend& backend, const Work& work, Buffer buffer) {
    const int peer = 1 - world.rank();
    const double seconds = difference(
        world, backend, run.seconds,
        [&] {
          work();
          world.wait(world.send(buffer, peer));
          world.wait(world.receive(buffer, peer));
        },
        work);
    if (world.rank() == 0) {
      add(points, buffer.bytes(), seconds);
    }
  });
  return plausible(std::move(points));
}

}  // namespace ptdp
