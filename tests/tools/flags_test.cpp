// Tests of flags and words that no command takes, and of values that no flag takes.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

/// Runs `ptdp-plan --gpus 8 --model gpt-tiny` with more flags.
ProgramRun run_tiny(const std::vector<std::string>& more) {
  return run_plan_with({.flags = more});
}

TEST(Flag, ThatIsUnknownIsRefusedWithANearMiss) {
  struct Row {
    const char* flag;
    const char* meant;
  };
  for (const Row& row :
       {Row{"--gpu", "--gpus"}, Row{"--modle", "--model"}, Row{"--clutser", "--cluster"},
        Row{"--stck", "--stack"}, Row{"--global-batch-sise", "--global-batch-size"},
        Row{"--tensor-model-paralel-size", "--tensor-model-parallel-size"},
        Row{"--formta", "--format"}, Row{"--outptu", "--output"}, Row{"--GPUS", "--gpus"}}) {
    const std::string meant = '"' + std::string(row.meant) + '"';
    EXPECT_TRUE(is_refused(run_plan({row.flag, "8"}), {row.flag, meant})) << row.flag;
  }
  EXPECT_TRUE(is_refused(run_validate({"--run", "x.csv"}), {"--run", "\"--runs\""}));
  EXPECT_TRUE(is_refused(run_validate({"--max-errors", "5"}), {"--max-errors", "\"--max-error\""}));
}

// What Megatron-LM, Megatron-Bridge, DeepSpeed, torchtitan and vLLM call it.
TEST(Flag, GoesByTheNamesOfOtherPrograms) {
  const auto plan = [](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"--model",     "gpt-tiny", "--cluster",
                                          "selene-a100", "--format", "json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ProgramRun run = run_plan(arguments);
    EXPECT_TRUE(succeeds(run));
    return run.output;
  };
  const std::string ours = plan({"--gpus",
                                 "4",
                                 "--global-batch-size",
                                 "32",
                                 "--micro-batch-size",
                                 "2",
                                 "--tp",
                                 "2",
                                 "--pp",
                                 "1:2",
                                 "--vpp",
                                 "1",
                                 "--cp",
                                 "1",
                                 "--seq-length",
                                 "64",
                                 "--zero-stage",
                                 "0",
                                 "--precision",
                                 "bf16",
                                 "--recompute",
                                 "none"});
  EXPECT_EQ(ours, plan({"--world-size=4",
                        "--gbs",
                        "32",
                        "--mbs",
                        "2",
                        "--tensor-model-parallel-size",
                        "2",
                        "--pipeline-model-parallel-size",
                        "1:2",
                        "--virtual-pipeline-model-parallel-size",
                        "1",
                        "--context-parallel-size",
                        "1",
                        "--seq-len",
                        "64",
                        "--zero",
                        "0",
                        "--dtype",
                        "bf16",
                        "--recompute-granularity",
                        "none"}));
  EXPECT_EQ(ours, plan({"--world_size",
                        "4",
                        "--train_batch_size",
                        "32",
                        "--train_micro_batch_size_per_gpu",
                        "2",
                        "--parallelism.tensor_parallel_degree",
                        "2",
                        "--parallelism.pipeline_parallel_degree=1:2",
                        "--vpp",
                        "1",
                        "--parallelism.context_parallel_degree",
                        "1",
                        "--training.seq_len",
                        "64",
                        "--zero_stage",
                        "0",
                        "--precision",
                        "bf16",
                        "--recompute",
                        "none"}));
}

TEST(Flag, GivenByTwoNamesIsRefusedNamingBoth) {
  EXPECT_TRUE(is_refused(run_tiny({"--mbs", "1", "--micro-batch-size", "1"}),
                         {"--mbs and --micro-batch-size", "got both"}));
  EXPECT_TRUE(is_refused(run_tiny({"--tp", "1", "--tensor-model-parallel-size=1"}),
                         {"--tp and --tensor-model-parallel-size", "one flag, --tp"}));
  EXPECT_TRUE(is_refused(run_tiny({"--mbs", "1", "--mbs", "1"}), {"--micro-batch-size"}));
}

// DeepSpeed's --num_gpus are those of a node, torchtitan's local batch is that of a replica.
TEST(Flag, OfAnotherProgramThatMeansSomethingElseIsRefusedWithOurs) {
  struct Row {
    const char* flag;
    const char* meant;
  };
  for (const Row& row :
       {Row{"--num-gpus", "--gpus"}, Row{"--num_gpus", "--gpus"}, Row{"--nproc_per_node", "--gpus"},
        Row{"--batch-size", "--global-batch-size"},
        Row{"--training.local_batch_size", "--micro-batch-size"}, Row{"--fsdp", "--zero-stage"},
        Row{"--bf16", "--precision"}}) {
    EXPECT_TRUE(is_refused(run_plan({row.flag, "8"}),
                           {row.flag, "did you mean \"" + std::string(row.meant) + "\""}))
        << row.flag;
  }
}

TEST(Flag, ThatIsLikeNoneIsRefusedWithoutASuggestion) {
  for (const char* flag : {"--zzzzzzzzzz", "-x", "---", "-"}) {
    const ProgramRun run = run_tiny({flag});
    EXPECT_TRUE(is_refused(run, {flag})) << flag;
    EXPECT_EQ(run.errors.find("did you mean"), std::string::npos) << run.errors;
  }
}

// An abbreviation would change its meaning with the next flag that begins alike.
TEST(Flag, IsNotAbbreviated) {
  for (const char* flag : {"--mod", "--recomp", "--mem"}) {
    EXPECT_TRUE(is_refused(run_tiny({flag, "1"}), {flag})) << flag;
  }
}

TEST(LayersFlag, ThatContradictsAnotherIsRefused) {
  struct Row {
    std::vector<std::string> flags;
    const char* message;
  };
  for (const Row& row :
       {Row{{"--recompute-modules", "mlp", "--recompute", "none,full"}, "expected selective among"},
        Row{{"--recompute-num-layers", "2", "--recompute", "selective"}, "expected full among"},
        Row{{"--recompute-method", "block"}, "expected --recompute-num-layers too"},
        Row{{"--offload-num-layers", "2", "--offload", "optimizer"}, "expected activations among"},
        Row{{"--recompute-modules", "mlp,atn"}, "one of core_attn, moe_act"},
        Row{{"--recompute-modules", "core_attn,op"}, "expected op alone"},
        Row{{"--recompute-num-layers", "0"}, "from 1"}}) {
    EXPECT_TRUE(is_refused(run_tiny(row.flags), {row.flags.front(), row.message}))
        << row.flags.front();
  }
}

TEST(Flag, GivenTwiceIsRefusedNamingIt) {
  struct Row {
    const char* flag;
    const char* value;
  };
  for (const Row& row : {Row{"--gpus", "8"}, Row{"--model", "gpt-tiny"}, Row{"--tp", "2"},
                         Row{"--format", "json"}, Row{"--threads", "2"}, Row{"--top", "1"}}) {
    const std::vector<std::string> flags = {row.flag, row.value, row.flag, row.value};
    EXPECT_TRUE(is_refused(run_tiny(flags), {row.flag})) << row.flag;
  }
  EXPECT_TRUE(is_refused(run_validate({"--format", "json", "--format", "json"}), {"--format"}));
}

TEST(Flag, WithoutItsValueIsRefusedNamingIt) {
  for (const char* flag : {"--tp", "--output", "--explain", "--format"}) {
    EXPECT_TRUE(is_refused(run_tiny({flag}), {flag})) << flag;
  }
}

TEST(Flag, ThatIsRequiredAndMissingIsRefusedNamingIt) {
  EXPECT_TRUE(is_refused(run_plan({}), {"--gpus"}));
  EXPECT_TRUE(is_refused(run_plan({"--model", "1T"}), {"--gpus"}));
  EXPECT_TRUE(is_refused(run_plan({"--gpus", "8"}), {"--model"}));
}

TEST(Flag, ThatExcludesAnotherIsRefusedNamingBoth) {
  EXPECT_TRUE(is_refused(run_tiny({"--global-batch-size", "16", "--batch-per-gpu", "2"}),
                         {"--global-batch-size", "--batch-per-gpu"}));
}

TEST(BatchFlag, BesideAnotherIsRefusedNamingBoth) {
  EXPECT_TRUE(is_refused(run_tiny({"--global-batch-tokens", "4k", "--batch-per-gpu", "2"}),
                         {"--batch-per-gpu and --global-batch-tokens"}));
  EXPECT_TRUE(is_refused(run_tiny({"--gbs", "16", "--global-batch-tokens", "4k"}),
                         {"--global-batch-size and --global-batch-tokens"}));
  EXPECT_TRUE(is_refused(run_tiny({"--nodes", "2"}), {"--gpus and --nodes"}));
}

TEST(Flag, ThatACommandDoesNotUseIsRefused) {
  for (const char* flag : {"--gpus", "--tp", "--objective", "--output", "--explain"}) {
    EXPECT_TRUE(is_refused(run_plan({"list", "models", flag, "8"}), {flag, "list"})) << flag;
    if (flag != std::string_view("--output")) {
      EXPECT_TRUE(is_refused(run_plan({"show", "plan.json", flag, "8"}), {flag, "show"})) << flag;
    }
    EXPECT_TRUE(is_refused(run_plan({"compare", "a.json", "b.json", flag, "8"}), {flag, "compare"}))
        << flag;
  }
  for (const char* flag : {"--top", "--tokens", "--output"}) {
    EXPECT_TRUE(is_refused(run_tiny({"--explain", "tp=2", flag, "8"}), {flag, "--explain"}))
        << flag;
    EXPECT_TRUE(
        is_refused(run_tiny({"--compare-strategies", flag, "8"}), {flag, "--compare-strategies"}))
        << flag;
  }
  EXPECT_TRUE(is_refused(run_tiny({"--compare-strategies", "--explain", "tp=2"}),
                         {"--compare-strategies", "--explain"}));
}

TEST(Flag, ThatAsksForEverythingIsRefusedBesideATableOfPlans) {
  EXPECT_TRUE(is_refused(run_tiny({"-v", "--format", "csv"}), {"--verbose", "csv"}));
  EXPECT_TRUE(succeeds(run_tiny({"-v", "--format", "json"})));
}

TEST(Flag, ThatNamesAChoiceTwiceCountsItOnce) {
  EXPECT_EQ(run_tiny({"--recompute", "none,none", "--format", "json"}).output,
            run_tiny({"--recompute", "none", "--format", "json"}).output);
}

TEST(Output, ToStandardOutputIsRefusedNamingTheFormat) {
  EXPECT_TRUE(is_refused(run_tiny({"-o", "-"}), {"--output", "--format json"}));
}

// It is a pipe here: the answer would be mixed with a plan.
TEST(Output, ToTheFileOfStandardOutputIsRefusedWithTheCause) {
  const ProgramRun run = run_tiny({"-o", "/dev/stdout"});
  EXPECT_TRUE(ends_with(run, kOutputFailed));
  EXPECT_NE(run.errors.find("\"/dev/stdout\" is standard output"), std::string::npos) << run.errors;
}

TEST(Flag, ThatNeedsAnotherIsRefusedNamingBoth) {
  EXPECT_TRUE(is_refused(run_tiny({"--price", "2"}), {"--price", "--tokens"}));
}

TEST(Word, ThatIsNoCommandIsRefusedShowingIt) {
  EXPECT_TRUE(is_refused(run_plan({"shwo", "plan.json"}), {"shwo"}));
  EXPECT_TRUE(is_refused(run_plan({"list", "modles"}), {"modles", "models"}));
  EXPECT_TRUE(is_refused(run_plan({"list"}), {"list", "models"}));
  EXPECT_TRUE(is_refused(run_plan({"list", "models", "extra"}), {"extra"}));
  EXPECT_TRUE(is_refused(run_plan({"show"}), {"show"}));
  EXPECT_TRUE(is_refused(run_plan({"show", "a.json", "b.json"}), {"b.json"}));
  EXPECT_TRUE(is_refused(run_plan({"compare", "a.json"}), {"compare", "two plans", "1"}));
  EXPECT_TRUE(is_refused(run_plan({"compare", "a.json", "b.json", "c.json"}), {"two plans", "3"}));
  EXPECT_TRUE(is_refused(run_tiny({"extra"}), {"extra"}));
  EXPECT_TRUE(is_refused(run_validate({"runs.csv"}), {"runs.csv"}));
}

TEST(CountFlag, ThatIsNoPositiveWholeNumberIsRefusedShowingIt) {
  for (const char* flag : {"--tp", "--pp", "--dp", "--vpp", "--micro-batch-size", "--top",
                           "--threads", "--global-batch-size", "--batch-per-gpu", "--seq-length"}) {
    for (const char* value : {"0", "-1", "1.5", "abc", "", " 8", "+8", "1e3", "nan", "4294967297",
                              "9223372036854775808", "18446744073709551617"}) {
      ASSERT_TRUE(is_refused(run_tiny({flag, value}), {flag, value})) << flag << " " << value;
    }
  }
}

TEST(NumberOfGpus, ThatIsNoPositiveWholeNumberIsRefusedShowingIt) {
  for (const char* value : {"0", "-1", "1.5", "abc", "", " 8", "8 ", "+8", "1e3", "nan", "inf",
                            "4294967297", "9223372036854775808", "18446744073709551617"}) {
    EXPECT_TRUE(is_refused(run_plan_with({.gpus = value}), {"--gpus", value})) << value;
  }
}

TEST(RangeFlag, ThatIsNoRangeIsRefusedShowingIt) {
  for (const char* flag : {"--tp", "--pp", "--dp", "--vpp", "--micro-batch-size", "--zero-stage"}) {
    for (const char* value : {"8:4", ":4", "4:", ":", ",", "2,,4", "1:2:3", "2-4", "2;4"}) {
      EXPECT_TRUE(is_refused(run_tiny({flag, value}), {flag})) << flag << " " << value;
    }
  }
}

TEST(ChoiceFlag, ThatIsUnknownIsRefusedWithTheKnownOnes) {
  struct Row {
    const char* flag;
    const char* value;
    const char* known;
  };
  for (const Row& row :
       {Row{"--format", "yaml", "json"}, Row{"--format", "", "json"},
        Row{"--objective", "tme", "did you mean \"time\""}, Row{"--schedule", "pipe", "gpipe"},
        Row{"--schedule", "1f1b,", "interleaved"}, Row{"--recompute", "ful", "\"full\""},
        Row{"--sequence-parallel", "yes", "on"}, Row{"--zero-stage", "4", "3"},
        Row{"--dp-replicate", "0", "from 1"}, Row{"--reshard-after-forward", "never", "off, on"}}) {
    EXPECT_TRUE(is_refused(run_tiny({row.flag, row.value}), {row.flag, row.known})) << row.flag;
  }
}

// What is gathered beside compute is what was reduced beside it.
TEST(OverlapFlag, OfGathersWithoutReductionsIsRefused) {
  for (const char* value : {"gathers", "messages,gathers", "gathers,tensor"}) {
    EXPECT_TRUE(is_refused(run_tiny({"--overlap", value}),
                           {"--overlap", "expected reductions,gathers", value}))
        << value;
  }
  EXPECT_TRUE(ends_with(run_tiny({"--overlap", "gathers,reductions"}), kDone));
}

TEST(OverlapFlag, OfAllOrNoneIsRefusedBesideOthers) {
  for (const char* value : {"all,messages", "reductions,none", "none,all"}) {
    EXPECT_TRUE(is_refused(run_tiny({"--overlap", value}), {"--overlap", "alone", value})) << value;
  }
}

TEST(CalibrationFlag, OfPtdpValidateIsRefusedWithTheKnownOnes) {
  EXPECT_TRUE(is_refused(run_validate({"--calibration", "leave-one"}),
                         {"--calibration", "did you mean \"leave-one-out\""}));
}

TEST(MarkdownFormat, RefusesFlagsThatChooseWhatItShows) {
  EXPECT_TRUE(is_refused(run_validate({"--format", "markdown", "--calibration", "none"}),
                         {"--calibration", "markdown"}));
  EXPECT_TRUE(
      is_refused(run_validate({"--format", "markdown", "--ranking"}), {"--ranking", "markdown"}));
}

TEST(GroupFlag, ThatNamesNoGroupIsRefusedWithANearMiss) {
  EXPECT_TRUE(is_refused(run_validate({"--group", "sc21-tl"}), {"sc21-tl", "\"sc21-t1\""}));
  EXPECT_TRUE(is_refused(run_validate({"--group", "sc21-t1", "--group", ""}), {"--group"}));
}

TEST(FractionFlag, OutsideOfZeroToOneIsRefusedShowingIt) {
  for (const char* value : {"1", "-0.1", "100%", "-1%", "nan", "inf", "1e400", "abc", "%", "",
                            "8%%", "0,08", "5e-400"}) {
    EXPECT_TRUE(is_refused(run_tiny({"--memory-headroom", value}), {"--memory-headroom", value}))
        << value;
  }
}

TEST(TokensFlag, ThatIsNoAmountIsRefusedShowingIt) {
  for (const char* value : {"0", "-1", "nan", "inf", "1e400", "B", "", "300GB", "300g", "1e30",
                            "3 00B", "0B", "-0.0", "0.5", "15tt", "t"}) {
    EXPECT_TRUE(is_refused(run_tiny({"--tokens", value}), {"--tokens", value})) << value;
  }
}

TEST(PriceFlag, ThatIsNoAmountIsRefusedShowingIt) {
  for (const char* value : {"-1", "nan", "inf", "1e400", "2.5$", "", "2,5"}) {
    EXPECT_TRUE(is_refused(run_tiny({"--tokens", "1B", "--price", value}), {"--price", value}))
        << value;
  }
}

TEST(ToleranceFlag, ThatIsNoPercentageIsRefusedShowingIt) {
  for (const char* flag : {"--max-mape", "--max-error"}) {
    for (const char* value : {"-1", "nan", "inf", "1e400", "abc", "", "5%"}) {
      ASSERT_TRUE(is_refused(run_validate({flag, value}), {flag, value})) << flag << " " << value;
    }
  }
}

TEST(Name, ThatIsUnknownIsRefusedWithANearMiss) {
  struct Row {
    const char* flag;
    const char* name;
    const char* meant;
  };
  for (const Row& row :
       {Row{"--model", "gpt3-175", "gpt3-175b"}, Row{"--model", "GPT-TINNY", "gpt-tiny"},
        Row{"--model", "2T", "1T"}, Row{"--cluster", "selene", "selene-a100"},
        Row{"--cluster", "dgx-h10", "dgx-h100"},
        Row{"--stack", "megatron-2022", "megatron-lm-2022"}}) {
    std::vector<std::string> arguments = {"--gpus", "8", row.flag, row.name};
    if (std::string(row.flag) != "--model") {
      arguments.insert(arguments.end(), {"--model", "gpt-tiny"});
    }
    const std::string meant = '"' + std::string(row.meant) + '"';
    EXPECT_TRUE(is_refused(run_plan(arguments), {row.name, meant})) << row.name;
  }
}

// h800 is one letter from h100, and another machine.
TEST(Name, OfAMachineIsRefusedWithTheClustersThatHaveIt) {
  struct Row {
    const char* name;
    const char* meant;
    const char* other;
  };
  for (const Row& row :
       {Row{"h100-nvl", "dgx-h100", "h800"}, Row{"4xH100", "dgx-h100", "h800"},
        Row{"A100-80GB-SXM", "mosaicml-a100-80gb", "h100"},
        Row{"gb200-nvl36", "dgx-gb200", "\"dgx-b200"}, Row{"mi300x-8", "8x-mi300x", "mi325x"}}) {
    const ProgramRun run = run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", row.name});
    EXPECT_TRUE(is_refused(run, {row.name, "did you mean", row.meant}));
    const std::size_t suggested = run.errors.find("did you mean");
    EXPECT_EQ(run.errors.find(row.other, suggested), std::string::npos) << run.errors;
  }
}

TEST(Name, MeansTheUsualMachineOrTodaysStack) {
  const auto plan = [](const char* cluster, const char* stack) {
    const ProgramRun run = run_plan({"--gpus", "8", "--model", "gpt2-1.5b", "--cluster", cluster,
                                     "--stack", stack, "--batch-per-gpu", "8"});
    EXPECT_TRUE(succeeds(run));
    return run.output;
  };
  EXPECT_THAT(plan("h100", "torchtitan"),
              testing::AllOf(testing::HasSubstr("(dgx-h100 with torchtitan-2025)"),
                             testing::HasSubstr(", cluster dgx-h100, stack torchtitan-2025, ")));
  EXPECT_THAT(plan("8xH200", "Megatron-LM"),
              testing::HasSubstr("(hgx-h200 with megatron-core-2025)"));
  EXPECT_THAT(plan("DGX_H100", "torchtitan-2025"),
              testing::Not(testing::HasSubstr(", cluster dgx-h100")));
}

TEST(Name, IsTakenInAnyCaseOfLetters) {
  const auto plan = [](const char* model, const char* cluster, const char* stack) {
    return run_plan({"--gpus", "8", "--model", model, "--cluster", cluster, "--stack", stack,
                     "--format", "json"});
  };
  const ProgramRun run = plan("GPT-Tiny", "DGX-H100", "Megatron-Core-2024");
  EXPECT_TRUE(succeeds(run));
  EXPECT_EQ(run.output, plan("gpt-tiny", "dgx-h100", "megatron-core-2024").output);
}

TEST(Precision, GoesByTheNamesOfOtherPrograms) {
  const auto plan = [](const char* precision) {
    const ProgramRun run = run_tiny({"--precision", precision, "--format", "json"});
    EXPECT_TRUE(succeeds(run));
    return run.output;
  };
  EXPECT_EQ(plan("float32"), plan("fp32"));
  EXPECT_EQ(plan("F32"), plan("fp32"));
  EXPECT_EQ(plan("bfloat16"), plan("bf16"));
  EXPECT_EQ(plan("f16"), plan("fp16"));
  const ProgramRun four = run_tiny({"--precision", "fp4"});
  EXPECT_TRUE(is_refused(four, {"did you mean \"nvfp4\"?"}));
}

TEST(Name, OfTheHuggingFaceHubIsRefusedWithWhatDownloadsIt) {
  const auto plan = [](const char* model) { return run_plan({"--gpus", "8", "--model", model}); };
  EXPECT_TRUE(is_refused(plan("meta-llama/Llama-3.1-8B"),
                         {"`hf download meta-llama/Llama-3.1-8B config.json --local-dir "
                          "Llama-3.1-8B`, then --model ./Llama-3.1-8B",
                          "--model llama-3-8b"}));
  const ProgramRun unknown = plan("somebody/Novel-12B");
  EXPECT_TRUE(is_refused(unknown, {"hf download somebody/Novel-12B"}));
  EXPECT_EQ(unknown.errors.find("shipped"), std::string::npos) << unknown.errors;
  EXPECT_TRUE(is_refused(plan("./meta-llama/Llama-3.1-8B"), {"cannot be read"}));
}

TEST(Name, ThatLeadsOutOfTheProfilesIsRefused) {
  for (const char* name : {"..", ".", "", "/", "../models/1T", "~", "1T\\0"}) {
    EXPECT_TRUE(is_refused(run_plan({"--gpus", "8", "--model", name}))) << name;
  }
}

// A value from a script may hold anything; the message is one line of text all the same.
TEST(Value, WithControlCharactersIsRefusedInPrintableText) {
  for (const std::string value : {"a\nb", "a\rb", "\x1B[2J", "a\tb", "a\x7F"}) {
    const std::vector<std::vector<std::string>> rows = {
        {"--gpus", value, "--model", "1T"},
        {"--gpus", "8", "--model", value},
        {"--gpus", "8", "--model", "./" + value},
        {"--gpus", "8", "--model", "1T", "--explain", value + "=1"},
        {"--gpus", "8", "--model", "1T", "--format", value},
        {"--" + value},
        {value}};
    for (const std::vector<std::string>& row : rows) {
      EXPECT_TRUE(is_refused(run_plan(row)));
    }
    EXPECT_TRUE(is_refused(run_validate({"--runs", value})));
  }
}

TEST(Value, OfMegabytesIsRefusedWithAShortMessage) {
  const std::string value(100'000, 'x');
  for (const char* flag : {"--gpus", "--model", "--format", "--tokens", "--explain"}) {
    const ProgramRun run = run_plan({"--gpus", "8", flag, value});
    EXPECT_TRUE(is_refused(run)) << flag;
    EXPECT_LT(run.errors.size(), 1000U) << flag;
  }
}

TEST(Explain, OfWhatIsNoConfigurationIsRefusedNamingTheKey) {
  struct Row {
    const char* text;
    const char* named;
  };
  for (const Row& row : {Row{"", "key=value"},
                         Row{"tp", "\"tp\""},
                         Row{"tp=", "tp"},
                         Row{"tp=0", "tp"},
                         Row{"tp=-1", "tp"},
                         Row{"tp=1.5", "tp"},
                         Row{"tp=4294967297", "tp"},
                         Row{"=8", "key"},
                         Row{"tp=2,", "key=value"},
                         Row{"tp=2,tp=4", "twice"},
                         Row{"tpp=2", "did you mean \"tp\""},
                         Row{"tp=8,foo=2", "keys are tp, pp, dp"},
                         Row{"b=1,micro_batch_size=1", "twice"},
                         Row{"schedule=pipe", "1f1b"},
                         Row{"recompute=ful", "full"},
                         Row{"sequence_parallel=2", "on"},
                         Row{"zero_stage=4", "3"},
                         Row{"tp==2", "tp"},
                         Row{"tp=2;pp=2", "tp"},
                         Row{"interleaving", "key=value"}}) {
    EXPECT_TRUE(is_refused(run_tiny({"--explain", row.text}), {"--explain", row.named}))
        << row.text;
  }
}

// A flag that is taken and then ignored is a silent fallback: the user believes the plan written.
TEST(Explain, DoesNotIgnoreTheOutputFile) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "plan.json").string();
  const ProgramRun run = run_tiny({"--explain", "tp=2", "-o", file});
  EXPECT_TRUE(run.status == kBadInput || std::filesystem::exists(file)) << run.status;
}

TEST(JsonFormat, IsJsonOrRefusedByEveryCommand) {
  const TemporaryDirectory directory;
  const std::string plan = directory.file("plan.json", tiny_plan()).string();
  const std::vector<std::vector<std::string>> rows = {
      {"list", "models"},
      {"list", "clusters"},
      {"list", "stacks"},
      {"show", plan},
      {"compare", plan, plan},
      {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100"},
      {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "-v"},
      {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "--compare-strategies"},
      {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "--explain", "tp=2"}};
  for (std::vector<std::string> row : rows) {
    row.insert(row.end(), {"--format", "json"});
    const ProgramRun run = run_plan(row);
    EXPECT_TRUE(run.status == kBadInput || is_finite_json(run.output)) << run.command;
  }
}

TEST(Help, NamesEveryFlagAndEndsWell) {
  const ProgramRun run = run_plan({"--help", "all"});
  EXPECT_TRUE(succeeds(run));
  for (const char* flag : {"--gpus", "--model", "--explain", "--output", "--threads",
                           "--micro-batch-size: --mbs", "128k is 131072"}) {
    EXPECT_NE(run.output.find(flag), std::string::npos) << flag;
  }
  const ProgramRun validate = run_validate({"-h"});
  EXPECT_TRUE(succeeds(validate));
  for (const char* flag : {"--runs", "--group", "--calibration", "--ranking", "--max-mape"}) {
    EXPECT_NE(validate.output.find(flag), std::string::npos) << flag;
  }
  EXPECT_TRUE(succeeds(run_plan({"--version"})));
}

TEST(Help, IsShortUnlessAllIsAskedFor) {
  const std::string all = run_plan({"--help", "all"}).output;
  const std::string brief = run_plan({"--help"}).output;
  EXPECT_LT(2 * std::count(brief.begin(), brief.end(), '\n'),
            std::count(all.begin(), all.end(), '\n'));
  for (const char* flag : {"--gpus", "--model", "--config", "--fit", "--nvbandwidth"}) {
    const bool is_common = std::string(flag) != "--nvbandwidth" && std::string(flag) != "--fit";
    EXPECT_EQ(brief.find(flag) != std::string::npos, is_common) << flag;
    EXPECT_NE(all.find(flag), std::string::npos) << flag;
  }
}

TEST(Help, OfOneFlagGoesByEitherName) {
  for (const char* name : {"micro-batch-size", "mbs", "micro_batch_size", "--mbs"}) {
    const std::string help = run_plan({"--help", name}).output;
    EXPECT_NE(help.find("--micro-batch-size"), std::string::npos) << name;
    EXPECT_EQ(help.find("--gpus"), std::string::npos) << name;
  }
}

TEST(Help, OfACommandIsTheCommands) {
  const std::string of_export = run_plan({"--help", "export"}).output;
  EXPECT_NE(of_export.find("--to "), std::string::npos);
  EXPECT_EQ(of_export.find("--gpus N  "), std::string::npos);
  EXPECT_EQ(run_plan({"export", "plan.json", "--help"}).output, of_export);
  EXPECT_TRUE(is_refused(run_plan({"--help", "exprot"}), {"--help", "\"exprot\"", "export"}));
}

}  // namespace
}  // namespace ptdp
