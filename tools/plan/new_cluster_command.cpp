#include "tools/plan/new_cluster_command.h"

#include <algorithm>
#include <cstdlib>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "planner/clusters/new_cluster.h"
#include "tools/shared/output_files.h"
#include "tools/shared/terminal.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostGpusPerNode = 100'000;
constexpr std::int64_t kMostBenchRanks = 100'000;

const std::vector<std::string> kOwnFlags = {
    "gpu",   "gpus-per-node", "link",        "nic",      "name", "nccl-tests", "ranks",
    "nodes", "probe",         "nvbandwidth", "topology", "smi",  "slurm"};

/// Returns a shipped GPU under the name that its driver prints. Throws Error, which says how to
/// describe the GPU, if none has it.
GpuSpec gpu_of_product(const std::string& product, const std::string& place) {
  if (std::optional<GpuSpec> gpu = shipped_gpu_of(product)) {
    return *gpu;
  }
  throw Error(
      place + ": no shipped GPU is called " + in_quotes(product) +
      as_typed(" (`ptdp-plan list gpus` shows all); --gpu takes one of them or a file of yours, ") +
      "profiles/README.md says how to describe one from its data sheet");
}

/// A file of --nccl-tests, and the collective that stands in front of it.
struct BenchFile {
  std::optional<BenchedCollective> collective;
  std::string file;
};

/// Reads "alltoall=FILE" or "FILE"; a name with '=' that is no collective is a file's.
BenchFile bench_file_of(const std::string& value) {
  for (const auto& named : kBenchedCollectives) {
    const std::string prefix = std::string(named.name) + "=";
    if (value.starts_with(prefix)) {
      return {named.value, value.substr(prefix.size())};
    }
  }
  return {std::nullopt, value};
}

BenchFacts read_bench_facts(const CommandLine& line) {
  BenchFacts facts;
  for (const char* flag : {"ranks", "nodes"}) {
    if (line.has(flag) && !line.has("nccl-tests")) {
      throw Error(std::string("--") + flag + ": expected --nccl-tests beside it");
    }
  }
  if (const auto ranks = line.count("ranks", 2, kMostBenchRanks)) {
    facts.ranks = static_cast<int>(*ranks);
  }
  if (const auto nodes = line.count("nodes", 1, kMostBenchRanks)) {
    facts.nodes = static_cast<int>(*nodes);
  }
  return facts;
}

/// Reads the report of a flag that names a file; nullopt without the flag.
template <class Report>
std::optional<FromFile<Report>> read_report(const CommandLine& line, const std::string& flag,
                                            Report (*read)(std::string_view, const std::string&)) {
  const auto file = line.text(flag);
  return file ? std::optional(FromFile<Report>{*file, read(read_file(*file), *file)})
              : std::nullopt;
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

ClusterFacts read_facts(const CommandLine& line) {
  ClusterFacts facts{.name = line.text("name").value_or("")};
  if (const auto from = line.text("from")) {
    facts.from = find_cluster(*from);
  }
  facts.smi = read_report(line, "smi", read_smi_report);
  facts.probe = read_report(line, "probe", read_probe);
  if (const auto gpu = line.text("gpu")) {
    facts.gpu = find_gpu(*gpu);
  } else if (facts.smi && !facts.from) {
    facts.gpu = gpu_of_product(facts.smi->report.product, facts.smi->place);
  } else if (facts.probe && !facts.from) {
    facts.gpu = gpu_of_product(facts.probe->report.device_name, facts.probe->place);
  }
  if (const auto count = line.count("gpus-per-node", 1, kMostGpusPerNode)) {
    facts.gpus_per_node = static_cast<int>(*count);
  }
  if (const auto link = line.text("link")) {
    facts.link = parse_rate(*link, "--link");
  }
  if (const auto nics = line.text("nic")) {
    facts.nics = parse_nics(*nics, "--nic");
  }
  facts.copies = read_report(line, "nvbandwidth", read_nvbandwidth);
  facts.topology = read_report(line, "topology", read_topology);
  if (line.has("slurm")) {
    facts.slurm = read_slurm_job(environment_variable);
  }
  BenchFacts given = read_bench_facts(line);
  for (const std::string& value : line.texts("nccl-tests")) {
    const BenchFile bench = bench_file_of(value);
    given.collective = bench.collective;
    facts.benches.push_back(read_nccl_tests(read_file(bench.file), bench.file, given));
  }
  return facts;
}

/// Throws Error if the output would overwrite a file that is read.
void check_new_cluster_output(const CommandLine& line) {
  std::vector<NamedFile> inputs;
  for (const char* flag : {"smi", "probe", "nvbandwidth", "topology"}) {
    if (const auto file = line.text(flag)) {
      inputs.push_back({std::string("--") + flag, *file});
    }
  }
  for (const std::string& value : line.texts("nccl-tests")) {
    inputs.push_back({"--nccl-tests", bench_file_of(value).file});
  }
  if (const auto from = line.text("from")) {
    inputs.push_back({"--from", profile_file(ProfileKind::kCluster, *from).path});
  }
  if (const auto gpu = line.text("gpu")) {
    inputs.push_back({"--gpu", profile_file(ProfileKind::kGpu, *gpu).path});
  }
  check_output_files(inputs, files_of_flags(line, {"output"}));
}

}  // namespace

void add_new_cluster_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  option("gpu", text_value("GPU"),
         "new-cluster: a shipped GPU or a file (default: that of --from or --smi)");
  option("gpus-per-node", text_value("N"), "new-cluster: GPUs of a node (default: that of --from)");
  option("link", text_value("RATE"),
         "new-cluster: what a GPU sends to others of its node in one direction, such as 450GB");
  option("nic", text_value("RATE"),
         "new-cluster: NICs of a node and the rate of each, such as 8x400Gb");
  option("name", text_value("NAME"),
         "new-cluster: name of the cluster (default: my- and that of --from)");
  option("nccl-tests", texts_value("FILE"),
         "new-cluster: an output of nccl-tests, text or JSON, of all_reduce, all_gather, "
         "reduce_scatter, alltoall or sendrecv; alltoall=FILE where the file does not tell; may be "
         "repeated");
  option("ranks", text_value("N"),
         "new-cluster: GPUs of --nccl-tests, where the file does not tell");
  option("probe", text_value("FILE"),
         "new-cluster: what the probe measured, probe.json (tools/probe)");
  option("nvbandwidth", text_value("FILE"), "new-cluster: an output of nvbandwidth, text or JSON");
  option("topology", text_value("FILE"), "new-cluster: an output of `nvidia-smi topo -m`");
  option("smi", text_value("FILE"), "new-cluster: an output of `nvidia-smi -q -x`");
  option("slurm", "new-cluster: take nodes and GPUs from the environment of this Slurm job");
}

void refuse_new_cluster_flags(const CommandLine& line) {
  for (const std::string& flag : kOwnFlags) {
    if (line.has(flag) && flag != "nodes") {  // of a search, too
      throw Error("--" + flag + ": used by `new-cluster` only" +
                  (flag == "gpu" ? "; did you mean \"--gpus\"?" : ""));
    }
  }
}

int run_new_cluster(const CommandLine& line) {
  std::vector<std::string> allowed = kOwnFlags;
  allowed.insert(allowed.end(), {"from", "output"});
  line.allow_only(allowed);
  if (line.words().size() != 1) {
    throw Error("new-cluster: expected no words but flags, got " + in_quotes(line.words()[1]));
  }
  const auto output = line.text("output");
  if (!output || output->empty() || *output == "-") {
    throw Error("new-cluster: expected --output FILE.json");
  }
  if (!output->ends_with(".json")) {
    throw Error(
        "--output: expected a name that ends in .json, by which --cluster takes it for a "
        "file, got " +
        in_quotes(*output));
  }
  check_new_cluster_output(line);
  const NewCluster made = make_cluster(read_facts(line));
  write_file_atomically(*output, cluster_file(made.cluster));
  print_answer(to_text(made, *output));
  return 0;
}

}  // namespace ptdp
