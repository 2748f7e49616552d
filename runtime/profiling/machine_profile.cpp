#include "runtime/profiling/machine_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "runtime/data_type_of.h"
#include "runtime/profiling/gpu_fit.h"
#include "runtime/profiling/layer_profile.h"
#include "runtime/profiling/link_profile.h"
#include "runtime/profiling/profiled_models.h"
#include "runtime/profiling/repeated_calls.h"
#include "runtime/profiling/samples.h"
#include "runtime/profiling/steady_times.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

// Shares of the time, about.
constexpr double kForLayers = 0.75;
constexpr double kForLinks = 0.2;
constexpr double kLongestPass = 0.01;   // of the time
constexpr double kNextPrecision = 0.3;  // of the first one's
constexpr int kRounds = 2;
constexpr int kLeastPasses = 3;
constexpr int kMostPasses = 60;

constexpr double kUnsteady = 0.25;     // a spread beyond this deserves a warning
constexpr double kOthersShare = 0.95;  // as does less of a core than this

/// Copies are measured by themselves.
OperationTimes without_copies(OperationTimes times) {
  std::erase_if(times,
                [](const auto& entry) { return entry.first.first == DeviceOperation::kCopy; });
  return times;
}

class Profiler {
 public:
  explicit Profiler(const ProfileOptions& options) : options_(options) {}

  std::optional<MachineProfile> run() {
    fill_in_host();
    measure_memory();
    measure_peaks();
    for (const Precision precision : options_.precisions) {
      measure_layers(precision);
    }
    if (is_cancelled()) {
      return std::nullopt;
    }
    GpuSpec& gpu = profile_.cluster.gpu;
    gpu.measured_operations.insert(gpu.measured_operations.end(), copies_.begin(), copies_.end());
    fit_constants(gpu, options_.precisions.front(), options_.stack);
    measure_links();
    if (is_cancelled()) {
      return std::nullopt;
    }
    profile_.spread = spreads_.empty() ? 0.0 : quiet_median(spreads_);
    profile_.processor_share = elapsed_ > 0.0 ? processor_ / elapsed_ : 1.0;
    profile_.cluster.source = source();
    gpu.source = profile_.cluster.source;
    return std::move(profile_);
  }

 private:
  [[nodiscard]] bool is_cancelled() const {
    return options_.is_cancelled && options_.is_cancelled();
  }
  void tell(const std::string& line) const {
    if (options_.on_progress) {
      options_.on_progress(line);
    }
  }
  static double quiet_median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  /// Without what contradicts the others, which is noted.
  OperationTimes steady_ones(const OperationTimes& times, const MeasureAgain& measure_again,
                             const std::string& precision) {
    SteadyTimes steady = steady_times(times, measure_again);
    for (const std::string& line : steady.left_out) {
      profile_.left_out.push_back(precision + line);
    }
    return std::move(steady.times);
  }

  /// What a host is, whatever its speed.
  void fill_in_host() {
    ClusterSpec& cluster = profile_.cluster;
    cluster.name = options_.name;
    cluster.default_stack = options_.stack;
    cluster.gpus_per_node = 1024;  // ranks that may share the cores
    cluster.cores_per_node = options_.cores;
    cluster.gpu = {.name = options_.name + "-core",
                   .memory = options_.memory,
                   .num_multiprocessors = 1,
                   .matmul_wave_overlap = 1.0,
                   .matmul_tile = MatmulTile{.rows = 16, .columns = 16}};
    cluster.nic = {.bandwidth = BytesPerSecond(1.25 * kGiga),
                   .efficiency = 0.9,
                   .hop_latency = microseconds(30.0)};
  }

  /// Copies, from what caches hold to what they do not, and the smallest operation.
  void measure_memory() {
    const std::unique_ptr<Backend> backend = options_.make_backend();
    const auto measure = [&](double width) {
      const auto size = static_cast<std::int64_t>(width);
      const Tensor from(*backend, DataType::kFloat32, size);
      const Tensor to(*backend, DataType::kFloat32, size);
      backend->fill(from, 1.0);
      backend->fill(to, 0.0);
      return time_of(*backend, [&] { backend->copy(from, to); });
    };
    OperationTimes times;
    const std::int64_t largest = options_.seconds < 5.0 ? 1 << 20 : 1 << 23;
    for (std::int64_t size = 1 << 8; size <= largest; size *= 8) {
      const auto width = static_cast<double>(size);
      times[{DeviceOperation::kCopy, {1.0, width, 1.0}}] = measure(width);
    }
    const auto measure_again = [&](const std::vector<OperationKey>& outliers) {
      for (const OperationKey& key : outliers) {
        times[key] = measure(key.second[1]);
      }
      return times;
    };
    const OperationTimes steady = steady_ones(times, measure_again, "");
    const auto& [last, seconds] = *steady.rbegin();
    profile_.cluster.gpu.memory_bandwidth = BytesPerSecond(8.0 * last.second[1] / seconds);
    for (const Precision precision : options_.precisions) {
      OperationTimes of;  // of as many bytes
      for (const auto& [key, time] : steady) {
        of[{key.first, {1.0, key.second[1] * 4.0 / element_bytes(precision), 1.0}}] = time;
      }
      const std::vector<MeasuredOperation> tables = measured_operations(of, precision);
      copies_.insert(copies_.end(), tables.begin(), tables.end());
    }
    const Tensor smallest(*backend, DataType::kFloat32, 16);
    const Tensor sum(*backend, DataType::kFloat32, 16);
    backend->fill(smallest, 0.0);
    backend->fill(sum, 0.0);
    profile_.cluster.gpu.kernel_latency =
        Seconds(time_of(*backend, [&] { backend->add(smallest, sum); }));
    tell(fmt::format("memory: {:.1f} GB/s, smallest operation {:.3f} us",
                     profile_.cluster.gpu.memory_bandwidth.value() / kGiga,
                     profile_.cluster.gpu.kernel_latency.value() / kMicro));
  }

  /// Products of all precisions: what is measured no further has its peak.
  void measure_peaks() {
    const std::unique_ptr<Backend> backend = options_.make_backend();
    GpuSpec& gpu = profile_.cluster.gpu;
    const std::int64_t size = options_.seconds < 5.0 ? 256 : 512;
    const auto peak = [&](DataType type) {
      const Tensor a(*backend, type, size * size);
      const Tensor b(*backend, type, size * size);
      const Tensor c(*backend, type, size * size);
      backend->fill(a, 1.0);
      backend->fill(b, 1.0);
      const double seconds = time_of(*backend, [&] {
        backend->matmul({.m = size, .n = size, .k = size, .transposes_b = true}, a, b, c);
      });
      const double cube = static_cast<double>(size) * static_cast<double>(size * size);
      return FlopsPerSecond(2.0 * cube / seconds);
    };
    gpu.peak_fp32 = peak(DataType::kFloat32);
    gpu.peak_bf16 = peak(DataType::kBFloat16);
    gpu.peak_fp64 = peak(DataType::kFloat64);
    gpu.peak_fp16 = peak(DataType::kFloat16);
    tell(
        fmt::format("products of {} cubed: fp32 {:.0f}, bf16 {:.0f}, fp64 {:.0f}, fp16 {:.0f} "
                    "GFLOP/s",
                    size, gpu.peak_fp32.value() / kGiga, gpu.peak_bf16.value() / kGiga,
                    gpu.peak_fp64.value() / kGiga, gpu.peak_fp16.value() / kGiga));
  }

  /// Powers of two from 2 on, and all cores.
  [[nodiscard]] std::vector<int> numbers_of_cores() const {
    std::vector<int> numbers;
    for (int cores = 2; cores < options_.cores; cores *= 2) {
      numbers.push_back(cores);
    }
    if (options_.cores > 1) {
      numbers.push_back(options_.cores);
    }
    return numbers;
  }

  void measure_layers(Precision precision) {
    const bool is_first = precision == options_.precisions.front();
    const double weights =
        1.0 + kNextPrecision * (static_cast<double>(options_.precisions.size()) - 1.0);
    const double seconds =
        options_.seconds * kForLayers * (is_first ? 1.0 : kNextPrecision) / weights;
    const double peak = profile_.cluster.gpu.peak(precision).value();
    const std::vector<ProfiledModel> models =
        profiled_models(0.7 * peak * kLongestPass * seconds / kForLayers);
    // Only for the first precision are cores kept busy, too.
    const std::vector<int> cores = is_first ? numbers_of_cores() : std::vector<int>{};
    const double each = seconds / kRounds / static_cast<double>(models.size()) /
                        static_cast<double>(cores.size() + 1);

    const LayerRun run{.type = data_type_of(precision),
                       .seconds = each,
                       .least_passes = kLeastPasses,
                       .most_passes = kMostPasses,
                       .make_backend = options_.make_backend,
                       .is_cancelled = options_.is_cancelled};

    // Of every model the shorter time of two rounds, since what disturbs one may leave the other
    // alone; and of all models that have an operation at the same sizes the mean, since each leaves
    // it the caches in a state of its own.
    std::vector<OperationTimes> alone(models.size());
    std::map<int, std::vector<OperationTimes>> busy;
    std::map<int, std::vector<double>> skews;
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < models.size(); ++i) {
        const LayerTimes times = time_layers(models[i], run);
        for (const int number : cores) {
          LayerRun of_ranks = run;
          of_ranks.ranks = number;
          std::vector<OperationTimes>& of_all = busy[number];
          of_all.resize(models.size());
          const LayerTimes together = time_layers(models[i], of_ranks);
          keep_shorter(of_all[i], together.operations);
          skews[number].push_back(together.skew);
        }
        if (is_cancelled()) {
          return;
        }
        keep_shorter(alone[i], times.operations);
        note(times);
        tell(progress(precision, models[i], times));
      }
    }
    const auto measure_again = [&](const std::vector<OperationKey>& outliers) {
      for (std::size_t i = 0; i < models.size(); ++i) {
        if (std::any_of(outliers.begin(), outliers.end(),
                        [&](const OperationKey& key) { return alone[i].contains(key); })) {
          keep_shorter(alone[i], time_layers(models[i], run).operations);
        }
      }
      return is_cancelled() ? OperationTimes() : without_copies(mean_of(alone));
    };
    const OperationTimes base = steady_ones(without_copies(mean_of(alone)), measure_again,
                                            std::string(name_of(precision)) + " ");
    if (is_cancelled()) {
      return;
    }
    for (MeasuredOperation& table : measured_operations(base, precision)) {
      profile_.cluster.gpu.measured_operations.push_back(std::move(table));
    }
    for (const auto& [number, times] : busy) {
      BusyCores factors = factors_between(mean_of(times), base);
      factors.cores = number;
      factors.skew = quiet_median(skews[number]);
      profile_.cluster.busy_cores.push_back(factors);
      tell(
          fmt::format("{} busy cores: products take {:.2f}, attention {:.2f}, the rest {:.2f}, the "
                      "optimizer {:.2f} times as long as alone; ranks that wait for the slowest "
                      "lose {:.1f} %",
                      number, factors.matmul, factors.attention, factors.memory_bound,
                      factors.optimizer, 100.0 * factors.skew));
    }
  }

  static std::string progress(Precision precision, const ProfiledModel& profiled,
                              const LayerTimes& times) {
    const double seconds = quiet_time(times.passes);
    return fmt::format("layers in {}: hidden {}, {} tokens: a step takes {:.3g} ms, {:.0f} GFLOP/s",
                       name_of(precision), profiled.model.hidden_size,
                       profiled.micro_batch_size * profiled.model.seq_length, 1e3 * seconds,
                       step_flops(profiled) / seconds / kGiga);
  }

  /// How steady it was.
  void note(const LayerTimes& times) {
    spreads_.push_back(spread(times.passes));
    for (const double pass : times.passes) {
      elapsed_ += pass;
      processor_ += pass * times.processor_share;
    }
  }

  void measure_links() {
    ClusterSpec& cluster = profile_.cluster;
    int groups = 0;
    for (int ranks = 2; ranks <= options_.most_ranks; ranks *= 2) {
      ++groups;
    }
    constexpr int sizes = 7;
    LinkRun run{.largest_bytes = options_.seconds < 5.0 ? 1 << 20 : 1 << 24,
                .seconds = options_.seconds * kForLinks / sizes / (3 * groups + 1),
                .make_backend = options_.make_backend,
                .is_cancelled = options_.is_cancelled};
    const std::vector<MeasuredPoint> messages = time_messages(run);
    if (is_cancelled()) {
      return;
    }
    cluster.message_curve = MeasuredCurve(messages, "measured messages");
    cluster.nvlink = {.bandwidth = messages.back().size / messages.back().time,
                      .hop_latency = messages.front().time};
    tell(fmt::format("messages: {:.1f} us, {:.1f} GB/s", messages.front().time.value() / kMicro,
                     cluster.nvlink.bandwidth.value() / kGiga));
    for (int ranks = 2; ranks <= options_.most_ranks; ranks *= 2) {
      run.ranks = ranks;
      const CollectiveTimes times = time_collectives(run);
      if (is_cancelled()) {
        return;
      }
      const auto add = [ranks](std::vector<AllReduceCurve>& curves,
                               const std::vector<MeasuredPoint>& points) {
        curves.push_back({.ranks = ranks, .curve = MeasuredCurve(points, "measured collectives")});
      };
      add(cluster.all_reduce_curves, times.all_reduce);
      add(cluster.reduce_scatter_curves, times.reduce_scatter);
      add(cluster.all_gather_curves, times.all_gather);
      const MeasuredPoint& largest = times.all_reduce.back();
      const double sent = 2.0 * (ranks - 1) / ranks;
      cluster.nvlink.collective_efficiency = std::clamp(
          sent * (largest.size / largest.time).value() / cluster.nvlink.bandwidth.value(), 1e-3,
          1.0);
      cluster.collective_launch = Seconds(0.0);
      tell(fmt::format("{} ranks: an all-reduce takes {:.1f} us, of {:.0f} MB {:.3g} ms", ranks,
                       times.all_reduce.front().time.value() / kMicro, largest.size.value() / kMega,
                       1e3 * largest.time.value()));
    }
  }

  [[nodiscard]] std::string source() const {
    std::string precisions;
    for (const Precision precision : options_.precisions) {
      precisions += (precisions.empty() ? "" : ", ") + std::string(name_of(precision));
    }
    const std::string left_out =
        profile_.left_out.empty()
            ? ""
            : fmt::format(" Left out, since they contradict the others: {} times.",
                          profile_.left_out.size());
    return fmt::format(
        "{} Measured: the operations of {}'s layers in {} on one core, alone and with all {} busy, "
        "as training steps of small models ran them; copies; messages, and collectives of up to "
        "{} ranks, between steps of compute. Peaks are the best products; the other constants are "
        "fitted to the measured operations, which correct them. Repeated times lay {:.1f} % apart "
        "(quartiles, in the median); a rank had {:.1f} % of its core.{} nic: none, one process is "
        "one node.",
        options_.description, options_.stack, precisions, options_.cores, options_.most_ranks,
        100.0 * profile_.spread, 100.0 * profile_.processor_share, left_out);
  }

  const ProfileOptions& options_;
  MachineProfile profile_;
  std::vector<MeasuredOperation> copies_;
  std::vector<double> spreads_;
  double elapsed_ = 0.0;
  double processor_ = 0.0;
};

}  // namespace

std::string MachineProfile::warning() const {
  if (processor_share < kOthersShare) {
    return fmt::format("other processes took {:.0f} % of the core; expected a quiet machine",
                       100.0 * (1.0 - processor_share));
  }
  if (spread > kUnsteady) {
    return fmt::format("repeated times lay {:.0f} % apart; expected a steady machine",
                       100.0 * spread);
  }
  return "";
}

std::optional<MachineProfile> profile_machine(const ProfileOptions& options) {
  return Profiler(options).run();
}

}  // namespace ptdp
