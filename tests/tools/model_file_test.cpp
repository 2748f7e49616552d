// Tests with models in the form in which users have them.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// The sizes of Llama 3 8B; 8,030,261,248 parameters are those of the released weights.
constexpr const char* kLlama = R"({
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "hidden_size": 4096,
  "intermediate_size": 14336,
  "max_position_embeddings": 131072,
  "num_attention_heads": 32,
  "num_hidden_layers": 32,
  "num_key_value_heads": 8,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "vocab_size": 128256
})";

ProgramRun plan_for(const std::string& text, std::vector<std::string> flags = {}) {
  const TemporaryDirectory directory;
  const auto file = directory.file("Llama-3-8B/config.json", text);
  if (std::find(flags.begin(), flags.end(), "--format") == flags.end()) {
    flags.emplace_back("-v");
  }
  flags.insert(flags.end(),
               {"--gpus", "64", "--cluster", "dgx-h100", "--model", file.parent_path().string()});
  return run_plan(flags);
}

TEST(HuggingFaceModel, IsPlannedUnderTheNameOfItsFolder) {
  const ProgramRun run = plan_for(kLlama);
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr("Llama-3-8B"));
  EXPECT_THAT(run.output, HasSubstr("sequence length 8192: usual; its config.json has 131072 as "
                                    "the longest"));
  EXPECT_THAT(run.output, HasSubstr("global batch size 512: 4194304 tokens"));
  const ProgramRun as_json = plan_for(kLlama, {"--format", "json"});
  ASSERT_TRUE(succeeds(as_json));
  const json inputs = json::parse(as_json.output)["inputs"];
  EXPECT_EQ(inputs["model"]["parameters"], 8'030'261'248);
  EXPECT_EQ(inputs["global_batch_size"], 512);
}

// The batch that is assumed is of so many tokens, however long the sequences.
TEST(HuggingFaceModel, IsTrainedAtTheLengthAndBatchThatAreGiven) {
  const ProgramRun run = plan_for(kLlama, {"--seq-length", "32768"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr("global batch size 128: 4194304 tokens"));
  EXPECT_THAT(run.output, Not(HasSubstr("sequence length")));
  const ProgramRun given = plan_for(kLlama, {"--global-batch-size", "256"});
  ASSERT_TRUE(succeeds(given));
  EXPECT_THAT(given.output, Not(HasSubstr("4194304 tokens")));
}

TEST(HuggingFaceModel, IsFoundByTheNameOfAFolderHere) {
  const TemporaryDirectory directory;
  (void)directory.file("Llama-3-8Bee/config.json", kLlama);
  (void)directory.file("GPT-Tiny/config.json", kLlama);
  (void)directory.file("Llama-3-8Bees/weights", "");
  const auto plan = [&](const char* model) {
    return run_plan({"-v", "--gpus", "64", "--cluster", "dgx-h100", "--model", model},
                    {.directory = directory.path()});
  };
  const ProgramRun here = plan("Llama-3-8Bee");
  ASSERT_TRUE(succeeds(here));
  EXPECT_THAT(here.output, HasSubstr("Train Llama-3-8Bee on 64 GPUs"));
  EXPECT_THAT(here.output, Not(HasSubstr("the shipped one")));
  const ProgramRun both = plan("GPT-Tiny");
  ASSERT_TRUE(succeeds(both));
  EXPECT_THAT(both.output, HasSubstr("Train gpt-tiny on 64 GPUs"));
  EXPECT_THAT(both.output, HasSubstr("model GPT-Tiny: the shipped one; --model ./GPT-Tiny takes "
                                     "the folder of this name"));
  EXPECT_TRUE(is_refused(plan("Llama-3-8Bees"), {"unknown model", "Llama-3-8Bees"}));
}

TEST(HuggingFaceModel, IsRefusedByTheNameOfWhatIsUnknown) {
  EXPECT_TRUE(is_refused(plan_for(replaced(kLlama, "\"llama\"", "\"mamba\"")),
                         {"config.json: model_type", "mamba"}));
  EXPECT_TRUE(is_refused(plan_for(replaced(kLlama, "vocab_size\"", "vocab_size\": 5, \"rms_eps\"")),
                         {"config.json: \"rms_eps\": unknown key"}));
  EXPECT_TRUE(is_refused(plan_for(replaced(kLlama, "\"llama\"", "\"qwen3_next\"")),
                         {"has gated delta net layers", "describe it as ptdp.model/1"}));
}

TEST(HuggingFaceModel, IsWarnedOfKeysThatNobodyKnowsOnce) {
  const std::string text = replaced(kLlama, "\"torch_dtype\"", "\"novel\": 5, \"torch_dtype\"");
  const ProgramRun run = plan_for(text);
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.errors, testing::MatchesRegex("ptdp-plan: warning: [^\n]*config.json: "
                                                "\"novel\": unknown key, ignored\n"));
  EXPECT_THAT(run.output, HasSubstr("Llama-3-8B"));
}

TEST(HuggingFaceModel, SaysThatItsTextPartWasRead) {
  const ProgramRun run = plan_for(R"({"model_type": "gemma3", "vision_config": {}, "text_config":
      {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
       "sliding_window": 1024}})");
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.output, HasSubstr("model: the part of its config.json that reads text"));
}

constexpr const char* kMixtral = R"({"model_type": "mixtral", "num_hidden_layers": 4,
    "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 512,
    "num_key_value_heads": 4, "max_position_embeddings": 2048, "num_local_experts": 8,
    "num_experts_per_tok": 2})";

TEST(HuggingFaceModel, WithExpertsNeedsAStackThatRunsThem) {
  const ProgramRun run = plan_for(kMixtral, {"--stack", "megatron-core-2024", "--ep", "4"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr(" ep=4 "));
  EXPECT_THAT(run.output, HasSubstr("expert_parallel"));
  const ProgramRun refused = plan_for(kMixtral, {"--stack", "megatron-lm-2021"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.errors, HasSubstr("no sequence parallelism, no experts"));
}

TEST(HuggingFaceModel, SaysWhichSizesItsExpertsCanHave) {
  const ProgramRun range = plan_for(kMixtral, {"--stack", "megatron-core-2024", "--ep", "16:32"});
  EXPECT_EQ(range.status, 3);
  EXPECT_THAT(range.errors, HasSubstr("ep can be 1, 2, 4, 8"));
  const ProgramRun dense = plan_for(kLlama, {"--etp", "2:4"});
  EXPECT_EQ(dense.status, 3);
  EXPECT_THAT(dense.errors, HasSubstr("the model has no experts"));
}

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2,
    "n_positions": 16, "vocab_size": 64})";

/// Returns a plan for one core of GPT-2 with one more key.
std::string plan_of_gpt2(const std::string& key) {
  const TemporaryDirectory directory;
  const std::string file =
      directory.file("gpt2.json", replaced(kGpt2, "64}", key.empty() ? "64}" : "64, " + key + "}"))
          .string();
  const std::string plan = (directory.path() / "plan.json").string();
  EXPECT_TRUE(succeeds(run_plan({"--gpus", "1", "--cluster", "host", "--model", file,
                                 "--global-batch-size", "2", "-o", plan})))
      << key;
  return content_of(plan);
}

ProgramRun trained(const std::string& plan, std::vector<std::string> flags = {}) {
  const TemporaryDirectory directory;
  flags.insert(flags.end(), {directory.file("plan.json", plan).string(), "--steps", "1", "--quiet",
                             "--dtype", "f64", "--format", "json"});
  return run_run(flags);
}

double loss_of(const std::string& plan, const std::vector<std::string>& flags = {}) {
  const ProgramRun run = trained(plan, flags);
  EXPECT_TRUE(succeeds(run));
  return json::parse(run.output)["losses"][0];
}

// Every key of GPT2Config that training depends on changes what is trained.
TEST(HuggingFaceModel, IsTrainedAsItsFileSays) {
  const std::string usual = plan_of_gpt2("");
  const double loss = loss_of(usual);
  for (const char* key :
       {R"("layer_norm_epsilon": 0.5)", R"("initializer_range": 0.1)", R"("attn_pdrop": 0.5)",
        R"("embd_pdrop": 0.5)", R"("resid_pdrop": 0.0)", R"("tie_word_embeddings": false)",
        R"("n_inner": 64)", R"("activation_function": "relu")", R"("activation_function": "gelu")",
        R"("scale_attn_weights": false)", R"("scale_attn_by_inverse_layer_idx": true)"}) {
    EXPECT_NE(loss_of(plan_of_gpt2(key)), loss) << key;
  }
  for (const char* key :
       {R"("activation_function": "gelu_new")", R"("layer_norm_epsilon": 1e-05)",
        R"("reorder_and_upcast_attn": true)", R"("use_cache": false)", R"("attn_pdrop": 0.1)"}) {
    EXPECT_EQ(plan_of_gpt2(key), usual) << key;
  }
}

TEST(HuggingFaceModel, DropsAtTheRateOfTheFlagInPlaceOfItsOwn) {
  const std::string unequal = plan_of_gpt2(R"("attn_pdrop": 0.3)");
  const json run = json::parse(trained(unequal).output)["execution"];
  EXPECT_EQ(run["dropout"], 0.1);
  EXPECT_EQ(run["attention_dropout"], 0.3);
  EXPECT_FALSE(run.contains("embedding_dropout"));
  const json given = json::parse(trained(unequal, {"--dropout", "0.2"}).output)["execution"];
  EXPECT_EQ(given["dropout"], 0.2);
  EXPECT_FALSE(given.contains("attention_dropout"));
  EXPECT_EQ(loss_of(unequal, {"--dropout", "0"}), loss_of(plan_of_gpt2(""), {"--dropout", "0"}));
}

}  // namespace
}  // namespace ptdp
