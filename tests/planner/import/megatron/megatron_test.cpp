// Tests of reading runs of Megatron-LM. Expectations follow from its arguments.py, by hand.
#include "planner/import/megatron/megatron.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "planner/import/megatron/megatron_layers.h"
#include "planner/import/megatron/megatron_values.h"
#include "planner/import/reader.h"

namespace ptdp {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kPlain =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
    "--vocab-size 50257 --micro-batch-size 2 --global-batch-size 64 ";

ImportedRun run_of(const std::string& more, std::int64_t gpus = 32) {
  return read_run(kPlain + more, "launch.sh", gpus);
}

std::string refusal_of(const std::string& more, std::int64_t gpus = 32) {
  try {
    return to_string(run_of(more, gpus).config);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Megatron, ReadsFourBits) {
  EXPECT_EQ(run_of("--bf16 --fp4-format e2m1").precision, "nvfp4");
  EXPECT_EQ(run_of("--bf16 --fp4-format e2m1 --fp4-recipe nvfp4 --fp4-param-gather").precision,
            "nvfp4");
  EXPECT_THAT(refusal_of("--bf16 --fp4-format e2m1 --fp4-recipe custom"),
              HasSubstr("expected nvfp4, got \"custom\""));
}

TEST(Megatron, HasItsDefaults) {
  const ImportedRun run = run_of("");
  EXPECT_EQ(run.config, (ParallelConfig{.dp = 32, .micro_batch_size = 2}));
  EXPECT_EQ(run.global_batch_size, 64);
  EXPECT_EQ(run.precision, "fp32");
  EXPECT_THAT(run.reading.notes, Contains(HasSubstr("--precision tf32 costs that")));
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->ffn_hidden_size, 4096);
  EXPECT_EQ(run.model->num_query_groups, 16);
  EXPECT_EQ(run.model->kv_channels, 64);
  EXPECT_TRUE(run.model->add_bias_linear);
  EXPECT_FALSE(run.model->untied_embeddings);
  EXPECT_EQ(run.model->position_embedding, PositionEmbedding::kLearned);
  EXPECT_THAT(run.reading.unknown_flags, testing::IsEmpty());
}

TEST(Megatron, TellsPositionsByDistanceFromNone) {
  const ImportedRun run = run_of("--position-embedding-type alibi");
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->position_embedding, PositionEmbedding::kAlibi);
  EXPECT_THAT(run.reading.notes,
              Contains("alibi: what it adds to attention's scores is not costed"));
  EXPECT_EQ(run_of("--position-embedding-type none").model->position_embedding,
            PositionEmbedding::kNone);
}

TEST(Megatron, ReadsDegreesAndDerivesDp) {
  const ImportedRun run = run_of(
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --sequence-parallel "
      "--num-layers-per-virtual-pipeline-stage 3 --use-distributed-optimizer --bf16 "
      "--recompute-granularity full --recompute-method block --recompute-num-layers 1");
  EXPECT_EQ(run.config, (ParallelConfig{.tp = 2,
                                        .pp = 4,
                                        .dp = 4,
                                        .vpp = 2,
                                        .micro_batch_size = 2,
                                        .schedule = ScheduleKind::kInterleaved,
                                        .recompute = Recompute::kFull,
                                        .recompute_num_layers = 1,
                                        .sequence_parallel = true,
                                        .zero_stage = 1}));
  EXPECT_THAT(run.reading.notes, Contains("dp 4: 32 GPUs over tp*pp*cp, 8"));
}

TEST(Megatron, KnowsWhatMeansNothing) {
  EXPECT_FALSE(run_of("--sequence-parallel").config.sequence_parallel);
  EXPECT_EQ(run_of("--num-query-groups 4").model->num_query_groups, 16);
  EXPECT_EQ(run_of("--num-query-groups 4 --group-query-attention").model->num_query_groups, 4);
  EXPECT_EQ(run_of("--expert-model-parallel-size 4").config.ep, 1);
}

TEST(Megatron, SplitsExpertsAsTensorsUnlessTold) {
  const std::string experts =
      "--num-experts 8 --tensor-model-parallel-size 4 --expert-model-parallel-size 2 ";
  EXPECT_EQ(run_of(experts).config.etp, 4);
  EXPECT_EQ(run_of(experts + "--expert-tensor-parallel-size 1").config.etp, 1);
  EXPECT_EQ(run_of(experts).stack.dispatch, ExpertDispatch::kAllGather);
  const ImportedRun dense_first = run_of(experts + "--moe-layer-freq '([0]*3+[1]*21)'");
  EXPECT_EQ(dense_first.model->first_dense_layers, 3);
  EXPECT_EQ(dense_first.model->moe_layer_freq, 1);
  EXPECT_EQ(run_of(experts + "--moe-layer-freq '([0,1]*12)'").model->moe_layer_freq, 2);
}

TEST(Megatron, ListsFlagsThatItDoesNotKnow) {
  const ImportedRun run =
      run_of("--lr 1e-4 --save x --my-own-flag 3 --no-rope-fusion --deterministic-mode");
  EXPECT_THAT(run.reading.unknown_flags, ElementsAre("--my-own-flag"));
  EXPECT_THAT(run.reading.notes,
              Contains(AllOf(HasSubstr("--no-rope-fusion"), HasSubstr("--deterministic-mode"))));
}

TEST(Megatron, AsksForWhatTheFileDoesNotSay) {
  const ImportedRun run = read_run(
      "--num-layers 2 --hidden-size 64 --micro-batch-size 1 --tokenizer-model x", "a.sh", 8);
  EXPECT_FALSE(run.model);
  EXPECT_EQ(run.missing, "--num-attention-heads, --seq-length, --vocab-size");
}

TEST(Megatron, RefusesWhatCannotBe) {
  struct Row {
    const char* arguments;
    const char* message;
  };
  for (const Row& row :
       {Row{"--tensor-model-parallel-size 5", "launch.sh: 32 GPUs are no multiple"},
        Row{"--tensor-model-parallel-size x", "--tensor-model-parallel-size: expected a whole"},
        Row{"--tensor-model-parallel-size $TP", "TP is not set in the script"},
        Row{"--context-parallel-size $(cat x)", "needs the output of $(cat x)"},
        Row{"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et|tL'",
            "--pipeline-model-parallel-layout: expected a layout"},
        Row{"--recompute-granularity some", "expected selective or full"},
        Row{"--bf16 --fp8-format hybrid --fp8-recipe custom", "--fp8-recipe: expected delayed"}}) {
    EXPECT_THAT(refusal_of(row.arguments), HasSubstr(row.message)) << row.arguments;
  }
  EXPECT_THAT(refusal_of("", 0), HasSubstr("expected --gpus too"));
}

// Source: Megatron-LM, pipeline_parallel_layer_layout.py; 32 layers.
TEST(MegatronLayout, IsWrittenOut) {
  EXPECT_THAT(*layers_of_layout("Et*7|(t*9|)*2t*7L"), ElementsAre(7, 9, 9, 7));
  EXPECT_THAT(*layers_of_layout("E|tt|t m*1L"), ElementsAre(0, 2, 1));
  EXPECT_FALSE(layers_of_layout("E(t"));
  EXPECT_FALSE(layers_of_layout("Ex"));
  EXPECT_FALSE(layers_of_layout("t*99999999"));
}

TEST(Megatron, RefusesModelsThatAreNoDecoderOfAttention) {
  const std::string expected = "expected a decoder whose layers are attention and MLP, got ";
  EXPECT_EQ(refusal_of("--hybrid-layer-pattern M-M*-"),
            "launch.sh: --hybrid-layer-pattern: " + expected +
                "layers of state spaces among those of attention");
  EXPECT_EQ(refusal_of("--decoder-seq-length 128"),
            "launch.sh: --decoder-seq-length: " + expected + "an encoder beside the decoder");
  try {
    static_cast<void>(
        read_run(std::string("torchrun examples/pretrain_bert.py ") + kPlain, "launch.sh", 8));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "launch.sh: pretrain_bert.py: " + expected + "BERT");
  }
  // An older log lists this of every model.
  EXPECT_THAT(refusal_of("--hybrid-attention-ratio 0.0"), HasSubstr("tp=1"));
}

TEST(Megatron, TakesTheVocabularyOfATokenizerFromTheCaller) {
  const std::string text =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--micro-batch-size 1 --tokenizer-type HuggingFaceTokenizer";
  EXPECT_EQ(read_run(text, "launch.sh", 1).missing, "--vocab-size");
  EXPECT_EQ(read_run(text, "launch.sh", 1, {}, 1000).model->vocab_size, 1000);
  EXPECT_EQ(read_run(text + " --vocab-size 500", "launch.sh", 1, {}, 500).model->vocab_size, 500);
  EXPECT_THROW(static_cast<void>(read_run(text + " --vocab-size 500", "launch.sh", 1, {}, 1000)),
               Error);
}

// Files of a model's settings that another script sources.
TEST(Megatron, ReadsArgumentsThatOnlyVariablesHold) {
  const ImportedRun run = read_run(
      "MODEL_ARGS=\" --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \"\n"
      "TRAINING=(--seq-length 2048 --micro-batch-size 2 --vocab-size 50257)\n"
      "OTHER=\"--no\"\nDIRECTORY=/data\n",
      "model.sh", 4);
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->num_layers, 24);
  EXPECT_EQ(run.config.micro_batch_size, 2);
  EXPECT_THAT(run.reading.notes,
              Contains("nothing is started here; read are the arguments in MODEL_ARGS, TRAINING"));
}

// The list that Megatron-LM prints is its own, whoever else knows some of the names.
TEST(Megatron, ReadsALogThroughTheTableOfReaders) {
  const ImportedRun run = read_run(
      "using world size: 8\n"
      "  bf16 ............................................ True\n"
      "  ffn_hidden_size ................................. 256\n"
      "  fp8 ............................................. hybrid\n"
      "  fp8_recipe ...................................... tensorwise\n"
      "  global_batch_size ............................... 16\n"
      "  hidden_size ..................................... 64\n"
      "  micro_batch_size ................................ 1\n"
      "  moe_layer_freq .................................. [0, 1, 1]\n"
      "  num_attention_heads ............................. 4\n"
      "  num_experts ..................................... 4\n"
      "  num_layers ...................................... 3\n"
      "  optimizer ....................................... sgd\n"
      "  seq_length ...................................... 32\n"
      "  tensor_model_parallel_size ...................... 2\n"
      "  use_distributed_optimizer ....................... True\n"
      "  vocab_size ...................................... 1000\n"
      "  world_size ...................................... 8\n",
      "train.log", {});
  EXPECT_EQ(run.framework, "Megatron-LM");
  EXPECT_EQ(run.precision, "fp8-current");
  EXPECT_EQ(run.config.zero_stage, 1);
  EXPECT_EQ(run.config.tp, 2);
  EXPECT_EQ(run.config.dp, 4);
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->first_dense_layers, 1);
  EXPECT_EQ(run.model->moe_layer_freq, 1);
  EXPECT_THAT(run.reading.notes, Contains("optimizer sgd: costed as Adam, with its two moments"));
}

TEST(Megatron, RefusesNumbersThatNoClusterHas) {
  EXPECT_THAT(refusal_of("--pipeline-model-parallel-size 100000000 "
                         "--num-virtual-stages-per-pipeline-rank 100"),
              HasSubstr("expected at most 100000 stages, got 10000000000"));
  EXPECT_THAT(refusal_of("", 4'294'967'304), HasSubstr("expected at most 2147483647 GPUs"));
}

TEST(MegatronSplit, GivesFirstAndLastTheirLayers) {
  const FlagList flags(
      {"--decoder-first-pipeline-num-layers", "4", "--decoder-last-pipeline-num-layers", "6"}, "x");
  EXPECT_THAT(megatron_split(flags, 24, 4).layers_per_stage, ElementsAre(4, 7, 7, 6));
  const FlagList counted(std::vector<std::string>{"--account-for-embedding-in-pipeline-split",
                                                  "--account-for-loss-in-pipeline-split"},
                         "x");
  EXPECT_THAT(megatron_split(counted, 22, 4).layers_per_stage, ElementsAre(5, 6, 6, 5));
}

TEST(PythonNumbers, AreSumsAndProductsOfLists) {
  EXPECT_THAT(*python_numbers("([0]*2+[1]*1)"), ElementsAre(0, 0, 1));
  EXPECT_THAT(*python_numbers("[1, 0]*2"), ElementsAre(1, 0, 1, 0));
  EXPECT_FALSE(python_numbers("3"));
  EXPECT_FALSE(python_numbers("[1"));
  EXPECT_FALSE(python_numbers("([1]*100000)*100000"));
}

}  // namespace
}  // namespace ptdp
