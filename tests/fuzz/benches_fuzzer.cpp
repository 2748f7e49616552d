// What is read of a cluster, of any bytes, is refused or makes a cluster that can be written.
#include <cmath>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "planner/clusters/new_cluster.h"
#include "planner/pilot/pilot.h"
#include "tests/fuzz/fuzzing.h"

namespace {

/// Makes a cluster of what a reader finds in the text; nothing of what it refuses.
template <class Read, class Put>
void make_of(const Read& read, const Put& put) {
  try {
    ptdp::ClusterFacts facts{.from = ptdp::find_cluster("dgx-h100")};
    put(facts, read());
    const ptdp::NewCluster made = ptdp::make_cluster(facts);
    ptdp::require(!ptdp::cluster_file(made.cluster).empty());
    ptdp::require(made.cluster.nvlink.efficiency <= 1.0 && made.cluster.nic.efficiency <= 1.0);
  } catch (const ptdp::Error& error) {
    ptdp::require(error.status() != ptdp::ExitStatus::kBug);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    const std::string place = "x";
    for (const auto collective :
         {ptdp::BenchedCollective::kAllReduce, ptdp::BenchedCollective::kSendReceive}) {
      make_of(
          [&] {
            return ptdp::read_nccl_tests(text, place, {.collective = collective, .ranks = 8});
          },
          [](auto& facts, ptdp::CollectiveBench bench) {
            ptdp::require(std::isfinite(bench.bus_bandwidth().value()));
            facts.benches = {std::move(bench)};
          });
    }
    make_of([&] { return ptdp::read_nvbandwidth(text, place); },
            [&](auto& facts, const ptdp::CopyRates& rates) {
              facts.copies = ptdp::FromFile<ptdp::CopyRates>{place, rates};
            });
    make_of([&] { return ptdp::read_topology(text, place); },
            [&](auto& facts, const ptdp::NodeTopology& node) {
              facts.topology = ptdp::FromFile<ptdp::NodeTopology>{place, node};
            });
    make_of([&] { return ptdp::read_smi_report(text, place); },
            [&](auto& facts, const ptdp::SmiReport& smi) {
              facts.smi = ptdp::FromFile<ptdp::SmiReport>{place, smi};
            });
    make_of([&] { return ptdp::read_probe(text, place); },
            [&](auto& facts, const ptdp::ProbeReport& probe) {
              facts.probe = ptdp::FromFile<ptdp::ProbeReport>{place, probe};
            });
    if (text.size() < 200) {  // a list may name a million nodes
      make_of([&] { return ptdp::expand_node_list(text, place).size(); },
              [](auto& facts, std::size_t nodes) {
                facts.slurm = ptdp::SlurmJob{.nodes = static_cast<int>(nodes)};
              });
    }
    const ptdp::Pilot pilot = ptdp::parse_pilot(text, place);
    ptdp::require(ptdp::parse_pilot(ptdp::to_json(pilot), place) == pilot);
  });
}
