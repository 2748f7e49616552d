// Tests of a log beside a plan: numbers, refusals, and the row that a calibration takes.
#include "planner/logs/log_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/scenarios.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Returns the plan of 1.7B on 32 GPUs with one replica each and 512 sequences, with a factor of 2.
Plan plan_of_replicas() {
  const ParallelConfig config = {.dp = 32, .micro_batch_size = 16};
  return make_plan(PlannedJob(selene_2021("1.7B", 512), config), 32, 0.0,
                   Calibration{.factor = 2.0, .interval = {0.8, 1.25}});
}

std::string five_lines(double seconds, const char* batch = "512") {
  std::string text;
  for (int step = 1; step <= 5; ++step) {
    text += " iteration " + std::to_string(step) +
            "/ 5 | elapsed time per iteration (ms): " + std::to_string(1e3 * seconds) +
            " | throughput per GPU (TFLOP/s/GPU): 137.5 | global batch size: " + batch +
            " | lm loss: 2.5 |\n";
  }
  return text +
         "[Rank 0] (after 5 iterations) memory (MB) | max allocated: 2048.0 | max reserved: "
         "3072.0\n";
}

/// Returns the arguments of plan_of_replicas() as Megatron-LM lists them, with `tp` in place of 1.
std::string arguments(int tp, int world_size) {
  std::string text = "------------------------ arguments ------------------------\n";
  const std::vector<std::pair<std::string, std::string>> values = {
      {"data_parallel_size", std::to_string(world_size / tp)},
      {"global_batch_size", "512"},
      {"hidden_size", "2304"},
      {"max_position_embeddings", "2048"},
      {"micro_batch_size", "16"},
      {"num_attention_heads", "24"},
      {"num_layers", "24"},
      {"padded_vocab_size", "51200"},
      {"pipeline_model_parallel_size", "1"},
      {"seq_length", "2048"},
      {"tensor_model_parallel_size", std::to_string(tp)},
      {"world_size", std::to_string(world_size)},
      {"vocab_size", "51200"}};
  for (const auto& [name, value] : values) {
    text += "  " + name + " " + std::string(40, '.') + " " + value + "\n";
  }
  return text + "-------------------- end of arguments ---------------------\n";
}

class LogOf {
 public:
  explicit LogOf(const std::string& content) : file_(directory_.file("train.log", content)) {}
  [[nodiscard]] LogReport report(const std::optional<Plan>& plan) const {
    return report_log(read_training_log(file_), file_.string(), plan);
  }
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  TemporaryDirectory directory_;
  std::filesystem::path file_;
};

TEST(ReportLog, IsThePlanOverTheLog) {
  const Plan plan = plan_of_replicas();
  const double predicted = plan.predicted.iteration_time.value.value();
  const LogReport slow = LogOf(five_lines(1.25 * predicted)).report(plan);
  EXPECT_NEAR(slow.error().value(), -0.2, 1e-4);
  const LogReport inside =
      LogOf(five_lines(plan.predicted.iteration_time.high.value() - 0.01)).report(plan);
  const LogReport outside =
      LogOf(five_lines(plan.predicted.iteration_time.high.value() + 0.01)).report(plan);
  EXPECT_TRUE(inside.is_inside());
  EXPECT_FALSE(outside.is_inside());
  EXPECT_THAT(to_text(inside), HasSubstr("which holds"));
  EXPECT_THAT(to_text(outside), HasSubstr("which does not hold"));
}

// 2 s of 512 sequences of 2048 tokens are 524288 tokens a second.
TEST(ReportLog, PrintsRatesMemoryAndLoss) {
  const std::string text = to_text(LogOf(five_lines(2.0)).report(plan_of_replicas()));
  for (const char* part : {"Megatron, iterations 2 to 5, 4 lines", "2 s", "524288", "137.5 TFLOP/s",
                           "2.00 GiB", "3.00 GiB", "loss 2.5 at iteration 5"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportLog, SaysWhatIsDoubtful) {
  std::string log = five_lines(2.0);
  log.replace(log.rfind("137.5"), 5, "59892");
  const LogReport few = LogOf(log).report(plan_of_replicas());
  EXPECT_TRUE(few.warnings.empty());  // one number does not move the median
  for (std::size_t at = 0; (at = log.find("137.5", at)) != std::string::npos;) {
    log.replace(at, 5, "59892");
  }
  EXPECT_THAT(
      to_text(LogOf(log).report(plan_of_replicas())),
      HasSubstr("59892 TFLOP/s per GPU, which the log prints, are more than its peak of 312"));
}

TEST(ReportLog, WithoutAPlanIsMeasuredAlone) {
  const LogReport report = LogOf(five_lines(2.0)).report(std::nullopt);
  EXPECT_FALSE(report.error().has_value());
  EXPECT_FALSE(report.is_inside());
  EXPECT_THAT(to_text(report), HasSubstr("--plan PLAN.json"));
  EXPECT_THAT(to_text(report), Not(HasSubstr("predicted  ")));
  const json document = json::parse(to_json(report));
  EXPECT_FALSE(document.contains("predicted"));
  EXPECT_NEAR(document["measured"]["time_s"].get<double>(), 2.0, 1e-9);
}

TEST(ReportLog, HasAllOfItInJson) {
  const Plan plan = plan_of_replicas();
  const json document = json::parse(to_json(LogOf(five_lines(2.0)).report(plan)));
  EXPECT_EQ(document["schema"], "ptdp.log/1");
  EXPECT_EQ(document["program"], "Megatron");
  EXPECT_EQ(document["measured"]["lines"], 4);
  EXPECT_EQ(document["measured"]["loss"], 2.5);
  EXPECT_EQ(document["memory"]["reserved_bytes"], 3072.0 * 1048576.0);
  const double predicted = plan.predicted.iteration_time.value.value();
  EXPECT_NEAR(document["predicted"]["iteration_time_s"].get<double>(), predicted, 1e-9);
  EXPECT_NEAR(document["error_pct"].get<double>(), 100.0 * (predicted / 2.0 - 1.0), 1e-9);
}

TEST(ReportLog, RefusesAnotherBatchThanThePlans) {
  const LogOf log(five_lines(2.0, "256"));
  EXPECT_THAT(message_of([&] { return log.report(plan_of_replicas()); }),
              HasSubstr("global batch size: found 256, expected the 512 of the plan"));
}

TEST(ReportLog, RefusesOtherArgumentsThanThePlans) {
  const auto refusal = [](const std::string& list) {
    const LogOf log(list + five_lines(2.0));
    return message_of([&] { return log.report(plan_of_replicas()); });
  };
  const auto changed = [](const std::string& name, const std::string& value) {
    std::string list = arguments(1, 32);
    const std::size_t at = list.find("  " + name + " ");
    const std::size_t end = list.find('\n', at);
    const std::string line = "  " + name + " " + std::string(40, '.') + " " + value;
    return at == std::string::npos ? list.insert(list.find('\n') + 1, line + "\n")
                                   : list.replace(at, end - at, line);
  };
  EXPECT_THAT(
      refusal(arguments(2, 32)),
      HasSubstr("train.log: its arguments: tensor-parallel size: found 2, expected the 1 of "
                "the plan"));
  EXPECT_THAT(refusal(arguments(1, 64)), HasSubstr("GPUs: found 64, expected the 32 of the plan"));
  EXPECT_THAT(refusal(changed("num_layers", "48")), HasSubstr("layers: found 48, expected the 24"));
  EXPECT_THAT(refusal(changed("hidden_size", "4608")), HasSubstr("hidden size: found 4608"));
  EXPECT_THAT(refusal(changed("seq_length", "1024")), HasSubstr("sequence length: found 1024"));
  EXPECT_THAT(refusal(changed("micro_batch_size", "8")), HasSubstr("micro batch size: found 8"));
  EXPECT_THAT(refusal(changed("recompute_granularity", "full")),
              HasSubstr("recomputation: found full, expected the none of the plan"));
  EXPECT_TRUE(LogOf(arguments(1, 32) + five_lines(2.0)).report(plan_of_replicas()).error());
}

// A list without the batch cannot be compared, which the report says.
TEST(ReportLog, SaysWhereArgumentsAreNotCompared) {
  std::string list = arguments(1, 32);
  const std::size_t at = list.find("  micro_batch_size");
  list.erase(at, list.find('\n', at) + 1 - at);
  const LogReport report = LogOf(list + five_lines(2.0)).report(plan_of_replicas());
  EXPECT_THAT(to_text(report), HasSubstr("are not compared with the plan"));
}

TEST(ReportLog, SaysWhereTheTimeMeansMoreThanThePeak) {
  EXPECT_THAT(to_text(LogOf(five_lines(0.1)).report(plan_of_replicas())),
              HasSubstr("which the time means, are more than its peak of 312"));
}

TEST(ReportLog, SaysThatTheLossIsNotANumber) {
  std::string log = five_lines(2.0);
  log.replace(log.rfind("lm loss: 2.5"), 12, "lm loss: nan");
  const LogReport report = LogOf(log).report(plan_of_replicas());
  EXPECT_THAT(to_text(report), HasSubstr("the loss is not a number at iteration 5"));
  EXPECT_FALSE(json::parse(to_json(report))["measured"].contains("loss"));
}

// The plan's factor of 2 is taken out of the prediction that a calibration compares with.
TEST(CostedRunOfALog, IsARowOfWhatWasMeasured) {
  const Plan plan = plan_of_replicas();
  const CostedRun run = costed_run(LogOf(five_lines(2.0)).report(plan));
  EXPECT_EQ(run.run.id, "train.log");
  EXPECT_EQ(run.run.iteration_time, Seconds(2.0));
  EXPECT_NEAR(run.predicted.value(), plan.predicted.iteration_time.value.value() / 2.0, 1e-9);
  EXPECT_EQ(run.run.memory, Bytes(3072.0 * 1048576.0));
  EXPECT_EQ(run.run.config, plan.config);
  EXPECT_EQ(run.run.cluster, "selene-a100");
}

TEST(CostedRunOfALog, NeedsAPlanOfThisVersion) {
  const LogOf log(five_lines(2.0));
  EXPECT_THAT(message_of([&] { return costed_run(log.report(std::nullopt)); }),
              HasSubstr("train.log: expected what was run"));
  Plan old = plan_of_replicas();
  old.tool_version = "0.0.9";
  EXPECT_THAT(message_of([&] { return costed_run(log.report(old)); }), HasSubstr("0.0.9"));
}

}  // namespace
}  // namespace ptdp
