// Tests of rows of measured runs: read, skipped with a reason, or refused.
#include "cost_model/measured/measured_run.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// The fields of a row by column. published_row() has those of the first published run: SC21 table
/// 1, 1.7B.
using Row = std::map<std::string, std::string>;

Row published_row() {
  return {{"id", "run-1"},       {"layers", "24"},      {"hidden", "2304"},
          {"heads", "24"},       {"vocab", "51200"},    {"seq", "2048"},
          {"cluster_key", "c"},  {"stack_key", "s"},    {"tp", "2"},
          {"pp", "4"},           {"dp", "8"},           {"vpp", "1"},
          {"mbs", "16"},         {"gbs", "512"},        {"recompute", "full"},
          {"zero", "0"},         {"schedule", "1f1b"},  {"precision", "fp16"},
          {"seq_parallel", "n"}, {"gpu_count", "64"},   {"iter_time_best_s", "3.5"},
          {"gated", "n"},        {"n_experts", "0"},    {"cp", "1"},
          {"ep", "1"},           {"dp_overlap", "y"},   {"holdout_group", "group"},
          {"source", "paper"},   {"source_ref", "t. 1"}};
}

/// Returns the published row with some fields changed.
Row row_with(const Row& changes) {
  Row row = changes;
  row.merge(published_row());
  return row;
}

CsvTable table_of(const Row& row) {
  std::string header;
  std::string fields;
  for (const auto& [column, field] : row) {
    header += (header.empty() ? "" : ",") + column;
    fields += (fields.empty() ? "\"" : ",\"") + field + '"';
  }
  return CsvTable::from_text(header + '\n' + fields + '\n', "runs.csv");
}

MeasuredRun run_of(const Row& row) {
  const MeasuredRuns read = read_measured_runs(table_of(row));
  EXPECT_THAT(read.skipped, IsEmpty()) << read.skipped.front().reason;
  return read.runs.at(0);
}

/// Returns why the row is skipped.
std::string skip_of(const Row& row) {
  const MeasuredRuns read = read_measured_runs(table_of(row));
  EXPECT_EQ(read.runs.size() + read.skipped.size(), 1U);
  return read.skipped.empty() ? "not skipped" : read.skipped.front().reason;
}

std::string refusal(const Row& row) {
  return message_of([&] { return read_measured_runs(table_of(row)); });
}

MeasuredRuns published(const std::string& file) {
  return read_measured_runs(CsvTable::from_file(PTDP_SOURCE_DIR "/profiles/published/" + file));
}

const MeasuredRun& find_run(const MeasuredRuns& runs, const std::string& id) {
  return *std::find_if(runs.runs.begin(), runs.runs.end(),
                       [&](const MeasuredRun& run) { return run.id == id; });
}

// SC21 has ten rows in table 1; Korthikanti et al. have eight in table 5 and one in section 6.3.
TEST(PublishedRuns, AreReadToTheLast) {
  EXPECT_THAT(published("sc21-t1.csv").runs, SizeIs(10));
  EXPECT_THAT(published("sc21-t1.csv").skipped, IsEmpty());
  EXPECT_THAT(published("korthikanti.csv").runs, SizeIs(9));
  EXPECT_THAT(published("korthikanti.csv").skipped, IsEmpty());
}

// SC21 (arXiv:2104.04473) table 1, last row.
TEST(PublishedRuns, HoldTheTrillionOfSc21) {
  const MeasuredRuns runs = published("sc21-t1.csv");
  const MeasuredRun& run = find_run(runs, "sc21-t1-1T");
  EXPECT_EQ(run.config,
            (ParallelConfig{.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull}));
  EXPECT_EQ(run.model.num_layers, 128);
  EXPECT_EQ(run.global_batch_size, 3072);
  EXPECT_EQ(run.precision, "fp16");
  EXPECT_EQ(run.data_parallel_overlap, false);
}

// Korthikanti et al. (arXiv:2205.05198) table 5: 175B with selective recomputation, 13.75 s; 3
// interleaved chunks (table 3).
TEST(PublishedRuns, HoldTheSelectiveRunsOfKorthikanti) {
  const MeasuredRuns runs = published("korthikanti.csv");
  const MeasuredRun& run = find_run(runs, "seqsel-175B-selSP");
  EXPECT_EQ(run.config, (ParallelConfig{.tp = 8,
                                        .pp = 8,
                                        .vpp = 3,
                                        .schedule = ScheduleKind::kInterleaved,
                                        .recompute = Recompute::kSelective,
                                        .sequence_parallel = true}));
  EXPECT_EQ(run.iteration_time, Seconds(13.75));
}

TEST(MeasuredRun, HoldsTheFieldsOfItsRow) {
  const MeasuredRun run = run_of(published_row());
  EXPECT_EQ(run.id, "run-1");
  EXPECT_EQ(run.group, "group");
  EXPECT_EQ(run.source, "paper, t. 1");
  EXPECT_EQ(run.cluster, "c");
  EXPECT_EQ(run.stack, "s");
  EXPECT_EQ(run.global_batch_size, 512);
  EXPECT_EQ(run.iteration_time, Seconds(3.5));
  EXPECT_EQ(run.data_parallel_overlap, true);
  EXPECT_EQ(run.config,
            (ParallelConfig{
                .tp = 2, .pp = 4, .dp = 8, .micro_batch_size = 16, .recompute = Recompute::kFull}));
}

TEST(MeasuredRun, HasAResolvedModel) {
  const TransformerConfig expected = resolved({.num_layers = 24,
                                               .hidden_size = 2304,
                                               .num_attention_heads = 24,
                                               .vocab_size = 51200,
                                               .seq_length = 2048},
                                              "test");
  EXPECT_EQ(run_of(published_row()).model, expected);
}

TEST(MeasuredRun, TakesTheSpellingsOfItsSources) {
  EXPECT_EQ(run_of(row_with({{"recompute", "none"}})).config.recompute, Recompute::kNone);
  for (const std::string schedule : {"1F1B-I", "1f1b-interleaved", "interleaved"}) {
    const MeasuredRun run = run_of(row_with({{"schedule", schedule}, {"vpp", "2"}}));
    EXPECT_EQ(run.config.schedule, ScheduleKind::kInterleaved) << schedule;
  }
  const MeasuredRun alone =
      run_of(row_with({{"schedule", "none"}, {"pp", "1"}, {"gpu_count", "16"}}));
  EXPECT_EQ(alone.config.schedule, ScheduleKind::kOneFOneB);
  for (const auto& [schedule, times] : {std::pair("ZB-1p", 1), std::pair("ZB-2p", 2)}) {
    const MeasuredRun run = run_of(row_with({{"schedule", schedule}, {"vpp", "1"}}));
    EXPECT_EQ(run.config.schedule, ScheduleKind::kZbAuto) << schedule;
    EXPECT_EQ(run.config.memory_limit, times * run.config.pp) << schedule;
  }
}

// With one GPU per layer there is nothing to split along the sequence, with one replica nothing to
// shard.
TEST(MeasuredRun, LeavesOutWhatOneGpuCannotShare) {
  const MeasuredRun run = run_of(row_with(
      {{"seq_parallel", "y"}, {"zero", "1"}, {"tp", "1"}, {"dp", "1"}, {"gpu_count", "4"}}));
  EXPECT_FALSE(run.config.sequence_parallel);
  EXPECT_EQ(run.config.zero_stage, 0);
}

TEST(MeasuredRun, KeepsWhatManyGpusShare) {
  const MeasuredRun run = run_of(row_with({{"seq_parallel", "y"}, {"zero", "1"}}));
  EXPECT_TRUE(run.config.sequence_parallel);
  EXPECT_EQ(run.config.zero_stage, 1);
}

TEST(MeasuredRun, LeavesOverlapToTheStackWhereTheRowDoes) {
  EXPECT_EQ(run_of(row_with({{"dp_overlap", ""}})).data_parallel_overlap, std::nullopt);
  EXPECT_EQ(run_of(row_with({{"dp_overlap", "?"}})).data_parallel_overlap, std::nullopt);
}

TEST(MeasuredRun, IsReadFromTheRequiredColumnsAlone) {
  Row row = published_row();
  for (const std::string column :
       {"zero", "schedule", "precision", "seq_parallel", "gpu_count", "gated", "n_experts", "cp",
        "ep", "dp_overlap", "holdout_group", "source", "source_ref"}) {
    row.erase(column);
  }
  EXPECT_EQ(run_of(row).config, run_of(published_row()).config);
}

TEST(MeasuredRun, NeedsItsRequiredColumns) {
  for (const std::string column :
       {"id", "layers", "hidden", "heads", "vocab", "seq", "cluster_key", "stack_key", "tp", "pp",
        "dp", "vpp", "mbs", "gbs", "recompute", "iter_time_best_s"}) {
    Row row = published_row();
    row.erase(column);
    EXPECT_THAT(refusal(row), testing::StartsWith("runs.csv: line 1: no column " + column));
  }
}

/// Returns the row without the columns that say the model's shape, with the name of a shipped
/// model.
Row named_row(const std::string& model) {
  Row row = row_with({{"model", model}});
  for (const char* column :
       {"layers", "hidden", "heads", "vocab", "seq", "kv_heads", "ffn", "gated"}) {
    row.erase(column);
  }
  return row;
}

TEST(MeasuredRun, MayNameItsModelInPlaceOfTheShape) {
  EXPECT_EQ(run_of(named_row("llama-3-8b")).model, find_model("llama-3-8b").config);
  EXPECT_EQ(run_of(named_row("Llama-3-8B")).model, find_model("llama-3-8b").config);
  Row row = named_row("llama-3-8b");
  row["seq"] = "4096";
  EXPECT_EQ(run_of(row).model.seq_length, 4096);
}

TEST(MeasuredRun, MustAgreeWithTheModelThatItNames) {
  Row row = named_row("llama-3-8b");
  row["ffn"] = "11008";
  EXPECT_THAT(skip_of(row), HasSubstr("ffn is not that of the profile llama-3-8b"));
  EXPECT_THAT(skip_of(named_row("my-model")), HasSubstr("\"my-model\" is no shipped model"));
}

// By hand, F = 72 B s l h^2 (1 + s/6h + V/12lh): at 100 TFLOP/s of each GPU, an iteration of a GPT
// of 2 layers, h 1024, V 51200, with 8 sequences of 2048 tokens on 2 GPUs. Causal attention has
// s/12h.
TEST(TimeOfRate, IsThatOfTheFlopsOfItsConvention) {
  MeasuredRun run;
  run.model = resolved({.num_layers = 2,
                        .hidden_size = 1024,
                        .num_attention_heads = 16,
                        .vocab_size = 51200,
                        .seq_length = 2048},
                       "x");
  run.global_batch_size = 8;
  run.config.dp = 2;
  const double linear = 72.0 * 8 * 2048 * 2 * 1024.0 * 1024.0;
  const double logits = 51200.0 / (12.0 * 2 * 1024);
  const auto seconds = [&](const char* convention) {
    return time_of_rate(run, convention, 100.0).value().value();
  };
  const double full = linear * (1.0 + 2048.0 / (6.0 * 1024) + logits) / 2e14;
  EXPECT_NEAR(seconds("model_full"), full, 1e-9);
  EXPECT_NEAR(seconds("hardware"), full, 1e-9);
  EXPECT_NEAR(seconds("model_causal"), linear * (1.0 + 2048.0 / (12.0 * 1024) + logits) / 2e14,
              1e-9);
  EXPECT_NEAR(seconds("sc21_hw"),
              linear * 4.0 / 3.0 * (1.0 + 2048.0 / (6.0 * 1024) + 0.75 * logits) / 2e14, 1e-9);
  EXPECT_FALSE(time_of_rate(run, "unstated", 100.0).has_value());
}

TEST(MeasuredRun, MayHaveARateInPlaceOfATime) {
  Row row = row_with({{"tflops_per_gpu", "100"}, {"flop_convention", "model_full"}});
  row.erase("iter_time_best_s");
  const MeasuredRun run = run_of(row);
  EXPECT_EQ(run.iteration_time, time_of_rate(run, "model_full", 100.0));
  row["flop_convention"] = "paper";
  EXPECT_THAT(skip_of(row), HasSubstr("flop_convention that is not known"));
}

TEST(SkippedRun, SaysWhichRowItWas) {
  const MeasuredRuns read = read_measured_runs(table_of(row_with({{"tp", "?"}})));
  ASSERT_THAT(read.skipped, SizeIs(1));
  EXPECT_EQ(read.skipped[0].id, "run-1");
  EXPECT_EQ(read.skipped[0].group, "group");
}

TEST(SkippedRun, LacksAFieldThatCostingNeeds) {
  for (const std::string column : {"layers", "hidden", "heads", "vocab", "seq", "tp", "pp", "dp",
                                   "vpp", "mbs", "gbs", "iter_time_best_s"}) {
    for (const std::string unknown : {"", "?"}) {
      EXPECT_EQ(skip_of(row_with({{column, unknown}})), column + " is not given");
    }
  }
  EXPECT_EQ(skip_of(row_with({{"zero", "?"}})), "zero is not given");
}

TEST(SkippedRun, LacksItsClusterOrStack) {
  for (const std::string column : {"cluster_key", "stack_key"}) {
    for (const std::string unknown : {"", "?"}) {
      EXPECT_EQ(skip_of(row_with({{column, unknown}})), column + " is not given");
    }
  }
}

TEST(MeasuredRun, SaysWhatRecomputationIsOf) {
  EXPECT_EQ(run_of(row_with({{"recompute", "selective-op"}})).config.recompute_modules,
            RecomputeModules{RecomputeModule::kEverySecondProduct});
  const ParallelConfig modules =
      run_of(row_with({{"recompute", "selective"}, {"recompute_modules", "moe_act+layernorm"}}))
          .config;
  EXPECT_EQ(modules.recompute_modules,
            (RecomputeModules{RecomputeModule::kLayerNorm, RecomputeModule::kMoeActivation}));
  const ParallelConfig layers =
      run_of(row_with({{"recompute_num_layers", "3"}, {"recompute_method", "uniform"}})).config;
  EXPECT_EQ(layers.recompute_num_layers, 3);
  EXPECT_EQ(layers.recompute_method, RecomputeMethod::kUniform);
}

TEST(MeasuredRun, IsRefusedWhereRecomputationContradictsItself) {
  struct Expectation {
    Row changes;
    std::string message;
  };
  for (const Expectation& expected :
       std::vector<Expectation>{{{{"recompute", "none"}, {"recompute_modules", "mlp"}},
                                 "recompute_modules: expected recompute selective beside it"},
                                {{{"recompute", "selective-op"}, {"recompute_modules", "mlp"}},
                                 "recompute_modules: expected recompute selective beside it"},
                                {{{"recompute", "none"}, {"recompute_num_layers", "4"}},
                                 "recompute_num_layers: expected recompute full beside it"},
                                {{{"recompute", "full"}, {"recompute_method", "every"}},
                                 "recompute_method: expected recompute_num_layers beside it"}}) {
    EXPECT_THAT(message_of([&] { run_of(row_with(expected.changes)); }),
                testing::HasSubstr(expected.message));
  }
}

TEST(MeasuredRun, SaysHowManyLayersActivationsWereOffloaded) {
  const Row one_stage = {{"pp", "1"}, {"dp", "32"}, {"recompute", "none"}};
  EXPECT_EQ(run_of(row_with(one_stage)).config.offload, Offload::kNone);
  Row some = one_stage;
  some["offload_num_layers"] = "12";
  const ParallelConfig config = run_of(row_with(some)).config;
  EXPECT_EQ(config.offload, Offload::kActivations);
  EXPECT_EQ(config.offload_num_layers, 12);
  some["offload_num_layers"] = "24";
  EXPECT_THAT(refusal(row_with(some)),
              testing::HasSubstr("offload_num_layers: expected fewer than the 24 layers, got 24"));
}

TEST(SkippedRun, HasAFeatureThatNoModelCovers) {
  struct Expectation {
    Row changes;
    std::string reason;
  };
  for (const auto& [changes, reason] : std::vector<Expectation>{
           {{{"n_experts", "8"}}, "a model with experts that no profile describes"},
           {{{"ep", "2"}}, "ep of a model without experts"},
           {{{"schedule", "gpipe"}}, "schedule \"gpipe\" is not covered"},
           {{{"schedule", "none"}}, "schedule \"none\" is not covered"},
           {{{"recompute", "block"}}, "recompute \"block\" is not covered"},
           {{{"recompute", "?"}}, "recompute \"?\" is not covered"},
           {{{"offload_num_layers", "12"}},
            "activations offloaded with a pipeline or with recomputation"},
           {{{"precision", "int8"}}, "precision \"int8\" is not covered"},
           {{{"precision", "?"}}, "precision \"?\" is not covered"},
           {{{"zero", "4"}}, "there is no ZeRO stage 4"}}) {
    EXPECT_EQ(skip_of(row_with(changes)), reason);
  }
}

TEST(MeasuredRun, SaysWhetherCollectivesRanWithinProducts) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::optional<bool>>>{
           {"y", true}, {"n", false}, {"", std::nullopt}, {"?", std::nullopt}}) {
    EXPECT_EQ(run_of(row_with({{"tp_overlap", text}})).tp_comm_overlap, expected) << text;
  }
}

TEST(MeasuredRun, SaysHowTokensGotToExperts) {
  for (const auto& [text, expected] :
       std::vector<std::pair<std::string, std::optional<ExpertDispatch>>>{
           {"all-to-all", ExpertDispatch::kAllToAll},
           {"hierarchical", ExpertDispatch::kHierarchical},
           {"", std::nullopt},
           {"?", std::nullopt}}) {
    EXPECT_EQ(run_of(row_with({{"expert_dispatch", text}})).expert_dispatch, expected) << text;
  }
  EXPECT_THAT(
      [] {
        run_of(row_with({{"expert_dispatch", "deepep"}}));
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("deepep")));
  EXPECT_EQ(run_of(row_with({{"cuda_graphs", "full_iteration"}})).cuda_graphs, CudaGraphs::kStep);
  EXPECT_EQ(run_of(row_with({{"cuda_graphs", ""}})).cuda_graphs, std::nullopt);
  EXPECT_EQ(run_of(row_with({{"expert_overlap", "y"}})).expert_overlap, true);
  EXPECT_EQ(run_of(row_with({{"expert_overlap", ""}})).expert_overlap, std::nullopt);
}

TEST(MeasuredRun, HasMemoryWhereTheSourceSays) {
  EXPECT_EQ(run_of(row_with({{"memory_GB", "40.5"}})).memory, Bytes(40.5 * 1073741824.0));
  EXPECT_EQ(run_of(row_with({{"memory_GB", ""}})).memory, std::nullopt);
  EXPECT_EQ(run_of(row_with({{"memory_GB", "?"}})).memory, std::nullopt);
}

TEST(MeasuredRun, SaysWhetherTheTablesOfTheVocabularyAreTwo) {
  EXPECT_FALSE(run_of(row_with({})).model.untied_embeddings);
  EXPECT_TRUE(run_of(row_with({{"untied", "y"}})).model.untied_embeddings);
  EXPECT_TRUE(run_of(row_with({{"gated", "y"}})).model.untied_embeddings);
  EXPECT_FALSE(run_of(row_with({{"gated", "y"}, {"untied", "n"}})).model.untied_embeddings);
}

TEST(MeasuredRun, SaysWhetherDropoutWasTrainedWith) {
  EXPECT_TRUE(has_dropout(run_of(row_with({})).model));
  EXPECT_FALSE(has_dropout(run_of(row_with({{"dropout", "n"}})).model));
  EXPECT_FALSE(has_dropout(run_of(row_with({{"gated", "y"}})).model));
  EXPECT_TRUE(has_dropout(run_of(row_with({{"gated", "y"}, {"dropout", "y"}})).model));
}

TEST(MeasuredRun, MayNameItsScheduleByWhatItHasInsteadOfAPipeline) {
  for (const std::string name : {"none", "fsdp", "dp"}) {
    const Row alone = {{"schedule", name}, {"pp", "1"}, {"vpp", "1"}, {"gpu_count", ""}};
    EXPECT_EQ(run_of(row_with(alone)).config.schedule, ScheduleKind::kOneFOneB) << name;
    EXPECT_EQ(skip_of(row_with({{"schedule", name}})), "schedule \"" + name + "\" is not covered");
  }
}

// The sequences were shared by 2·4·8·2 GPUs; ZeRO shards over two that share sequences, too.
TEST(MeasuredRun, OfSharedSequencesIsRead) {
  EXPECT_EQ(run_of(row_with({{"cp", "2"}, {"gpu_count", "128"}})).config.cp, 2);
  EXPECT_EQ(run_of(row_with({{"cp", "2"}, {"dp", "1"}, {"zero", "1"}, {"gpu_count", ""}}))
                .config.zero_stage,
            1);
  EXPECT_EQ(run_of(row_with({{"dp", "1"}, {"zero", "1"}, {"gpu_count", ""}})).config.zero_stage, 0);
}

// 2·4·8 GPUs.
TEST(SkippedRun, ContradictsItsNumberOfGpus) {
  EXPECT_EQ(skip_of(row_with({{"gpu_count", "65"}})),
            "tp, pp, dp and cp make 64 GPUs, gpu_count is 65");
}

// 512 sequences over 8 replicas and microbatches of 16.
TEST(SkippedRun, ContradictsItsNumberOfMicrobatches) {
  EXPECT_EQ(skip_of(row_with({{"n_microbatches", "4"}})), "not skipped");
  EXPECT_EQ(skip_of(row_with({{"n_microbatches", "5"}})),
            "gbs, dp and mbs make 4 microbatches, n_microbatches is 5");
}

TEST(MeasuredRun, OfAGatedModelIsOfLlamasKind) {
  const MeasuredRun run = run_of(row_with({{"gated", "y"}, {"kv_heads", "8"}, {"ffn", "6144"}}));
  EXPECT_TRUE(run.model.gated_linear_unit);
  EXPECT_TRUE(run.model.untied_embeddings);
  EXPECT_FALSE(run.model.add_bias_linear);
  EXPECT_EQ(run.model.position_embedding, PositionEmbedding::kRope);
  EXPECT_EQ(run.model.normalization, Normalization::kRmsNorm);
  EXPECT_EQ(run.model.num_query_groups, 8);
}

// Over 4 stages: 24 layers are even; 30 and the slots of embedding and head make 8 each; 27 do not,
// and the first three stages hold one more.
TEST(MeasuredRun, SpreadsLayersThatStagesDoNotDivide) {
  const auto layers_per_stage = [](const std::string& layers) {
    return run_of(row_with({{"layers", layers}})).config.layers_per_stage;
  };
  EXPECT_THAT(layers_per_stage("24"), IsEmpty());
  EXPECT_THAT(layers_per_stage("30"), testing::ElementsAre(7, 8, 8, 7));
  EXPECT_THAT(layers_per_stage("27"), testing::ElementsAre(7, 7, 7, 6));
  const auto given = [](const std::string& layers) {
    return row_with({{"layers", "24"}, {"layers_per_stage", layers}});
  };
  EXPECT_THAT(run_of(given("7+7+7+3")).config.layers_per_stage, testing::ElementsAre(7, 7, 7, 3));
  EXPECT_EQ(skip_of(given("7+7+7+4")), "layers_per_stage is not 4 numbers that add up to 24");
  EXPECT_EQ(skip_of(given("12+12")), "layers_per_stage is not 4 numbers that add up to 24");
  EXPECT_THAT(message_of([&] { return read_measured_runs(table_of(given("7+7+"))); }),
              testing::HasSubstr("layers_per_stage: expected numbers with + or a comma"));
}

/// A column of whole numbers, and the smallest number that it accepts.
struct CountColumn {
  std::string name;
  int least;
};
const std::vector<CountColumn>& count_columns() {
  static const std::vector<CountColumn> columns = {
      {"layers", 1}, {"hidden", 1}, {"heads", 1},     {"vocab", 1},    {"seq", 1},
      {"tp", 1},     {"pp", 1},     {"dp", 1},        {"cp", 1},       {"ep", 1},
      {"vpp", 1},    {"mbs", 1},    {"gbs", 1},       {"kv_heads", 0}, {"head_dim", 0},
      {"ffn", 0},    {"zero", 0},   {"n_experts", 0}, {"gpu_count", 0}};
  return columns;
}

TEST(MeasuredRun, RefusesMalformedNumbersByLineAndColumn) {
  for (const CountColumn& column : count_columns()) {
    for (const std::string field : {"x", "1.5", "-1", "1000000001"}) {
      EXPECT_EQ(refusal(row_with({{column.name, field}})),
                "runs.csv: line 2: " + column.name + ": expected a whole number from " +
                    std::to_string(column.least) + " to 1000000000, got \"" + field + '"');
    }
  }
}

TEST(MeasuredRun, RefusesZerosWhereSomethingMustBe) {
  for (const CountColumn& column : count_columns()) {
    if (column.least == 1) {
      EXPECT_EQ(refusal(row_with({{column.name, "0"}})),
                "runs.csv: line 2: " + column.name +
                    ": expected a whole number from 1 to 1000000000, got \"0\"");
    }
  }
}

TEST(MeasuredRun, RefusesAMalformedZeroStageWithoutReplicasToo) {
  EXPECT_EQ(refusal(row_with({{"zero", "x"}, {"dp", "1"}, {"gpu_count", "8"}})),
            "runs.csv: line 2: zero: expected a whole number from 0 to 1000000000, got \"x\"");
}

TEST(MeasuredRun, RefusesATimeThatCannotBe) {
  for (const std::string field : {"x", "0", "-1", "1e7", "nan"}) {
    EXPECT_EQ(refusal(row_with({{"iter_time_best_s", field}})),
              "runs.csv: line 2: iter_time_best_s: expected a number from 1e-06 to 1e+06, got \"" +
                  field + '"');
  }
}

TEST(MeasuredRun, RefusesAFlagThatIsNeitherYesNorNo) {
  for (const std::string column : {"gated", "seq_parallel", "dp_overlap"}) {
    EXPECT_EQ(refusal(row_with({{column, "yes"}})),
              "runs.csv: line 2: " + column + ": expected \"y\" or \"n\", got \"yes\"");
  }
}

TEST(SkippedRun, HasAModelThatContradictsItself) {
  EXPECT_EQ(skip_of(row_with({{"heads", "7"}})),
            "runs.csv: line 2: run-1: num_attention_heads 7 does not divide hidden_size 2304; give "
            "kv_channels if that is meant");
  EXPECT_EQ(skip_of(row_with({{"kv_heads", "5"}})),
            "runs.csv: line 2: run-1: num_query_groups 5 does not divide num_attention_heads 24");
  EXPECT_EQ(skip_of(row_with({{"layers", "1000000000"}, {"pp", "1000000000"}})),
            "more than 100000 layers");
  EXPECT_EQ(skip_of(row_with({{"hidden", "24000000"}, {"ffn", "24000000"}, {"layers", "100000"}})),
            "runs.csv: line 2: run-1: the model has more than 1e18 parameters");
}

TEST(SkippedRun, HasStagesWithoutLayers) {
  EXPECT_EQ(skip_of(row_with({{"layers", "3"}})), "fewer layers than stages");
  EXPECT_EQ(skip_of(row_with({{"layers", "2"}})),
            "not skipped");  // embedding and head have a stage each
  EXPECT_EQ(skip_of(row_with({{"pp", "1"}, {"vpp", "2"}, {"gpu_count", "16"}})),
            "vpp 2 without a pipeline");
}

TEST(SkippedRun, NamesAFileForAProfile) {
  EXPECT_EQ(skip_of(row_with({{"cluster_key", "/etc/passwd"}})),
            "cluster_key is no name of a profile");
  EXPECT_EQ(skip_of(row_with({{"stack_key", "mine.json"}})), "stack_key is no name of a profile");
}

// The GPUs and microbatches only confirm the other columns, so they may be unknown.
TEST(MeasuredRun, NeedsNoNumberOfGpusOrMicrobatches) {
  EXPECT_EQ(skip_of(row_with({{"gpu_count", "?"}, {"n_microbatches", "?"}})), "not skipped");
}

/// Returns a row of DeepSeek-V3. No column tells its shared expert, dense layers and latent
/// attention.
Row deepseek_row(const Row& changes) {
  Row row = changes;
  row.merge(Row{{"model", "DeepSeek-V3"},
                {"layers", "61"},
                {"hidden", "7168"},
                {"heads", "128"},
                {"vocab", "129280"},
                {"seq", "2048"},
                {"n_experts", "256"},
                {"topk", "8"},
                {"moe_ffn", "2048"},
                {"tp", "1"},
                {"pp", "1"},
                {"dp", "64"},
                {"ep", "32"},
                {"gated", "y"}});
  return row_with(row);
}

TEST(MeasuredRun, OfExpertsHasTheShapeOfItsModelsProfile) {
  const MeasuredRun run = run_of(deepseek_row({}));
  EXPECT_EQ(run.model.first_dense_layers, 3);
  EXPECT_EQ(run.model.kv_lora_rank, 512);
  EXPECT_EQ(run.model.moe_shared_expert_intermediate_size, 2048);
  EXPECT_EQ(run.model.moe_router_num_groups, 8);
  EXPECT_EQ(run.model.seq_length, 2048);
  EXPECT_EQ(run.model.mtp_num_layers, 0);
  EXPECT_EQ(run.config.ep, 32);
  EXPECT_EQ(run.config.etp, 1);
  const Row split = {{"tp", "2"}, {"dp", "32"}, {"etp", "2"}, {"seq_parallel", "y"}};
  EXPECT_EQ(run_of(deepseek_row(split)).config.etp, 2);
  EXPECT_EQ(run_of(deepseek_row({{"mtp_num_layers", "1"}})).model.mtp_num_layers, 1);
}

TEST(MeasuredRun, HasReplicasOfItsShards) {
  const Row given = {{"tp", "1"},   {"pp", "1"},           {"dp", "8"},
                     {"zero", "3"}, {"dp_replicate", "2"}, {"reshard_after_forward", "n"},
                     {"vpp", "1"},  {"gpu_count", "8"},    {"gbs", "512"}};
  const ParallelConfig config = run_of(row_with(given)).config;
  EXPECT_EQ(config.dp_replicate, 2);
  EXPECT_FALSE(config.reshard_after_forward);
  Row uneven = given;
  uneven["dp_replicate"] = "3";
  EXPECT_EQ(skip_of(row_with(uneven)), "dp_replicate 3 does not divide dp, or nothing is sharded");
}

// 61 layers, of which the first 3 are dense: the first 16 of them have 13 with experts.
TEST(MeasuredRun, OfExpertsMayHaveTheFirstLayersOfItsModel) {
  const MeasuredRun cut = run_of(deepseek_row({{"layers", "16"}}));
  EXPECT_EQ(cut.model.num_layers, 16);
  EXPECT_EQ(cut.model.first_dense_layers, 3);
  EXPECT_EQ(num_expert_layers(cut.model), 13);
  EXPECT_EQ(cut.model.moe_router_num_groups, 8);
  EXPECT_THAT(skip_of(deepseek_row({{"layers", "3"}})),
              HasSubstr("leave none of the 3 layers with experts"));
}

// 16 replicas, two GPUs of each for a sequence: 32 copies of the states, shared by 8, are 4
// replicas.
TEST(MeasuredRun, SharesStatesOverPartOfTheReplicas) {
  const Row given = {{"tp", "1"},   {"pp", "1"},  {"dp", "16"},        {"cp", "2"},
                     {"zero", "1"}, {"vpp", "1"}, {"gpu_count", "32"}, {"optimizer_shards", "8"}};
  EXPECT_EQ(run_of(row_with(given)).config.dp_replicate, 4);
  const auto changed = [&](Row changes) {
    changes.merge(Row(given));
    return row_with(changes);
  };
  EXPECT_EQ(run_of(changed({{"optimizer_shards", "32"}})).config.dp_replicate, 1);
  EXPECT_EQ(run_of(changed({{"dp_replicate", "4"}})).config.dp_replicate, 4);
  const auto why = [](int shards) {
    return "optimizer_shards " + std::to_string(shards) +
           " is no share of dp * cp, contradicts dp_replicate, or nothing is sharded";
  };
  EXPECT_EQ(skip_of(changed({{"optimizer_shards", "5"}})), why(5));
  EXPECT_EQ(skip_of(changed({{"dp_replicate", "2"}})), why(8));
  EXPECT_EQ(skip_of(changed({{"zero", "0"}})), why(8));
  EXPECT_EQ(run_of(changed({{"zero", "0"}, {"optimizer_shards", "1"}})).config.dp_replicate, 1);
  // 32 replicas of shards of one GPU each do not cut 16 replicas of the model.
  EXPECT_EQ(skip_of(changed({{"optimizer_shards", "1"}})),
            "dp_replicate 32 does not divide dp, or nothing is sharded");
}

// torchtitan's activation_checkpoint.selective_ac_option "2" and "op".
TEST(MeasuredRun, RecomputesEveryNthLayer) {
  const ParallelConfig config = run_of(row_with({{"recompute", "selective-2"}})).config;
  EXPECT_EQ(config.recompute, Recompute::kFull);
  EXPECT_EQ(config.recompute_method, RecomputeMethod::kEvery);
  EXPECT_EQ(config.recompute_num_layers, 2);
  EXPECT_EQ(run_of(row_with({{"recompute", "selective-op"}})).config.recompute,
            Recompute::kSelective);
  for (const char* unknown :
       {"selective-", "selective-0", "selective--1", "selective-2x", "selective-99999999999"}) {
    EXPECT_EQ(skip_of(row_with({{"recompute", unknown}})),
              "recompute \"" + std::string(unknown) + "\" is not covered");
  }
  EXPECT_EQ(refusal(row_with({{"recompute", "selective-2"}, {"recompute_num_layers", "3"}})),
            "runs.csv: line 2: recompute_num_layers: expected recompute full beside it");
}

// By hand: 512 sequences of 2048 tokens on 64 GPUs at 1000 tokens per second each.
TEST(MeasuredRun, HasTheTimeOfItsTokensPerSecond) {
  EXPECT_DOUBLE_EQ(
      run_of(row_with({{"iter_time_best_s", ""}, {"tokens_s_gpu", "1000"}})).iteration_time.value(),
      16.384);
  EXPECT_EQ(run_of(row_with({{"tokens_s_gpu", "1000"}})).iteration_time.value(), 3.5);
  EXPECT_EQ(skip_of(row_with({{"iter_time_best_s", ""}})), "iter_time_best_s is not given");
  EXPECT_EQ(skip_of(row_with({{"iter_time_best_s", ""}, {"tokens_s_gpu", "?"}})),
            "tokens_s_gpu is not given");
  EXPECT_THAT(refusal(row_with({{"iter_time_best_s", ""}, {"tokens_s_gpu", "0"}})),
              HasSubstr("runs.csv: line 2: tokens_s_gpu"));
}

TEST(MeasuredRun, SaysWhichSwitchesOfItsStackWereOn) {
  EXPECT_EQ(run_of(row_with({})).scatter_gather, std::nullopt);
  EXPECT_EQ(run_of(row_with({{"scatter_gather", "?"}})).scatter_gather, std::nullopt);
  EXPECT_EQ(run_of(row_with({{"scatter_gather", "n"}})).scatter_gather, false);
  EXPECT_EQ(run_of(row_with({})).fused, std::nullopt);
  EXPECT_EQ(run_of(row_with({{"fused", "y"}})).fused, true);
  EXPECT_EQ(run_of(row_with({{"fused", "n"}})).fused, false);
}

TEST(SkippedRun, IsOfExpertsThatItDoesNotTell) {
  EXPECT_EQ(skip_of(deepseek_row({{"model", "GPT-MoE-1T"}})),
            "a model with experts that no profile describes");
  EXPECT_EQ(skip_of(deepseek_row({{"layers", "62"}})),
            "layers is not that of the profile deepseek-v3");
  EXPECT_EQ(skip_of(deepseek_row({{"topk", "6"}})), "topk is not that of the profile deepseek-v3");
  EXPECT_EQ(skip_of(deepseek_row({{"moe_ffn", "?"}})), "moe_ffn is not given");
  EXPECT_EQ(skip_of(deepseek_row({{"tp", "2"}, {"dp", "32"}, {"seq_parallel", "y"}})),
            "etp is not given");
}

// --precision takes the same names; an empty field leaves the stack as it is.
TEST(MeasuredRun, KnowsEverySpellingOfAPrecision) {
  const std::vector<std::pair<std::string, std::string>> spellings = {
      {"", ""},
      {"fp16", "fp16"},
      {"bf16", "bf16"},
      {"bf16(pure)", "bf16(pure)"},
      {"fp32", "fp32"},
      {"tf32", "tf32"},
      {"fp64", "fp64"},
      {"fp8-rowwise", "fp8-rowwise"},
      {"nvfp4", "nvfp4"},
      {"fp8", "fp8"},
      {"fp8-ds", "fp8-delayed"},
      {"fp8-cs", "fp8-current"},
      {"fp8-sc", "fp8-block"},
      {"fp8-mx", "fp8-mx"},
      {"fp8-tensorwise", "fp8-current"},
      {"mxfp8", "fp8-mx"},
      {"fp8-cs (fp8-mx)", "fp8-current"}};
  for (const auto& [spelling, recipe] : spellings) {
    EXPECT_EQ(run_of(row_with({{"precision", spelling}})).precision, recipe) << spelling;
  }
}

TEST(MeasuredRun, HasEachSizeOfItsModel) {
  const TransformerConfig model = run_of(row_with({{"layers", "12"},
                                                   {"hidden", "640"},
                                                   {"heads", "10"},
                                                   {"kv_heads", "5"},
                                                   {"head_dim", "48"},
                                                   {"ffn", "1000"},
                                                   {"vocab", "999"},
                                                   {"seq", "77"}}))
                                      .model;
  EXPECT_EQ(model.num_layers, 12);
  EXPECT_EQ(model.hidden_size, 640);
  EXPECT_EQ(model.num_attention_heads, 10);
  EXPECT_EQ(model.num_query_groups, 5);
  EXPECT_EQ(model.kv_channels, 48);
  EXPECT_EQ(model.ffn_hidden_size, 1000);
  EXPECT_EQ(model.vocab_size, 999);
  EXPECT_EQ(model.seq_length, 77);
  EXPECT_FALSE(model.gated_linear_unit);
  EXPECT_TRUE(model.add_bias_linear);
}

TEST(MeasuredRun, NamesItsSourceWithAndWithoutAPlace) {
  EXPECT_EQ(run_of(row_with({{"source_ref", ""}})).source, "paper");
  EXPECT_EQ(run_of(row_with({{"source", "S"}, {"source_ref", "p. 9"}})).source, "S, p. 9");
}

TEST(MeasuredRun, SaysEachOverlapOrLeavesItToTheStack) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::optional<bool>>>{
           {"y", true}, {"n", false}, {"", std::nullopt}, {"?", std::nullopt}}) {
    EXPECT_EQ(run_of(row_with({{"dp_overlap", text}})).data_parallel_overlap, expected) << text;
    EXPECT_EQ(run_of(row_with({{"expert_overlap", text}})).expert_overlap, expected) << text;
  }
  const MeasuredRun dispatched = run_of(row_with({{"dp_overlap", "n"}, {"tp_overlap", "y"}}));
  EXPECT_EQ(dispatched.data_parallel_overlap, false);
  EXPECT_EQ(dispatched.tp_comm_overlap, true);
  EXPECT_EQ(dispatched.expert_overlap, std::nullopt);
  for (const char* column : {"dp_overlap", "tp_overlap", "expert_overlap", "untied", "dropout"}) {
    EXPECT_EQ(refusal(row_with({{column, "true"}})), "runs.csv: line 2: " + std::string(column) +
                                                         ": expected \"y\" or \"n\", got \"true\"");
  }
}

TEST(MeasuredRun, RefusesAWordThatIsNoChoice) {
  EXPECT_EQ(refusal(row_with({{"expert_dispatch", "all-to-al"}})),
            "runs.csv: line 2: expert_dispatch: expected one of all-to-all, all-gather, "
            "hierarchical, got \"all-to-al\"; did you mean \"all-to-all\"?");
  EXPECT_EQ(refusal(row_with({{"recompute_num_layers", "3"}, {"recompute_method", "evry"}})),
            "runs.csv: line 2: recompute_method: expected one of block, uniform, every, got "
            "\"evry\"; did you mean \"every\"?");
  EXPECT_EQ(refusal(row_with({{"recompute", "selective"}, {"recompute_modules", "mlp+mlp"}})),
            "runs.csv: line 2: recompute_modules: mlp is given twice");
}

TEST(MeasuredRun, RefusesMemoryThatNoGpuHas) {
  for (const char* field : {"0", "x", "1e6", "-1"}) {
    EXPECT_EQ(refusal(row_with({{"memory_GB", field}})),
              "runs.csv: line 2: memory_GB: expected a number from 0.001 to 1e+05, got \"" +
                  std::string(field) + '"');
  }
}

TEST(MeasuredRun, RefusesTextOnSeveralLines) {
  for (const char* column : {"id", "holdout_group", "cluster_key", "stack_key"}) {
    EXPECT_EQ(refusal(row_with({{column, "a\nb"}})), "runs.csv: line 2: " + std::string(column) +
                                                         ": expected printable text, got "
                                                         "\"a\\x0ab\"");
  }
}

// An unknown column that changes the cost is not taken for a typing error; one that changes nothing
// is.
TEST(MeasuredRun, RefusesAColumnThatLooksLikeAnother) {
  EXPECT_EQ(refusal(row_with({{"dp_overlapp", "y"}, {"offload_layers", "1"}})),
            "runs.csv: line 1: unknown column \"offload_layers\"; did you mean "
            "\"offload_num_layers\"?");
  EXPECT_EQ(refusal(row_with({{"expert_dispach", "all-to-all"}})),
            "runs.csv: line 1: unknown column \"expert_dispach\"; did you mean "
            "\"expert_dispatch\"?");
  // The right one is there, too.
  EXPECT_EQ(skip_of(row_with({{"dp_overlapp", "y"}})), "not skipped");
  for (const char* column : {"confidence", "framework", "params_B", "notes", "weather_outside"}) {
    EXPECT_EQ(skip_of(row_with({{column, "?"}})), "not skipped") << column;
  }
}

// Four stages of two chunks: of 24 layers three each; of 6 with the slots of embedding and head one
// each, none of them on the first and the last; 7 are too few, 8 one each.
TEST(SkippedRun, HasFewerLayersThanChunks) {
  const auto chunks = [](const std::string& layers) {
    return row_with({{"layers", layers}, {"vpp", "2"}, {"schedule", "interleaved"}});
  };
  EXPECT_THAT(run_of(chunks("6")).config.layers_per_stage,
              testing::ElementsAre(0, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_EQ(skip_of(chunks("7")), "fewer layers than stages");
  EXPECT_EQ(skip_of(chunks("5")), "fewer layers than stages");
  EXPECT_THAT(run_of(chunks("8")).config.layers_per_stage, IsEmpty());
  EXPECT_THAT(run_of(chunks("9")).config.layers_per_stage,
              testing::ElementsAre(2, 1, 1, 1, 1, 1, 1, 1));
}

TEST(MeasuredRun, RefusesLayersThatAreNoNumbers) {
  for (const char* text : {"7+", "+7", "7++7", "7+-1", "a", "7 + 7", "7,,7", "7, 7", ","}) {
    EXPECT_EQ(refusal(row_with({{"layers_per_stage", text}})),
              "runs.csv: line 2: layers_per_stage: expected numbers with + or a comma between "
              "them, got \"" +
                  std::string(text) + '"');
  }
  EXPECT_THAT(run_of(row_with({{"layers_per_stage", "4,7,7,6"}})).config.layers_per_stage,
              testing::ElementsAre(4, 7, 7, 6));
  EXPECT_THAT(run_of(row_with({{"layers_per_stage", "0+12+12+0"}})).config.layers_per_stage,
              testing::ElementsAre(0, 12, 12, 0));
}

TEST(SkippedRun, HasReplicasOfNoShards) {
  const std::string why = " does not divide dp, or nothing is sharded";
  EXPECT_EQ(skip_of(row_with({{"dp_replicate", "2"}})), "dp_replicate 2" + why);
  EXPECT_EQ(skip_of(row_with({{"dp_replicate", "3"}, {"zero", "1"}})), "dp_replicate 3" + why);
  EXPECT_EQ(run_of(row_with({{"dp_replicate", "4"}, {"zero", "1"}})).config.dp_replicate, 4);
  // Weights that are not sharded are not gathered, once or twice.
  EXPECT_TRUE(run_of(row_with({{"zero", "3"}, {"reshard_after_forward", "n"}}))
                  .config.reshard_after_forward);
}

// 512 sequences make no whole number of microbatches of 3 on 8 replicas: another check's matter.
TEST(MeasuredRun, ComparesMicrobatchesWhereTheyAreWhole) {
  EXPECT_EQ(skip_of(row_with({{"mbs", "3"}, {"n_microbatches", "5"}})), "not skipped");
  EXPECT_EQ(skip_of(row_with({{"mbs", "3"}, {"n_microbatches", "21.3"}})), "not skipped");
  EXPECT_EQ(skip_of(row_with({{"mbs", "8"}, {"n_microbatches", "4"}})),
            "gbs, dp and mbs make 8 microbatches, n_microbatches is 4");
}

TEST(SkippedRun, IsThereAsATableOfItsOwn) {
  const MeasuredRuns read = read_measured_runs(table_of(row_with({{"schedule", "gpipe"}})));
  ASSERT_THAT(read.skipped, SizeIs(1));
  ASSERT_NE(read.skipped[0].row, nullptr);
  EXPECT_EQ(read.skipped[0].row->num_rows(), 1U);
  EXPECT_EQ(read.skipped[0].row->text(0, "schedule"), "gpipe");
  EXPECT_EQ(read.skipped[0].row->text(0, "hidden"), "2304");
}

// Each column of a model with experts is tested by itself.
TEST(SkippedRun, ContradictsEachNumberOfItsModelsProfile) {
  for (const auto& [column, number] :
       std::vector<std::pair<std::string, std::string>>{{"layers", "61"},
                                                        {"hidden", "7168"},
                                                        {"heads", "128"},
                                                        {"kv_heads", "128"},
                                                        {"vocab", "129280"},
                                                        {"n_experts", "256"},
                                                        {"topk", "8"},
                                                        {"moe_ffn", "2048"}}) {
    EXPECT_EQ(skip_of(deepseek_row({{column, number}})), "not skipped") << column;
    EXPECT_EQ(skip_of(deepseek_row({{column, "64"}})),
              column + " is not that of the profile deepseek-v3");
  }
  EXPECT_TRUE(has_dropout(run_of(deepseek_row({{"dropout", "y"}})).model));
}

}  // namespace
}  // namespace ptdp
