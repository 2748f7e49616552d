#include "runtime/profiling/machine_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "cost_model/error.h"
#include "runtime/data_type_of.h"
#include "runtime/profiling/gpu_fit.h"
#include "runtime/profiling/layer_profile.h"
#include "runtime/profiling/link_profile.h"
#include "runtime/profiling/profiled_models.h"
#include "runtime/profiling/samples.h"
#include "runtime/profiling/steady_times.h"

namespace ptdp {
namespace {

// Approximate fractions of the time.
constexpr double kForLayers = 0.75;
constexpr double kForLinks = 0.2;
constexpr double kLongestPass = 0.01;   // fraction of the time
constexpr double kNextPrecision = 0.3;  // fraction of the first precision's time
constexpr int kRounds = 2;
constexpr std::size_t kFewestModels = 4;
constexpr double kForRepeats = 0.5;  // of the layers' time: measuring again what contradicts itself
constexpr int kLeastPasses = 3;
constexpr int kMostPasses = 60;
constexpr double kUsableMemory = 0.9;

/// Returns the times without copies, which are measured by themselves.
OperationTimes without_copies(OperationTimes times) {
  std::erase_if(times,
                [](const auto& entry) { return entry.first.first == DeviceOperation::kCopy; });
  return times;
}

/// The measurement of a device, step by step.
class Profiler {
 public:
  explicit Profiler(const ProfileOptions& options) : options_(options), device_(options.device) {
    ClusterSpec& cluster = profile_.cluster;
    cluster = device_.cluster;
    cluster.name = options_.name;
    cluster.gpu.name = options_.name + "-" + device_.cluster.gpu.name;
  }

  std::optional<MachineProfile> run() {
    measure_single_operations();
    for (const Precision precision : options_.precisions) {
      measure_layers(precision);
    }
    if (is_cancelled()) {
      return std::nullopt;
    }
    GpuSpec& gpu = profile_.cluster.gpu;
    gpu.measured_operations.insert(gpu.measured_operations.end(), copies_.begin(), copies_.end());
    fit_constants(gpu, options_.precisions.front(), profile_.cluster.default_stack);
    measure_links();
    if (is_cancelled()) {
      return std::nullopt;
    }
    if (!spreads_.empty()) {
      profile_.spread = quiet_median(spreads_);
    }
    profile_.processor_share = elapsed_ > 0.0 ? processor_ / elapsed_ : 1.0;
    profile_.conditions = conditions_of(samples_);
    profile_.cluster.source = describe_measurement(options_, profile_);
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

  /// Returns the times without those that contradict the others, and notes the latter.
  OperationTimes steady_ones(const OperationTimes& times, const MeasureAgain& measure_again,
                             const std::string& precision) {
    SteadyTimes steady = steady_times(times, measure_again);
    for (const std::string& line : steady.left_out) {
      profile_.left_out.push_back(precision + line);
    }
    return std::move(steady.times);
  }

  /// Returns what the device said of itself since the last call.
  DeviceConditions take_conditions() {
    if (!device_.take_samples) {
      return {};
    }
    const std::vector<DeviceSample> samples = device_.take_samples();
    samples_.insert(samples_.end(), samples.begin(), samples.end());
    return conditions_of(samples);
  }

  void measure_single_operations() {
    const std::unique_ptr<Backend> backend = device_.make_backend();
    warm_up(*backend, data_type_of(options_.precisions.front()), device_.peak_size, device_.warm_up,
            options_.is_cancelled);
    take_conditions();
    samples_.clear();
    measure_copies(*backend);
    measure_launches(*backend);
    measure_peaks(*backend);
  }

  /// Measures copies, from sizes that caches hold to sizes that they do not. The largest gives the
  /// memory's bandwidth.
  void measure_copies(Backend& backend) {
    OperationTimes times = time_copies(backend, device_.copies);
    const auto measure_again = [&](const std::vector<OperationKey>& outliers) {
      for (const OperationKey& key : outliers) {
        times[key] = time_copy(backend, key.second[1]);
      }
      return times;
    };
    const OperationTimes steady = steady_ones(times, measure_again, "");
    const auto& [last, seconds] = *steady.rbegin();
    BytesPerSecond& bandwidth = profile_.cluster.gpu.memory_bandwidth;
    bandwidth = BytesPerSecond(8.0 * last.second[1] / seconds);
    for (const Precision precision : options_.precisions) {
      OperationTimes of;  // times of copies by the number of this precision's elements
      for (const auto& [key, time] : steady) {
        of[{key.first, {1.0, key.second[1] * 4.0 / element_bytes(precision), 1.0}}] = time;
      }
      const std::vector<MeasuredOperation> tables = measured_operations(of, precision);
      copies_.insert(copies_.end(), tables.begin(), tables.end());
    }
    tell(fmt::format("memory: {:.1f} GB/s", bandwidth.value() / kGiga));
    for (const std::int64_t bytes : device_.host_copies) {
      const HostCopyRates& rates =
          profile_.host_copies.emplace_back(rate_host_copies(backend, bytes));
      tell(fmt::format("{:.0f} MB from the host at {:.1f} GB/s, to it at {:.1f} GB/s",
                       static_cast<double>(rates.bytes) / kMega, rates.in.value() / kGiga,
                       rates.out.value() / kGiga));
    }
  }

  /// Measures the smallest operation, which gives the kernel latency.
  void measure_launches(Backend& backend) {
    const LaunchTimes& times = profile_.launches = time_launches(backend);
    profile_.cluster.gpu.kernel_latency = Seconds(std::min(times.device, times.by_one));
    tell(fmt::format("smallest operation: {:.3f} us",
                     profile_.cluster.gpu.kernel_latency.value() / kMicro));
    if (device_.queues_work) {
      tell(
          fmt::format("launched one by one {:.2f} us, {:.2f} us of it the host's; as part of a "
                      "graph {:.2f} us of the host's",
                      times.by_one / kMicro, times.of_host / kMicro, times.in_graph / kMicro));
    }
  }

  /// Measures large products of all precisions. They give the peak of precisions that are measured
  /// no further.
  void measure_peaks(Backend& backend) {
    std::string text;
    for (const Precision precision : device_.precisions) {
      const FlopsPerSecond rate =
          rate_of_products(backend, data_type_of(precision), device_.peak_size);
      profile_.products.emplace_back(precision, rate);
      raise_peak(profile_.cluster.gpu, precision, rate);
      text += fmt::format("{}{} {:.0f}", text.empty() ? "" : ", ", name_of(precision),
                          rate.value() / kGiga);
    }
    tell(fmt::format("products of {} cubed: {} GFLOP/s", device_.peak_size, text));
  }

  /// Returns the models of which a step fits the device's memory, and notes the others. Throws
  /// Error(kRuntimeFault) when none fits.
  std::vector<ProfiledModel> models_that_fit(Precision precision, double most_flops) {
    std::vector<ProfiledModel> models = device_.models(most_flops);
    std::erase_if(models, [&](const ProfiledModel& profiled) {
      const bool fits =
          step_memory(profiled, precision) <= kUsableMemory * profile_.cluster.gpu.memory;
      if (!fits) {
        profile_.too_large.push_back(fmt::format("{}: {}", name_of(precision), size_of(profiled)));
      }
      return !fits;
    });
    if (models.empty()) {
      throw Error(fmt::format("{:.3g} GiB of memory hold no model that could be measured",
                              profile_.cluster.gpu.memory.value() / kGibi),
                  ExitStatus::kRuntimeFault);
    }
    return models;
  }

  /// Removes the models from the i-th on, for which the time is too short.
  void leave_out(std::vector<ProfiledModel>& models, std::size_t i, Precision precision) {
    for (std::size_t late = i; late < models.size(); ++late) {
      profile_.too_late.push_back(fmt::format("{}: {}", name_of(precision), size_of(models[late])));
    }
    models.resize(i);
  }

  /// Measures the operations of layers in one precision.
  void measure_layers(Precision precision) {
    const bool is_first = precision == options_.precisions.front();
    const double weights =
        1.0 + kNextPrecision * (static_cast<double>(options_.precisions.size()) - 1.0);
    const double seconds =
        options_.seconds * kForLayers * (is_first ? 1.0 : kNextPrecision) / weights;
    const double peak = profile_.cluster.gpu.peak(precision).value();
    std::vector<ProfiledModel> models =
        models_that_fit(precision, 0.7 * peak * kLongestPass * seconds / kForLayers);
    const auto begin = std::chrono::steady_clock::now();
    const auto is_over = [&](double share) {
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      return elapsed.count() > share * seconds;
    };
    // Cores are kept busy for the first precision only.
    const std::vector<int> cores = is_first ? device_.busy_cores : std::vector<int>{};
    const double each = seconds / kRounds / static_cast<double>(models.size()) /
                        static_cast<double>(cores.size() + 1);

    // One backend for all models, since libraries try out algorithms in it.
    const std::unique_ptr<Backend> kept = device_.queues_work ? device_.make_backend() : nullptr;
    const LayerMeasurement run{.type = data_type_of(precision),
                               .seconds = each,
                               .lead_in = device_.lead_in,
                               .least_passes = kLeastPasses,
                               .most_passes = kMostPasses,
                               .make_backend = device_.make_backend,
                               .is_cancelled = options_.is_cancelled};

    std::int64_t next_graph = 0;
    const auto times_of = [&](const ProfiledModel& model) {
      LayerMeasurement own = run;
      own.backend = kept.get();
      own.first_graph = std::exchange(next_graph, next_graph + kGraphsOfRun);
      return time_layers(model, own);
    };

    // For each model the shorter time of two rounds counts, since what disturbs one round may leave
    // the other alone. For an operation at the same sizes the mean over models counts, since each
    // model leaves it the caches in another state.
    std::vector<OperationTimes> alone(models.size());
    std::map<int, std::vector<OperationTimes>> busy;
    std::map<int, std::vector<double>> skews;
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < models.size(); ++i) {
        // What the first round has no time for is left out; the next ones measure the same models.
        if (round == 0 && i >= kFewestModels && is_over(1.0 / kRounds)) {
          leave_out(models, i, precision);
          alone.resize(i);
          break;
        }
        const LayerTimes times = times_of(models[i]);
        for (const int number : cores) {
          LayerMeasurement of_ranks = run;
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
      note_conditions(is_first);
    }
    const auto measure_again = [&](const std::vector<OperationKey>& outliers) {
      for (std::size_t i = 0; i < models.size() && !is_over(1.0 + kForRepeats); ++i) {
        if (std::any_of(outliers.begin(), outliers.end(),
                        [&](const OperationKey& key) { return alone[i].contains(key); })) {
          keep_shorter(alone[i], times_of(models[i]).operations);
        }
      }
      return is_cancelled() ? OperationTimes() : without_copies(mean_of(alone));
    };
    const OperationTimes base = steady_ones(without_copies(mean_of(alone)), measure_again,
                                            std::string(name_of(precision)) + " ");
    if (is_cancelled()) {
      return;
    }
    keep_tables(base, precision);
    keep_busy_cores(base, busy, skews);
  }

  /// Adds the tables of a precision to the profile.
  void keep_tables(const OperationTimes& base, Precision precision) {
    for (MeasuredOperation& table : measured_operations(base, precision)) {
      profile_.cluster.gpu.measured_operations.push_back(std::move(table));
    }
  }

  /// Adds how much longer operations take beside other ranks, by the number of busy cores.
  void keep_busy_cores(const OperationTimes& base,
                       const std::map<int, std::vector<OperationTimes>>& busy,
                       const std::map<int, std::vector<double>>& skews) {
    for (const auto& [number, times] : busy) {
      BusyCores factors = factors_between(mean_of(times), base);
      factors.cores = number;
      factors.skew = quiet_median(skews.at(number));
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
    return fmt::format("layers in {}: {}: a step takes {:.3g} ms, {:.0f} GFLOP/s",
                       name_of(precision), size_of(profiled), 1e3 * seconds,
                       step_flops(profiled) / seconds / kGiga);
  }
  static std::string size_of(const ProfiledModel& profiled) {
    return fmt::format("hidden {}, {} tokens", profiled.model.hidden_size,
                       profiled.micro_batch_size * profiled.model.seq_length);
  }

  /// Notes how steady a run was.
  void note(const LayerTimes& times) {
    if (const std::optional<double> apart = spread(times.passes)) {
      spreads_.push_back(*apart);
    }
    if (!device_.computes_in_threads) {
      return;
    }
    for (const double pass : times.passes) {
      elapsed_ += pass;
      processor_ += pass * times.processor_share;
    }
  }

  /// Notes the device's conditions since the last call.
  void note_conditions(bool is_first_precision) {
    const DeviceConditions conditions = take_conditions();
    if (conditions.num_samples == 0) {
      return;
    }
    tell("while these ran: " + describe_conditions(conditions));
    if (is_first_precision) {
      profile_.rounds.push_back(conditions);
    }
  }

  /// Measures messages and collectives between ranks, when the device asks for them.
  void measure_links() {
    if (device_.link_ranks.empty()) {
      return;
    }
    ClusterSpec& cluster = profile_.cluster;
    const int groups = static_cast<int>(device_.link_ranks.size());
    constexpr int sizes = 7;
    LinkMeasurement run{.largest_bytes = device_.largest_message,
                        .seconds = options_.seconds * kForLinks / sizes / (3 * groups + 1),
                        .make_backend = device_.make_backend,
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
    for (const int ranks : device_.link_ranks) {
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

  const ProfileOptions& options_;
  const ProfiledDevice& device_;
  MachineProfile profile_;
  std::vector<MeasuredOperation> copies_;
  std::vector<double> spreads_;
  std::vector<DeviceSample> samples_;
  double elapsed_ = 0.0;
  double processor_ = 0.0;
};

}  // namespace

std::optional<MachineProfile> profile_machine(const ProfileOptions& options) {
  return Profiler(options).run();
}

}  // namespace ptdp
