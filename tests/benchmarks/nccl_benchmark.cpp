// Collectives and messages between the ranks of a job: first whether they are right, then the
// median time of one as CSV, beside what NCCL itself expects and what the cost model says of a
// cluster. Over NCCL with --device cuda, else over the transports of a host:
//
//   nccl_benchmark --device cuda --ranks 8 --cluster hgx-h200       GPUs of this machine
//   mpirun -n 16 nccl_benchmark --device cuda --transport nccl      of several, as ptdp-run starts
//   nccl_benchmark --ranks 2                                        threads of this host
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/network/collectives.h"
#include "cost_model/text/in_quotes.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/launch/launch.h"
#include "tests/benchmarks/there_and_back.h"
#include "tools/run/launched_command.h"
#include "tools/run/prepare_together.h"
#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"
#include "tools/shared/gpus.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "nccl_benchmark";
constexpr const char* kUsage =
    "usage: nccl_benchmark [--ranks N] [--bytes B,B,...] [--cluster CLUSTER] [--device cuda] "
    "[--transport T]\n"
    "\n"
    "Checks the collectives and messages of a transport and prints the median time of each as\n"
    "CSV: kind, bytes, ranks, measured_us, nccl_us (what NCCL itself expects), model_us (of\n"
    "--cluster). Bytes of a collective are those of the whole buffer.\n"
    "\n";
constexpr int kBatches = 11;
constexpr std::int64_t kBatchBytes = std::int64_t{64} << 20;
constexpr int kMostCalls = 40;  // calls in a batch
constexpr std::int64_t kMostBytes = std::int64_t{8} << 30;
constexpr std::int64_t kMostRanks = 1024;
constexpr std::int64_t kCheckedElements = 1000;  // not a multiple of most numbers of ranks

/// What the flags ask to measure.
struct BenchmarkRequest {
  int ranks = 2;  ///< Number of ranks when they are threads.
  bool is_gpu = false;
  bool uses_nccl = false;
  std::vector<std::int64_t> bytes = {8, 4 << 10, 256 << 10, 1 << 20, 16 << 20, 256 << 20};
  std::optional<ClusterSpec> cluster;
};

/// A rank's end of the job.
struct BenchmarkRank {
  Communicator& world;
  Backend& backend;
  const HostSide& host;
};

CommandTable benchmark_table() {
  po::options_description flags("flags");
  auto option = flags.add_options();
  option("ranks", text_value("N"), "where they are threads (default: 2)");
  option("bytes", text_value("BYTES,..."), "of the buffers, separated by commas");
  option("cluster", text_value("CLUSTER"),
         "of the cost model (ptdp-plan list clusters, or a file)");
  option("device", text_value("DEVICE"), "cpu or cuda (default: cpu)");
  option("transport", text_value("TRANSPORT"),
         "nccl, threads, mpi or tcp (default: nccl with --device cuda, else what the launcher "
         "means)");
  option("help,h", "this text");
  option("version", "the version");
  return {.name = kProgram, .usage = kUsage, .groups = {{"flags", flags}}};
}

std::vector<std::int64_t> parse_bytes(const std::string& text) {
  std::vector<std::int64_t> sizes;
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  while (true) {
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 4 || size > kMostBytes || size % 4 != 0 ||
        (rest != end && *rest != ',')) {
      throw Error("--bytes: expected multiples of 4 up to " + std::to_string(kMostBytes) +
                  ", such as 8,4096, got " + in_quotes(text));
    }
    sizes.push_back(size);
    if (rest == end) {
      return sizes;
    }
    at = rest + 1;
  }
}

BenchmarkRequest parse_benchmark(const CommandLine& line) {
  line.allow_words(0);
  BenchmarkRequest request;
  request.ranks = static_cast<int>(line.count("ranks", 1, kMostRanks).value_or(2));
  if (const auto sizes = line.text("bytes")) {
    request.bytes = parse_bytes(*sizes);
  }
  if (const auto cluster = line.text("cluster")) {
    request.cluster = find_cluster(*cluster);
  }
  request.is_gpu = line.choice_or_first<DeviceKind>("device", kDeviceNames) == DeviceKind::kCuda;
  constexpr std::array transports = {
      NamedValue<bool>{true, "nccl"}, NamedValue<bool>{false, "threads"},
      NamedValue<bool>{false, "mpi"}, NamedValue<bool>{false, "tcp"}};
  request.uses_nccl = line.choice<bool>("transport", transports).value_or(request.is_gpu);
  if (request.uses_nccl && !request.is_gpu) {
    throw Error("--transport nccl: expected together with --device cuda");
  }
  return request;
}

// --- whether the transport is right ---

/// Returns all elements of a buffer as numbers.
std::vector<float> values_of(Backend& backend, Buffer buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.size));
  if (buffer.type == DataType::kFloat32) {
    backend.copy_out(buffer, values.data());
    return values;
  }
  const Tensor floats(backend, DataType::kFloat32, buffer.size);
  backend.convert(buffer, floats);
  backend.copy_out(floats, values.data());
  return values;
}

void expect(const BenchmarkRank& rank, Buffer buffer, double wanted, const std::string& what) {
  const std::vector<float> values = values_of(rank.backend, buffer);
  rank.world.check();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<float>(wanted)) {
      throw Error(what + ": element " + std::to_string(i) + ": expected " + std::to_string(wanted) +
                      ", got " + std::to_string(values[i]),
                  ExitStatus::kRuntimeFault);
    }
  }
}

using Collective = std::function<void(Communicator& world, Buffer whole)>;

struct CheckedCollective {
  std::string name;
  CollectiveKind kind;
  Collective call;
};

/// Returns all collectives to check, called directly and as begun collectives.
std::vector<CheckedCollective> collectives() {
  return {
      {"all-reduce", CollectiveKind::kAllReduce,
       [](Communicator& world, Buffer whole) { world.all_reduce(whole, Reduction::kSum); }},
      {"reduce-scatter", CollectiveKind::kReduceScatter,
       [](Communicator& world, Buffer whole) { world.reduce_scatter(whole); }},
      {"all-gather", CollectiveKind::kAllGather,
       [](Communicator& world, Buffer whole) { world.all_gather(whole); }},
      {"begun all-reduce", CollectiveKind::kAllReduce,
       [](Communicator& world, Buffer whole) {
         world.wait(world.begin_all_reduce(whole, Reduction::kSum));
       }},
      {"begun reduce-scatter", CollectiveKind::kReduceScatter,
       [](Communicator& world, Buffer whole) { world.wait(world.begin_reduce_scatter(whole)); }},
      {"begun all-gather", CollectiveKind::kAllGather,
       [](Communicator& world, Buffer whole) { world.wait(world.begin_all_gather(whole)); }}};
}

void check_collectives(const BenchmarkRank& rank, DataType type) {
  const int n = rank.world.size();
  const Tensor tensor(rank.backend, type, kCheckedElements);
  const Buffer whole = tensor;
  const Part own = part_of(whole.size, n, rank.world.rank());
  for (const CheckedCollective& one : collectives()) {
    const bool gathers = one.kind == CollectiveKind::kAllGather;
    rank.backend.fill(whole, gathers ? -1.0 : 1.0);
    rank.backend.fill(whole.slice(own.first, own.count), 1.0);
    one.call(rank.world, whole);
    const bool has_part = one.kind == CollectiveKind::kReduceScatter;
    expect(rank, has_part ? whole.slice(own.first, own.count) : whole, gathers ? 1.0 : n, one.name);
  }
  rank.backend.fill(whole, 1.0 + rank.world.rank());
  rank.world.all_reduce(whole, Reduction::kMaximum);
  expect(rank, whole, n, "all-reduce of the maximum");
}

void check_messages(const BenchmarkRank& rank) {
  const Tensor tensor(rank.backend, DataType::kFloat32, kCheckedElements);
  rank.backend.fill(tensor, 1.0 + rank.world.rank());
  there_and_back(rank.world, tensor);
  const int even = rank.world.rank() & ~1;
  expect(rank, tensor, partner(rank.world) < 0 ? 1.0 + rank.world.rank() : 1.0 + even,
         "message there and back");
}

void check_all(const BenchmarkRank& rank) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    check_collectives(rank, type);
  }
  check_messages(rank);
  std::vector<int> all(static_cast<std::size_t>(rank.world.size()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int>(i);
  }
  const std::unique_ptr<Communicator> group = rank.world.group(all, 1);
  check_collectives({.world = *group, .backend = rank.backend, .host = rank.host},
                    DataType::kFloat32);
}

// --- how long it takes ---

/// Returns the time of one `call` on this rank in the median batch [s]. All ranks must call it.
double median_time(const BenchmarkRank& rank, std::int64_t bytes,
                   const std::function<void()>& call) {
  const int calls = static_cast<int>(std::clamp<std::int64_t>(kBatchBytes / bytes, 2, kMostCalls));
  std::vector<double> times;
  for (int i = -1; i < kBatches; ++i) {  // the first batch warms up
    rank.host.world.barrier();
    const Event first = rank.backend.record();
    for (int k = 0; k < calls; ++k) {
      call();
    }
    const Event last = rank.backend.record();
    rank.backend.synchronize();
    rank.world.check();
    if (i >= 0) {
      times.push_back(rank.backend.seconds_between(first, last) / calls);
    }
  }
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return times[kBatches / 2];
}

/// Returns the cost model's time [s].
double modelled(CollectiveKind kind, Bytes size, const GroupPlacement& group,
                const ClusterSpec& cluster) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce_time(size, group, cluster).value();
    case CollectiveKind::kReduceScatter:
      return reduce_scatter_time(size, group, cluster).value();
    case CollectiveKind::kAllGather:
      return all_gather_time(size, group, cluster).value();
    case CollectiveKind::kSend:
      return message_time(size, group, cluster).value();
  }
  throw Error("no such kind of collective");
}

/// Returns a time in microseconds as text; empty for no time.
std::string microseconds(std::optional<double> seconds) {
  std::ostringstream text;
  if (seconds) {
    text << std::fixed << std::setprecision(3) << 1e6 * *seconds;
  }
  return text.str();
}

/// Measures one size of one kind; rank 0 prints it.
void measure(const BenchmarkRank& rank, const BenchmarkRequest& request,
             const GroupPlacement& group, CollectiveKind kind, std::int64_t bytes) {
  const Tensor tensor(rank.backend, DataType::kFloat32, bytes / 4);
  rank.backend.fill(tensor, 0.0);
  const bool is_message = kind == CollectiveKind::kSend;
  const std::vector<CheckedCollective> all = collectives();
  const auto one = std::find_if(all.begin(), all.end(),
                                [kind](const auto& other) { return other.kind == kind; });
  const double time = median_time(rank, bytes, [&] {
    if (is_message) {
      there_and_back(rank.world, tensor);
    } else {
      one->call(rank.world, tensor);
    }
  });
  const std::optional<double> estimate = rank.world.estimate(kind, tensor);
  if (rank.world.rank() != 0) {
    return;
  }
  std::optional<double> model;
  if (request.cluster) {
    model = modelled(kind, Bytes(static_cast<double>(bytes)), group, *request.cluster);
  }
  const std::optional<double> one_way = is_message ? time / 2.0 : time;
  std::ostringstream row;
  row << kCollectiveNames.at(static_cast<std::size_t>(kind)) << ',' << bytes << ','
      << rank.world.size();
  for (const std::optional<double>& seconds : {one_way, estimate, model}) {
    row << ',' << microseconds(seconds);
  }
  row << '\n';
  print(row.str());
}

void run_benchmark(const BenchmarkRank& rank, const BenchmarkRequest& request, int ranks_on_host) {
  check_all(rank);
  const int n = rank.world.size();
  const GroupPlacement group{
      .size = n, .ranks_per_node = ranks_on_host, .nodes = (n + ranks_on_host - 1) / ranks_on_host};
  if (rank.world.rank() == 0) {
    print("kind,bytes,ranks,measured_us,nccl_us,model_us\n");
  }
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
    const auto measured = static_cast<CollectiveKind>(kind);
    if (measured == CollectiveKind::kSend && n == 1) {
      continue;
    }
    for (const std::int64_t bytes : request.bytes) {
      measure(rank, request, group, measured, bytes);
    }
  }
}

BackendMaker maker_of(const BenchmarkRequest& request, const JobProcess* process) {
  if (!request.is_gpu) {
    return [] { return std::make_unique<CpuBackend>(); };
  }
  if (!has_cuda()) {
    throw Error("--device cuda: this program was built without CUDA (PTDP_CUDA)");
  }
  const std::vector<Gpu> gpus = usable_gpus();
  // A launcher may give each process one GPU of its own; then each process sees only that one.
  const bool sees_own = process != nullptr && gpus.size() == 1;
  const int here = process == nullptr ? request.ranks : process->ranks_on_host();
  if (gpus.empty() || (request.uses_nccl && !sees_own && here > static_cast<int>(gpus.size()))) {
    throw Error("--device cuda: expected a GPU for each of " + std::to_string(here) +
                    " ranks here, got " + std::to_string(gpus.size()),
                ExitStatus::kRuntimeFault);
  }
  const int place = process == nullptr ? -1 : process->place_on_host();
  return [gpus, place](int rank) {
    const auto gpu = static_cast<std::size_t>(place < 0 ? rank : place) % gpus.size();
    return make_gpu_backend({.number = gpus[gpu].number});
  };
}

int run(int argc, const char* const* argv, JobProcess* process) {
  const CommandTable table = benchmark_table();
  std::optional<BenchmarkRequest> request;
  std::optional<std::string> answer;
  prepare_together(process, std::nullopt, [&]() -> std::vector<SharedInput> {
    const CommandLine line(argc, argv, table.flags());
    answer = standard_answer(line, table);
    if (!answer) {
      request = parse_benchmark(line);
    }
    return {{"the command line", line.quoted_arguments_without({"transport"})}};
  });
  if (answer) {
    if (process == nullptr || process->rank() == 0) {
      print(*answer);
    }
    return 0;
  }
  const RankLaunch launch{.size = process == nullptr ? request->ranks : process->size(),
                          .make_backend = maker_of(*request, process),
                          .process = process,
                          .uses_nccl = request->uses_nccl,
                          .make_host_backend = [] { return std::make_unique<CpuBackend>(); }};
  const int ranks_on_host = process == nullptr ? request->ranks : process->ranks_on_host();
  run_ranks(launch, [&](Communicator& world, Backend& backend, const HostSide& host) {
    run_benchmark({.world = world, .backend = backend, .host = host}, *request, ranks_on_host);
  });
  return 0;
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  return ptdp::run_launched_command(ptdp::kProgram, argc, argv, [&](ptdp::JobProcess* process) {
    return ptdp::run(argc, argv, process);
  });
}
