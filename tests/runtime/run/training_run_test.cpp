// Tests of runs of all ranks: what they record and report, and how they end.
#include "runtime/run/training_run.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>
#include <string>

#include "cost_model/error.h"
#include "cost_model/schedule/lane.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/model/executed_fields.h"
#include "runtime/rehearsal/shrink.h"
#include "tests/runtime/training_harness.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace ptdp::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunOptions options_for(std::int64_t steps) {
  return {.steps = steps, .make_backend = [] { return std::make_unique<CpuBackend>(); }};
}

/// Returns the names in a directory, hidden or not.
std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TrainingData data_for(const Job& job) {
  return TrainingData::synthetic(job.model.vocab_size, job.model.seq_length, 7);
}

TEST(TrainingRun, RecordsEveryActionOfEveryRankInOrder) {
  const Job job = small_job();
  const TrainingSettings settings = settings_of({.tp = 2, .pp = 2, .schedule = "zb-h1"}, job);
  const RunRecord record = run_training(settings, data_for(job), options_for(2));
  ASSERT_EQ(record.ranks.size(), 4U);
  for (std::size_t rank = 0; rank < record.ranks.size(); ++rank) {
    const auto& order = settings.schedule.orders[rank / 2];
    ASSERT_EQ(record.ranks[rank].steps.size(), 2U);
    double before = 0.0;
    for (const StepRecord& step : record.ranks[rank].steps) {
      ASSERT_EQ(step.actions.size(), order.size());
      EXPECT_GE(step.step.start.value(), before);
      before = step.step.start.value();
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (occupies_lane(order[i].kind)) {
          EXPECT_LE(before, step.actions[i].start.value()) << to_string(order[i]);
          EXPECT_LE(step.actions[i].start.value(), step.actions[i].end.value());
          before = step.actions[i].end.value();
        }
      }
      EXPECT_GE(step.step.end.value(), before);
      before = step.step.end.value();
    }
  }
}

// An action that takes a message begins once it is there, and messages leave before they arrive.
TEST(TrainingRun, RecordsMessagesBetweenTheirEnds) {
  const Job job = small_job();
  const TrainingSettings settings = settings_of({.pp = 2}, job);
  const RunRecord record = run_training(settings, data_for(job), options_for(1));
  const auto span_of = [&](int rank, const Action& wanted) {
    const auto& order = settings.schedule.orders[rank];
    const auto found = std::find(order.begin(), order.end(), wanted);
    EXPECT_NE(found, order.end()) << to_string(wanted);
    return record.ranks[rank].steps[0].actions[found - order.begin()];
  };
  for (int microbatch = 0; microbatch < settings.schedule.num_microbatches; ++microbatch) {
    const Span sent = span_of(0, {ActionKind::kSendForward, 0, microbatch});
    const Span received = span_of(1, {ActionKind::kReceiveForward, 1, microbatch});
    const Span forward = span_of(1, {ActionKind::kForward, 1, microbatch});
    EXPECT_LE(sent.start.value(), received.end.value());
    EXPECT_LE(received.end.value(), forward.start.value());
  }
}

TEST(TrainingRun, SendsOneMessageForEverySendOfTheSchedule) {
  const Job job = small_job();
  for (const Layout& layout : {Layout{.tp = 2, .pp = 4, .vpp = 2, .schedule = "interleaved"},
                               Layout{.pp = 4, .dp = 2, .schedule = "dualpipe"},
                               Layout{.pp = 2, .vpp = 2, .schedule = "zb-v"}}) {
    const TrainingSettings settings = settings_of(layout, job);
    const RunRecord record = run_training(settings, data_for(job), options_for(1));
    std::int64_t expected = 0;
    for (const auto& order : settings.schedule.orders) {
      expected += std::count_if(order.begin(), order.end(), [](const Action& action) {
        return action.kind == ActionKind::kSendForward || action.kind == ActionKind::kSendBackward;
      });
    }
    std::int64_t sent = 0;
    const auto kind = static_cast<std::size_t>(CollectiveKind::kSend);
    for (const RankRecord& rank : record.ranks) {
      sent += rank.pipeline_forward.messages[kind] + rank.pipeline_backward.messages[kind];
    }
    EXPECT_EQ(sent, expected * layout.tp * layout.dp) << to_string(layout);
  }
}

TEST(TrainingRun, TellsOfEveryStepOnce) {
  const Job job = small_job();
  std::vector<std::int64_t> done;
  RunOptions options = options_for(3);
  options.on_step = [&](const StepProgress& step) {
    EXPECT_GT(step.loss, 0.0);
    EXPECT_GT(step.time.value(), 0.0);
    EXPECT_EQ(step.steps, 3);
    done.push_back(step.done);
  };
  static_cast<void>(
      run_training(settings_of({.tp = 2, .pp = 2, .dp = 2}, job), data_for(job), options));
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST(TrainingRun, EndsBehindTheStepInWhichItIsToldTo) {
  const Job job = small_job();
  std::atomic<bool> stop = false;
  RunOptions options = options_for(1000);
  options.stop = &stop;
  options.on_step = [&](const StepProgress& step) {
    if (step.done == 2) {
      stop = true;
    }
  };
  const RunRecord record =
      run_training(settings_of({.pp = 2, .dp = 2}, job), data_for(job), options);
  const std::size_t steps = record.ranks.front().steps.size();
  EXPECT_GE(steps, 2U);
  EXPECT_LE(steps, 4U);
  for (const RankRecord& rank : record.ranks) {
    EXPECT_EQ(rank.steps.size(), steps);
  }
}

TEST(TrainingRun, EndsWithTheRankAndStepWhereTrainingDiverges) {
  Job job = small_job();
  job.type = DataType::kFloat32;
  TrainingSettings settings = settings_of({.tp = 2, .pp = 2}, job);
  settings.learning_rate = {.maximum = 1e30, .minimum = 1e30};
  try {
    static_cast<void>(run_training(settings, data_for(job), options_for(10)));
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
    EXPECT_THAT(error.what(), HasSubstr("rank "));
    EXPECT_THAT(error.what(), HasSubstr("step "));
    EXPECT_THAT(error.what(), HasSubstr("expected a finite one"));
  }
}

// fp16 skips steps that overflow, but not for ever.
TEST(TrainingRun, EndsWhereHalfPrecisionDivergesToo) {
  Job job = small_job();
  job.type = DataType::kFloat16;
  TrainingSettings settings = settings_of({.pp = 2}, job);
  settings.learning_rate = {.maximum = 1e30, .minimum = 1e30};
  EXPECT_THROW(static_cast<void>(run_training(settings, data_for(job), options_for(60))), Error);
}

TEST(TrainingRun, KeepsTheDetailsOfTheLastSteps) {
  const Job job = small_job();
  const RunRecord record =
      run_training(settings_of({.pp = 2}, job), data_for(job), options_for(kDetailedSteps + 3));
  for (const RankRecord& rank : record.ranks) {
    for (std::size_t step = 0; step < rank.steps.size(); ++step) {
      EXPECT_EQ(rank.steps[step].actions.empty(), step < 3) << step;
    }
  }
}

/// Returns an expectation made from a run of this layout: what it sends in a step, and three times
/// what it holds.
StepExpectation measured_expectation(const RunRecord& record, int ranks_per_stage) {
  StepExpectation expected{.peak_memory =
                               std::vector<Bytes>(record.ranks.size() / ranks_per_stage)};
  const auto steps = std::ssize(record.ranks.front().steps);
  for (std::size_t rank = 0; rank < record.ranks.size(); ++rank) {
    for (std::size_t group = 0; group < kTrafficGroups.size(); ++group) {
      for (std::size_t kind = 0; kind < kCollectiveNames.size(); ++kind) {
        expected.sent[group][kind] +=
            (record.ranks[rank].*kTrafficGroups[group].sent).bytes[kind] / steps;
      }
    }
    Bytes& peak = expected.peak_memory[rank / static_cast<std::size_t>(ranks_per_stage)];
    peak = std::max(peak, Bytes(static_cast<double>(record.ranks[rank].peak_bytes)));
  }
  return expected;
}

TEST(TrainingRun, EndsAfterAStepThatSentOtherBytesAndSavesNothingOfIt) {
  const TemporaryDirectory directory;
  const Job job = small_job();
  const Layout layout{.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1};
  const TrainingSettings settings = settings_of(layout, job);
  RunOptions options = options_for(4);
  options.expected = measured_expectation(run_training(settings, data_for(job), options), 4);
  options.checkpoint = {.save_to = directory.path() / "right", .save_every = 1};
  const RunRecord right = run_training(settings, data_for(job), options);
  EXPECT_THAT(right.differences, ElementsAre());
  EXPECT_EQ(right.ranks.front().steps.size(), 4U);
  EXPECT_EQ(Checkpoint::newest_step(directory.path() / "right"), 4);

  options.expected->sent[3][1] += 8;  // of the replicas, reduce-scatter
  options.checkpoint.save_to = directory.path() / "wrong";
  const RunRecord wrong = run_training(settings, data_for(job), options);
  ASSERT_EQ(wrong.differences.size(), 1U);
  EXPECT_THAT(wrong.differences.front(), HasSubstr("data reduce-scatter: "));
  EXPECT_EQ(wrong.ranks.front().steps.size(), 1U);
  EXPECT_EQ(Checkpoint::newest_step(directory.path() / "wrong"), 0);
}

// The steps that are saved are those of the training, wherever this run of it began.
TEST(TrainingRun, SavesTheSameStepsAfterAResume) {
  const TemporaryDirectory directory;
  const Job job = small_job();
  const TrainingSettings settings = settings_of({}, job);
  RunOptions options = options_for(3);
  options.checkpoint = {.save_to = directory.path() / "begun"};
  static_cast<void>(run_training(settings, data_for(job), options));
  const Checkpoint begun = Checkpoint::open(directory.path() / "begun");
  ASSERT_EQ(begun.state().step, 3);
  options.checkpoint = {.resume = &begun, .save_to = directory.path() / "resumed", .save_every = 2};
  static_cast<void>(run_training(settings, data_for(job), options));
  const auto is_saved = [&](const std::string& step) {
    return std::filesystem::exists(directory.path() / "resumed" / ("step-0000000" + step));
  };
  EXPECT_TRUE(is_saved("4"));
  EXPECT_FALSE(is_saved("5"));
  EXPECT_TRUE(is_saved("6"));
}

// A run saves the initial values, every so many steps of the training, and the end; once where two
// meet.
TEST(TrainingRun, SavesWhatItIsToldTo) {
  const Job job = small_job();
  const TrainingSettings settings = settings_of({.dp = 2}, job);
  const auto saved = [&](std::int64_t steps, std::int64_t save_every) {
    const TemporaryDirectory directory;
    RunOptions options = options_for(steps);
    options.checkpoint = {.save_to = directory.path() / "saved", .save_every = save_every};
    static_cast<void>(run_training(settings, data_for(job), options));
    return names_in(directory.path() / "saved");
  };
  EXPECT_EQ(saved(2, 0), (std::set<std::string>{"step-00000000", "step-00000002"}));
  EXPECT_EQ(saved(4, 2),
            (std::set<std::string>{"step-00000000", "step-00000002", "step-00000004"}));
  EXPECT_EQ(saved(3, 2),
            (std::set<std::string>{"step-00000000", "step-00000002", "step-00000003"}));
  EXPECT_EQ(saved(1, 5), (std::set<std::string>{"step-00000000", "step-00000001"}));
}

// A full disk: the checkpoints before stay, and nothing of the one that failed.
TEST(TrainingRun, RemovesWhatItCouldNotSave) {
  const TemporaryDirectory directory;
  const Job job = small_job();
  const TrainingSettings settings = settings_of({.dp = 2}, job);
  RunOptions options = options_for(2);
  options.checkpoint = {.save_to = directory.path()};
  static_cast<void>(run_training(settings, data_for(job), options));
  const Checkpoint saved = Checkpoint::open(directory.path());
  options.checkpoint = {.resume = &saved, .save_to = directory.path()};
  std::string message;
  {
    const FileSizeLimit limit(1000);
    try {
      static_cast<void>(run_training(settings, data_for(job), options));
    } catch (const EndedEarly& early) {
      message = early.what();
      EXPECT_EQ(early.status(), ExitStatus::kOutputFailed);
      EXPECT_EQ(early.end().record.first_step, 2);
      EXPECT_EQ(early.end().done_steps, 2);
      EXPECT_EQ(early.end().out_of_memory_rank, -1);
    }
  }
  EXPECT_THAT(message, HasSubstr(": the checkpoint before step 5: "));
  EXPECT_THAT(message, HasSubstr(": cannot write: File too large"));
  EXPECT_EQ(names_in(directory.path()), (std::set<std::string>{"step-00000000", "step-00000002"}));
}

/// Returns where a job's weights go, as the type gpt2.
WeightsExport export_of(const Job& job, const std::filesystem::path& directory) {
  return {.directory = directory,
          .type = "gpt2",
          .model = job.model,
          .others = {{.path = "config.json", .content = "{}"}},
          .stored = DataType::kFloat32};
}

// Each file would have more than 1000 bytes, which rank 0 finds; the ranks wait for it.
TEST(TrainingRun, RemovesWhatItCouldNotExport) {
  const TemporaryDirectory directory;
  const Job job = small_job();
  const TrainingSettings settings = settings_of({.dp = 2}, job);
  RunOptions options = options_for(1);
  options.checkpoint.export_to = export_of(job, directory.path());
  std::string message;
  {
    const FileSizeLimit limit(1000);
    try {
      static_cast<void>(run_training(settings, data_for(job), options));
    } catch (const EndedEarly& early) {
      message = early.what();
      EXPECT_EQ(early.status(), ExitStatus::kOutputFailed);
      EXPECT_EQ(early.end().done_steps, 1);
    }
  }
  EXPECT_THAT(message, HasSubstr("rank 0: the export: "));
  EXPECT_THAT(message, HasSubstr(": cannot make it large enough: File too large"));
  EXPECT_EQ(names_in(directory.path()), std::set<std::string>{});
  static_cast<void>(run_training(settings, data_for(job), options));
  EXPECT_EQ(names_in(directory.path()),
            (std::set<std::string>{"config.json", "model.safetensors"}));
}

// The weights are written; a directory has the name of another file of the export.
TEST(TrainingRun, RemovesWeightsThatCannotGetTheirNames) {
  const TemporaryDirectory directory;
  const Job job = small_job();
  const TrainingSettings settings = settings_of({.tp = 2, .pp = 2}, job);
  RunOptions options = options_for(1);
  options.checkpoint.export_to = export_of(job, directory.path());
  std::filesystem::create_directory(directory.path() / "config.json");
  std::string message;
  try {
    static_cast<void>(run_training(settings, data_for(job), options));
  } catch (const EndedEarly& early) {
    message = early.what();
  }
  EXPECT_THAT(message, HasSubstr("config.json: cannot rename onto it: Is a directory"));
  EXPECT_EQ(names_in(directory.path()), (std::set<std::string>{"config.json"}));
}

// The training was resumed at step 4, and was to have eight steps more.
TEST(EndedEarly, SaysWhyOrAfterWhichStepOfTheTraining) {
  EarlyEnd end{.record = {.first_step = 4},
               .done_steps = 3,
               .asked_steps = 8,
               .fault = "rank 3: 2F0 of step 8: no",
               .status = ExitStatus::kOutputFailed};
  EXPECT_STREQ(EndedEarly(end).what(), "rank 3: 2F0 of step 8: no");
  EXPECT_EQ(EndedEarly(end).status(), ExitStatus::kOutputFailed);
  EXPECT_EQ(EndedEarly(end).end().done_steps, 3);
  end.signal = 15;
  EXPECT_STREQ(EndedEarly(end).what(),
               "rank 3: 2F0 of step 8: no: interrupted after 7 of 12 steps");
  end.fault.clear();
  EXPECT_STREQ(EndedEarly(end).what(), "interrupted after 7 of 12 steps");
}

TEST(TrainingRun, EndsAfterAStepThatHeldOtherMemory) {
  Job job = small_job();
  job.model.vocab_size = 40'000;  // 2.5 MB of weights, gradients and states
  const TrainingSettings settings = settings_of({.pp = 2}, job);
  RunOptions options = options_for(2);
  options.expected = measured_expectation(run_training(settings, data_for(job), options), 1);
  options.expected->peak_memory[1] = 0.5 * options.expected->peak_memory[1];
  const RunRecord record = run_training(settings, data_for(job), options);
  ASSERT_EQ(record.differences.size(), 1U);
  EXPECT_THAT(record.differences.front(), HasSubstr("peak memory of rank 1 of the pipeline: "));
  EXPECT_EQ(record.ranks.front().steps.size(), 1U);
}

TEST(Shrink, KeepsWhatDecidesOrdersAndMessages) {
  const TransformerConfig model = resolved({.num_layers = 128,
                                            .hidden_size = 25600,
                                            .num_attention_heads = 160,
                                            .vocab_size = 51200,
                                            .seq_length = 2048,
                                            .untied_embeddings = true},
                                           "1T");
  const ParallelConfig config{.tp = 8, .pp = 64, .dp = 6, .micro_batch_size = 4, .zero_stage = 1};
  const TransformerConfig small = resolved(shrunk(model, config), "shrunk");
  EXPECT_EQ(small.num_layers, 128);
  EXPECT_TRUE(small.untied_embeddings);
  EXPECT_EQ(small.num_attention_heads % config.tp, 0);
  EXPECT_EQ(small.seq_length % config.tp, 0);
  EXPECT_LE(small.hidden_size, 64);
  const ParallelConfig one = shrunk(config);
  EXPECT_EQ(one.world_size(), 512);
  EXPECT_EQ(one.pp, 64);
  EXPECT_EQ(one.micro_batch_size, 1);
  EXPECT_EQ(left_out(model, config), "");
}

// Eight ranks and two key heads: four ranks share each, in the small model too.
TEST(Shrink, KeepsHowManyRanksShareAKeyHead) {
  const TransformerConfig model = resolved({.num_layers = 4,
                                            .hidden_size = 1024,
                                            .num_attention_heads = 16,
                                            .num_query_groups = 2,
                                            .vocab_size = 51200,
                                            .seq_length = 2048},
                                           "few key heads");
  const TransformerConfig small = resolved(shrunk(model, {.tp = 8}), "shrunk");
  EXPECT_EQ(small.num_query_groups, 2);
  EXPECT_EQ(small.num_attention_heads % 8, 0);
  EXPECT_EQ(small.kv_channels % 4, 0);
}

// Norms over all heads send messages of their own. Layer norms over the heads of several ranks do
// not run, so that a small model has them of each head.
TEST(Shrink, KeepsNormsOverAllHeadsThatRun) {
  TransformerConfig model = resolved({.num_layers = 4,
                                      .hidden_size = 1024,
                                      .num_attention_heads = 16,
                                      .vocab_size = 51200,
                                      .seq_length = 2048,
                                      .normalization = Normalization::kRmsNorm,
                                      .qk_layernorm = true,
                                      .qk_layernorm_width = QkNormWidth::kAllHeads},
                                     "norms");
  EXPECT_EQ(shrunk(model, {.tp = 8}).qk_layernorm_width, QkNormWidth::kAllHeads);
  EXPECT_EQ(left_out(model, {.tp = 8}), "");
  model.normalization = Normalization::kLayerNorm;
  EXPECT_EQ(shrunk(model, {}).qk_layernorm_width, QkNormWidth::kAllHeads);
  EXPECT_EQ(shrunk(model, {.tp = 8}).qk_layernorm_width, QkNormWidth::kHead);
  EXPECT_EQ(left_out(model, {.tp = 8}),
            "the model has layer norms of queries and keys over all heads");
}

// What does not run is left out by name: the small model runs.
TEST(Shrink, LeavesOutWhatDoesNotRun) {
  TransformerConfig model = resolved({.num_layers = 4,
                                      .hidden_size = 1024,
                                      .num_attention_heads = 16,
                                      .vocab_size = 51200,
                                      .seq_length = 2048,
                                      .position_embedding = PositionEmbedding::kAlibi,
                                      .layernorm_bias = false,
                                      .parallel_residual = true,
                                      .shared_residual_norm = true,
                                      .embedding_layernorm = true,
                                      .qk_layernorm = true,
                                      .qk_layernorm_width = QkNormWidth::kEachHead,
                                      .window_size = 64,
                                      .chunked_attention = true},
                                     "parts");
  EXPECT_EQ(find_unsupported_feature(resolved(shrunk(model, {.tp = 8}), "shrunk")), "");
  EXPECT_EQ(
      left_out(model, {.tp = 8}),
      "the model has ALiBi positions, the model has layer norms without biases, the model has "
      "one norm for both branches of a layer, the model has a norm of embeddings, the model "
      "has norms of queries and keys with weights of their own for each head, the model "
      "attends within chunks");
  model.position_embedding = PositionEmbedding::kRelative;
  EXPECT_EQ(find_unsupported_feature(resolved(shrunk(model, {}), "shrunk")), "");
  EXPECT_THAT(left_out(model, {}), ::testing::StartsWith("the model has relative positions, "));
  model.position_embedding = PositionEmbedding::kRope;
  model.rotary = {.interleaved = true, .window_base = 9.0, .no_rope_freq = 4};
  EXPECT_EQ(find_unsupported_feature(resolved(shrunk(model, {}), "shrunk")), "");
}

TEST(Shrink, LeavesOutOfAnyModelWhatOrdersDoNotDependOn) {
  const TransformerConfig model = resolved({.num_layers = 32,
                                            .hidden_size = 4096,
                                            .num_attention_heads = 32,
                                            .num_query_groups = 8,
                                            .vocab_size = 128256,
                                            .seq_length = 8192,
                                            .gated_linear_unit = true,
                                            .add_bias_linear = false,
                                            .untied_embeddings = true,
                                            .position_embedding = PositionEmbedding::kRope,
                                            .normalization = Normalization::kRmsNorm,
                                            .window_size = 4096,
                                            .num_experts = 8,
                                            .moe_router_topk = 2},
                                           "mixture");
  const ParallelConfig config{.tp = 4,
                              .pp = 2,
                              .dp = 4,
                              .cp = 2,
                              .ep = 4,
                              .recompute = Recompute::kSelective,
                              .recompute_modules = {RecomputeModule::kMlp},
                              .zero_stage = 1,
                              .dp_replicate = 2,
                              .offload = Offload::kOptimizer};
  EXPECT_EQ(find_unsupported_feature(resolved(shrunk(model, config), "shrunk")), "");
  EXPECT_EQ(find_unexecuted(shrunk(config)), "");
  EXPECT_EQ(left_out(model, config),
            "the model has 8 experts, the plan has cp 2, the plan has ep 4, the plan has "
            "recompute_modules mlp, the plan has dp_replicate 2, the "
            "plan has offload "
            "optimizer");
}

}  // namespace
}  // namespace ptdp::testing
