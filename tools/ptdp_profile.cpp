// ptdp-profile: measures this machine and writes it down as a cluster for ptdp-plan.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "cost_model/contains.h"
#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "cost_model/text/shown_text.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/product.h"
#include "planner/answer_format.h"
#include "runtime/profiling/machine_profile.h"
#include "runtime/profiling/processor.h"
#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"
#include "tools/shared/gpus.h"
#include "tools/shared/memory_limit.h"
#include "tools/shared/output_files.h"
#include "tools/shared/table_command.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "ptdp-profile";
constexpr const char* kUsage =
    "usage: ptdp-profile -o host.json [flags]\n"
    "       ptdp-profile --device cuda [--gpu N] [--links CLUSTER] -o gpu.json [flags]\n"
    "\n"
    "Measures this machine for a minute and writes it down as a cluster whose GPUs are its cores:\n"
    "matrix products, attention and the other operations of a training step, alone and with all\n"
    "cores busy, memory, messages and collectives between ranks. Then these use it:\n"
    "  ptdp-plan --cluster host.json --model gpt-tiny --gpus 2 -o plan.json\n"
    "  ptdp-run plan.json\n"
    "\n"
    "With --device cuda it measures one GPU for some minutes: the same operations at the sizes of\n"
    "models with hidden sizes from 1024 on, launches, copies from and to the host, clocks and\n"
    "power. What joins GPUs is not measured, but taken from a cluster of profiles/clusters.\n"
    "\n"
    "The machine should have nothing else to do meanwhile.\n"
    "\n";

constexpr double kUsualSeconds = 60.0;
constexpr double kUsualSecondsOfGpu = 120.0;
constexpr double kQuickShare = 0.25;
constexpr std::int64_t kMostRanks = 1024;
constexpr double kMemoryShare = 0.9;  // share of the machine's memory that ranks may use

std::atomic<int> stop_signal = 0;

void request_stop(int signal) {
  stop_signal = signal;
  std::signal(signal, end_by_signal);  // the second signal ends the process at once
}

constexpr std::array kMeasuredPrecisions = {Precision::kFp32, Precision::kBf16, Precision::kFp64,
                                            Precision::kFp16};

CommandTable command_table() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("output,o", text_value("FILE"), "write the cluster to this file");
  option("device", text_value("DEVICE", {"cpu", "cuda"}),
         "cpu: cores of this host; cuda: a GPU (default: cpu)");
  option("gpu", text_value("N"),
         "number of the GPU, as CUDA counts those that it may use (default: 0)");
  option("links", text_value("CLUSTER"),
         "for a GPU: the cluster to take nodes, links and collectives from (default: one that has "
         "such GPUs)");
  option("types", text_value("PRECISION,...", precision_names(kMeasuredPrecisions)),
         "precisions to measure, the most important first: fp32, bf16, fp64, fp16 (default: "
         "fp32,bf16; for a GPU, which has no fp64, bf16,fp16)");
  option("quick", "measure for a quarter of the time");
  option("seconds", text_value("SECONDS"),
         "measure for about this long (default: 60; for a GPU 120)");
  option("ranks", text_value("N"),
         "measure collectives of 2, 4 ... up to this many ranks, a power of two (default: 8)");
  option("cores", text_value("N"),
         "how many cores ranks may use (default: all that this process may)");
  option("name", text_value("NAME"),
         "name of the cluster (default: host; for a GPU CLUSTER-measured)");
  option("format", text_value("FORMAT", {"text", "json"}),
         "text or json, on standard output (default: text; json prints the cluster)");
  option("quiet", "no progress on standard error");
  option("help,h", "this text");
  option("version", "the version");
  return {.name = kProgram, .usage = kUsage, .groups = {{"flags", flags}}};
}

void tell(const std::string& line) {
  const std::string text = shown_text(as_typed(kProgram) + ": " + line + "\n");
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

/// Throws Error, before a minute is spent on it, for an output that cannot be written.
void check_output(const CommandLine& line) {
  std::vector<NamedFile> inputs;
  if (const auto links = line.text("links")) {
    inputs.push_back({"--links", profile_file(ProfileKind::kCluster, *links).path});
  }
  check_output_files(inputs, files_of_flags(line, {"output"}));
}

int parse_ranks(const CommandLine& line) {
  const std::int64_t ranks = line.count("ranks", 2, kMostRanks).value_or(8);
  if (!std::has_single_bit(static_cast<std::uint64_t>(ranks))) {
    throw Error(
        fmt::format("--ranks: expected a power of two from 2 to {}, got {}", kMostRanks, ranks));
  }
  return static_cast<int>(ranks);
}

std::string date() {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
}

void refuse_together_with(const CommandLine& line, const char* device,
                          const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (line.has(flag)) {
      throw Error(fmt::format("--{}: expected without --device {}", flag, device));
    }
  }
}

void set_host(ProfileOptions& options, const CommandLine& line) {
  refuse_together_with(line, "cpu", {"gpu", "links"});
  const int available = available_cores();
  const int cores = static_cast<int>(line.count("cores", 1, available).value_or(available));
  options.device = host_device({.cores = cores,
                                .most_ranks = parse_ranks(line),
                                .memory = memory_limit() * (kMemoryShare / cores),
                                .seconds = options.seconds,
                                .make_backend = [] { return std::make_unique<CpuBackend>(); }});
  options.description = fmt::format("{}, {}, {}.", processor_name(), date(), plural(cores, "core"));
}

/// Returns the cluster whose nodes and links a GPU's profile gets.
ClusterSpec links_of(const CommandLine& line, const Gpu& gpu) {
  if (const auto links = line.text("links")) {
    return find_cluster(*links);
  }
  const std::optional<KnownGpu> known = find_known_gpu(gpu.name);
  if (!known) {
    throw Error("--links is missing: no cluster of the catalog has " + in_quotes(gpu.name) +
                "; expected the name of one whose nodes and links it is to have, which one GPU "
                "cannot show (" +
                as_typed("ptdp-plan list clusters") + ")");
  }
  return find_cluster(known->cluster);
}

void set_gpu(ProfileOptions& options, const CommandLine& line) {
  refuse_together_with(line, "cuda", {"ranks", "cores"});
  if (!has_cuda()) {
    throw Error("--device cuda: this program was built without CUDA (PTDP_CUDA)");
  }
  const std::vector<Gpu> gpus = usable_gpus();
  if (gpus.empty()) {
    throw Error("--device cuda: no GPU that CUDA can use", ExitStatus::kRuntimeFault);
  }
  const std::int64_t place = line.count("gpu", 0, std::ssize(gpus) - 1).value_or(0);
  const Gpu& gpu = gpus[static_cast<std::size_t>(place)];
  const auto remarks = std::make_shared<std::vector<std::string>>();  // the measuring thread's
  const auto note = [remarks](const std::string& remark) {
    if (std::find(remarks->begin(), remarks->end(), remark) == remarks->end()) {
      remarks->push_back(remark);
      tell(remark);
    }
  };
  options.device = gpu_device({.name = gpu.name,
                               .num_multiprocessors = gpu.num_multiprocessors,
                               .memory = gpu.memory,
                               .links = links_of(line, gpu),
                               .seconds = options.seconds,
                               .make_backend =
                                   [number = gpu.number, note] {
                                     return make_gpu_backend(
                                         {.number = number, .uses_graphs = true, .on_note = note});
                                   },
                               .take_samples = watch_gpu(gpu.number),
                               .remarks = [remarks] { return *remarks; }});
  options.name = options.device.cluster.name + "-measured";
  options.description = fmt::format("{}, {}, {}.", gpu.name, date(), gpu.software);
}

ProfileOptions parse_options(const CommandLine& line) {
  ProfileOptions options;
  const bool is_gpu = line.choice_or_first<DeviceKind>("device", kDeviceNames) == DeviceKind::kCuda;
  if (line.has("quick") && line.has("seconds")) {
    throw Error("--quick: expected without --seconds, got both");
  }
  const double usual = is_gpu ? kUsualSecondsOfGpu : kUsualSeconds;
  options.seconds =
      line.number("seconds", 0.1, 3600.0).value_or(line.has("quick") ? kQuickShare * usual : usual);
  if (is_gpu) {
    options.precisions = {Precision::kBf16, Precision::kFp16};
  }
  if (line.has("types")) {
    options.precisions.clear();
    for (const std::string& word : line.comma_separated("types")) {
      options.precisions.push_back(choose_precision(word, kMeasuredPrecisions, "--types"));
    }
  }
  (is_gpu ? set_gpu : set_host)(options, line);
  for (const Precision precision : options.precisions) {
    if (!contains(options.device.precisions, precision)) {
      throw Error(fmt::format("--types: a {} computes no {} here", options.device.kind,
                              name_of(precision)));
    }
  }
  options.name = line.text("name").value_or(options.name);
  options.is_cancelled = [] { return stop_signal != 0; };
  if (!line.has("quiet")) {
    options.on_progress = tell;
  }
  return options;
}

std::string summary(const MachineProfile& profile, const ProfiledDevice& device) {
  const ClusterSpec& cluster = profile.cluster;
  std::string text = fmt::format("{}\n  products, peak           ", cluster.source);
  for (const Precision precision : device.precisions) {
    text += fmt::format("{} {} {:.0f}", precision == device.precisions.front() ? "" : ",",
                        name_of(precision), cluster.gpu.peak(precision).value() / kGiga);
  }
  text += fmt::format(
      " GFLOP/s, of which a long product reaches {:.0f} %\n"
      "  memory                    {:.1f} GB/s copying; operations reach {:.0f} % of it\n"
      "  smallest operation        {:.3f} us\n",
      100.0 * cluster.gpu.matmul_efficiency, cluster.gpu.memory_bandwidth.value() / kGiga,
      100.0 * cluster.gpu.memory_efficiency, cluster.gpu.kernel_latency.value() / kMicro);
  if (device.link_ranks.empty()) {
    return text;
  }
  text += fmt::format("  message between ranks     {:.1f} us; {:.1f} GB/s\n",
                      cluster.nvlink.hop_latency.value() / kMicro,
                      cluster.nvlink.bandwidth.value() / kGiga);
  for (const BusyCores& busy : cluster.busy_cores) {
    text += fmt::format(
        "  with {:<4} cores busy      products x {:.2f}, attention x {:.2f}, the rest x {:.2f}, "
        "optimizer x {:.2f} as long; waiting for the slowest {:.1f} %\n",
        busy.cores, busy.matmul, busy.attention, busy.memory_bound, busy.optimizer,
        100.0 * busy.skew);
  }
  for (const AllReduceCurve& curve : cluster.all_reduce_curves) {
    const MeasuredPoint& largest = curve.curve.points().back();
    text += fmt::format("  all-reduce of {:<4} ranks  {:.1f} us; {:.1f} MB in {:.2f} ms\n",
                        curve.ranks, curve.curve.points().front().time.value() / kMicro,
                        largest.size.value() / kMega, 1e3 * largest.time.value());
  }
  return text;
}

/// Measures the machine; nullopt when a signal came. A runtime_error of the device becomes
/// Error(kRuntimeFault).
std::optional<MachineProfile> measure(const ProfileOptions& options) {
  try {
    return profile_machine(options);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw Error(error.what(), ExitStatus::kRuntimeFault);
  }
}

int run(const CommandLine& line) {
  line.allow_words(0);
  const bool is_json =
      line.choice_or_first<AnswerFormat>("format", kReportFormats) == AnswerFormat::kJson;
  const auto output = line.text("output");
  if (!output && !is_json) {
    throw Error("--output is missing (--help tells more)");
  }
  check_output(line);
  const ProfileOptions options = parse_options(line);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe becomes a write error
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  const std::optional<MachineProfile> profile = measure(options);
  if (!profile) {
    tell(stop_signal == SIGINT ? "interrupted" : "terminated");
    return 128 + stop_signal;
  }
  const std::string document = cluster_file(profile->cluster);
  if (output) {
    write_file_atomically(*output, document);
  }
  if (const std::string warning = profile->warning(); !warning.empty()) {
    tell("warning: " + warning);
  }
  for (const std::string& point : profile->left_out) {
    tell("warning: left out, since it contradicts the others: " + point);
  }
  for (const std::string& model : profile->too_large) {
    tell("warning: not measured, since the memory does not hold it: " + model);
  }
  for (const std::string& model : profile->too_late) {
    tell("not measured, since the time was over (--seconds): " + model);
  }
  print(is_json ? document : summary(*profile, options.device));
  return 0;
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  ptdp::prepare_open_blas_environment();  // before threads start
  return ptdp::run_table_command(ptdp::kProgram, &ptdp::command_table,
                                 {argv, static_cast<std::size_t>(argc)}, &ptdp::run);
}
