// Runs on a cluster that is not shipped, predicted from layers that others timed on four of its
// GPUs (Sailor, SOSP 2025).
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/layer/transformer_layer.h"
#include "cost_model/measured/quantile.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/text/csv_table.h"
#include "planner/clusters/new_cluster.h"
#include "planner/clusters/probe_report.h"

namespace ptdp {
namespace {

const char* const kStack = "megatron-deepspeed-2021";

CsvTable golden(const std::string& name) {
  return CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/" + name);
}

int count_in(const CsvTable& table, std::size_t row, const char* column) {
  return std::stoi(table.text(row, column));
}

/// Alps: nodes of four GH200 joined by NVLink, a Slingshot NIC of 200 Gb/s for each.
ClusterFacts facts_of_alps() {
  return {.from = find_cluster("8x-gh200"),
          .gpus_per_node = 4,
          .link = parse_rate("450", "--link"),
          .nics = parse_nics("4x200Gb", "--nic")};
}

Scenario scenario_of(const ClusterSpec& cluster, const TransformerConfig& model) {
  Scenario scenario{.job = {.model = model}, .cluster = cluster, .stack = find_stack(kStack)};
  // Sailor's configuration names no precision, so that PyTorch trains in fp32. Products reached
  // more than twice the fp32 peak of a GH200, so they are TF32's.
  scenario.stack.precision = Precision::kTf32;
  return scenario;
}

/// What the layers' file has of each model: the shape, and a cluster probed with its layers.
struct ProbedModel {
  TransformerConfig model;
  ProbeReport probe;
};

std::map<std::string, ProbedModel> probed_models() {
  const ClusterSpec cluster = make_cluster(facts_of_alps()).cluster;
  const CsvTable table = golden("probed_layers.csv");
  std::map<std::string, ProbedModel> models;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto count = [&](const char* column) { return count_in(table, row, column); };
    ProbedModel& of = models[table.text(row, "model")];
    of.model = resolved({.num_layers = count("num_layers"),
                         .hidden_size = count("hidden_size"),
                         .num_attention_heads = count("num_attention_heads"),
                         .vocab_size = count("vocab_size"),
                         .seq_length = count("seq_length")},
                        "a model");
    of.probe.device_name = "NVIDIA GH200 120GB";
    of.probe.is_gpu = true;
    of.probe.memory = cluster.gpu.memory;

    const ParallelConfig config{.tp = count("tp"), .micro_batch_size = count("micro_batch_size")};
    const LayerCosts modeled = layer_costs(scenario_of(cluster, of.model), config);
    const auto without_collectives = [&](const char* column, const PassTime& pass) {
      return Seconds(std::stod(table.text(row, column)) * 1e-3) - pass.tensor_parallel;
    };
    of.probe.layers.push_back(
        {.layer = {.model = of.model,
                   .tp = config.tp,
                   .micro_batch_size = config.micro_batch_size,
                   .forward = without_collectives("forward_ms", modeled.forward),
                   .backward = without_collectives("backward_ms", modeled.backward)},
         .precision = Precision::kTf32,
         .stack = kStack});
  }
  return models;
}

ParallelConfig config_of(const CsvTable& runs, std::size_t row) {
  ParallelConfig config{.tp = 4,
                        .pp = count_in(runs, row, "pp"),
                        .dp = count_in(runs, row, "dp"),
                        .micro_batch_size = count_in(runs, row, "micro_batch_size")};
  std::istringstream stages(runs.text(row, "layers_and_ends_per_stage"));
  for (int layers = 0; stages >> layers;) {
    config.layers_per_stage.push_back(layers);
  }
  --config.layers_per_stage.front();
  --config.layers_per_stage.back();
  return config;
}

/// Returns |predicted/measured - 1| of every run, on a cluster with a probe of its model's layers
/// or without one.
std::vector<double> errors(bool is_probed) {
  const std::map<std::string, ProbedModel> models = probed_models();
  const CsvTable runs = golden("probed_runs.csv");
  std::vector<double> errors;
  for (std::size_t row = 0; row < runs.num_rows(); ++row) {
    const ProbedModel& of = models.at(runs.text(row, "model"));
    ClusterFacts facts = facts_of_alps();
    if (is_probed) {
      facts.probe = FromFile<ProbeReport>{"probe.json", of.probe};
    }
    Scenario scenario = scenario_of(make_cluster(facts).cluster, of.model);
    scenario.job.global_batch_size = count_in(runs, row, "global_batch_size");
    const ParallelConfig config = config_of(runs, row);
    StepSimulations simulations;
    const Seconds predicted = iteration_time(PlannedJob(scenario, config), simulations);
    const Seconds measured(std::stod(runs.text(row, "iteration_s")));
    errors.push_back(std::abs(predicted / measured - 1.0));
  }
  return errors;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(ProbedLayers, TellWhatRunsTakeOnAMachineNobodyDescribed) {
  const std::vector<double> probed = errors(true);
  const std::vector<double> assumed = errors(false);
  ASSERT_EQ(probed.size(), 26U);
  std::cout << "mean and median error with layers: " << 100.0 * mean(probed) << " %, "
            << 100.0 * median(probed) << " %; without: " << 100.0 * mean(assumed) << " %, "
            << 100.0 * median(assumed) << " %\n";
  EXPECT_LE(median(probed), 0.08);
  EXPECT_LE(mean(probed), 0.10);
  EXPECT_LE(mean(probed), 0.25 * mean(assumed));
}

}  // namespace
}  // namespace ptdp
