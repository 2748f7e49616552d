// Well-formed files with values that cannot be: F06 to F09 of the list of bad inputs.
#include <gtest/gtest.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::ordered_json;

const std::vector<std::string> kModelCounts = {
    "num_layers",        "hidden_size", "num_attention_heads", "vocab_size",      "seq_length",
    "global_batch_size", "kv_channels", "ffn_hidden_size",     "num_query_groups"};

ProgramRun run_model(const std::string& key, const std::string& literal) {
  return run_plan_with(
      {.model = with_literal(ordered_json::parse(tiny_model()), "/" + key, literal)});
}

ProgramRun run_cluster(const std::string& pointer, const std::string& literal) {
  return run_plan_with({.cluster = with_literal(selene_cluster(), pointer, literal)});
}

ProgramRun run_stack(const std::string& pointer, const std::string& literal) {
  return run_plan_with({.stack = with_literal(megatron_stack(), pointer, literal)});
}

/// Returns the last part of a JSON pointer.
std::string key_of(const std::string& pointer) {
  return pointer.substr(pointer.rfind('/') + 1);
}

TEST(ModelCount, ThatIsNoPositiveWholeNumberIsRefusedNamingTheKey) {
  for (const std::string& key : kModelCounts) {
    for (const char* literal : {"0", "-1", "-0.0", "-0", "5e-324", "1.5", "0.5", "1e-30", "\"1e3\"",
                                "\"4\"", "true", "false", "null", "[]", "[4]", "{}"}) {
      ASSERT_TRUE(is_refused(run_model(key, literal), {"model.json", key}))
          << key << " " << literal;
    }
  }
}

// 2^32 + 4 would wrap to 4, 2^53 + 1 would lose its 1, 2^63 and 2^64 would become negative or zero.
TEST(ModelCount, BeyondItsTypeIsRefusedNamingTheKey) {
  for (const std::string& key : kModelCounts) {
    for (const char* literal :
         {"2147483648", "4294967296", "4294967300", "9007199254740993", "9223372036854775807",
          "9223372036854775808", "18446744073709551615", "18446744073709551616",
          "-9223372036854775809", "1e25", "123456789012345678901234567890"}) {
      ASSERT_TRUE(is_refused(run_model(key, literal), {"model.json", key}))
          << key << " " << literal;
    }
  }
}

TEST(Number, ThatJsonDoesNotKnowIsRefusedSayingWhere) {
  for (const char* literal : {"NaN", "nan", "Infinity", "-Infinity", "inf", "1e400", "-1e400"}) {
    EXPECT_TRUE(is_refused(run_model("num_layers", literal), {"model.json", "line 5"})) << literal;
  }
}

// Each is the largest that its range allows; together they must not overflow.
TEST(ModelCount, AtItsLargestIsPlannedOrRefused) {
  ordered_json model = ordered_json::parse(tiny_model());
  for (const std::string& key : kModelCounts) {
    for (const char* literal : {"100000", "10000000", "100000000", "1000000000", "2147483647"}) {
      const ProgramRun run = run_model(key, literal);
      ASSERT_TRUE(run.status == kBadInput ? is_refused(run) : answers(run)) << key << literal;
      ASSERT_TRUE(has_only_numbers(run.output + run.errors)) << key << literal;
    }
  }
}

TEST(ModelCounts, ThatAreLargeTogetherArePlannedOrRefused) {
  ordered_json model = ordered_json::parse(tiny_model());
  model["num_layers"] = 100'000;
  model["hidden_size"] = 2'500'000;
  model["num_attention_heads"] = 100'000;
  model["global_batch_size"] = 1'000'000'000;
  model["seq_length"] = 100'000'000;
  model["vocab_size"] = 10'000'000;
  for (const char* gpus : {"1", "1000", "100000000"}) {
    const ProgramRun run =
        run_plan_with({.model = model.dump(), .gpus = gpus, .flags = {"--tp", "8"}});
    EXPECT_TRUE(run.status == kBadInput ? is_refused(run) : answers(run)) << gpus;
    EXPECT_TRUE(has_only_numbers(run.output + run.errors)) << gpus;
  }
}

TEST(Model, WhoseNumbersContradictEachOtherIsRefused) {
  struct Row {
    const char* key;
    const char* literal;
  };
  for (const Row& row :
       {Row{"num_attention_heads", "3"}, Row{"num_attention_heads", "256"},
        Row{"num_query_groups", "3"}, Row{"num_query_groups", "8"}, Row{"moe_router_topk", "2"}}) {
    EXPECT_TRUE(is_refused(run_model(row.key, row.literal), {"model.json", row.key})) << row.key;
  }
}

const std::vector<std::string> kPositiveClusterNumbers = {"/gpus_per_node",
                                                          "/nvlink/bandwidth_GBps",
                                                          "/nvlink/efficiency",
                                                          "/nic/bandwidth_GBps",
                                                          "/nic/efficiency",
                                                          "/gpu/peak_fp16_TFLOPs",
                                                          "/gpu/peak_bf16_TFLOPs",
                                                          "/gpu/memory_GiB",
                                                          "/gpu/memory_bandwidth_GBps",
                                                          "/gpu/matmul_efficiency",
                                                          "/gpu/matmul_memory_efficiency",
                                                          "/gpu/memory_efficiency",
                                                          "/gpu/num_multiprocessors"};
const std::vector<std::string> kLatencies = {"/nvlink/hop_latency_us", "/nic/hop_latency_us",
                                             "/collective_launch_us"};

TEST(ClusterNumber, ThatIsNotPositiveIsRefusedNamingTheKey) {
  for (const std::string& pointer : kPositiveClusterNumbers) {
    for (const char* literal : {"0", "-1", "-0.0", "0.0", "5e-324", "2.2250738585072014e-308"}) {
      ASSERT_TRUE(is_refused(run_cluster(pointer, literal), {"cluster.json", key_of(pointer)}))
          << pointer << " " << literal;
    }
  }
}

TEST(ClusterNumber, ThatIsNoNumberIsRefusedNamingTheKey) {
  for (const std::string& pointer : kPositiveClusterNumbers) {
    for (const char* literal : {"\"300\"", "true", "null", "[300]", "{}"}) {
      ASSERT_TRUE(is_refused(run_cluster(pointer, literal), {"cluster.json", key_of(pointer)}))
          << pointer << " " << literal;
    }
  }
}

TEST(Latency, MayBeZero) {
  for (const std::string& pointer : kLatencies) {
    EXPECT_TRUE(succeeds(run_cluster(pointer, "0"))) << pointer;
  }
}

TEST(Latency, BelowZeroIsRefused) {
  for (const std::string& pointer : kLatencies) {
    for (const char* literal : {"-1", "-5e-324", "-1e30"}) {
      EXPECT_TRUE(is_refused(run_cluster(pointer, literal), {"cluster.json", key_of(pointer)}))
          << pointer << " " << literal;
    }
  }
}

// A latency of 10^-324 us is nobody's measurement.
TEST(Latency, ThatIsDenormalIsRefused) {
  for (const std::string& pointer : kLatencies) {
    EXPECT_TRUE(is_refused(run_cluster(pointer, "5e-324"), {"cluster.json", key_of(pointer)}))
        << pointer;
  }
}

TEST(Bandwidth, OfAnotherUnitIsRefusedWithAHint) {
  for (const char* pointer :
       {"/nvlink/bandwidth_GBps", "/nic/bandwidth_GBps", "/gpu/memory_bandwidth_GBps"}) {
    // Bytes per second in place of gigabytes, and what is beyond any unit.
    for (const char* literal : {"300000000000", "1e30", "1e-30", "1e300"}) {
      EXPECT_TRUE(is_refused(run_cluster(pointer, literal), {key_of(pointer), "gigabytes"}))
          << pointer << " " << literal;
    }
  }
}

TEST(Peak, OfAnotherUnitIsRefusedWithAHint) {
  for (const char* literal : {"312000000000000", "1e30", "1e-30"}) {
    EXPECT_TRUE(is_refused(run_cluster("/gpu/peak_fp16_TFLOPs", literal), {"TFLOP/s"})) << literal;
  }
}

TEST(DeviceMemory, OfAnotherUnitIsRefusedWithAHint) {
  for (const char* literal : {"85899345920", "1e30", "1e-30"}) {
    EXPECT_TRUE(is_refused(run_cluster("/gpu/memory_GiB", literal), {"memory_GiB", "(GiB)"}))
        << literal;
  }
}

TEST(Efficiency, OutsideOfZeroToOneIsRefusedWithAHint) {
  for (const char* pointer :
       {"/nvlink/efficiency", "/nic/efficiency", "/gpu/matmul_efficiency",
        "/gpu/matmul_memory_efficiency", "/gpu/memory_efficiency", "/gpu/attention_rates/0/forward",
        "/gpu/attention_rates/0/backward"}) {
    for (const char* literal : {"1.0000000000000002", "77", "-0.1", "0"}) {
      EXPECT_TRUE(is_refused(run_cluster(pointer, literal), {key_of(pointer), "fraction"}))
          << pointer << " " << literal;
    }
  }
}

TEST(StackNumber, OutsideItsRangeIsRefusedNamingTheKey) {
  for (const char* key : {"weight_bytes", "gradient_bytes", "optimizer_bytes", "optimizer_traffic",
                          "reduced_gradient_bytes", "pipeline_latency_us",
                          "host_time_per_kernel_us", "overlap_slowdown", "reserve_fraction"}) {
    for (const char* literal : {"-1", "1e30", "\"2\"", "true", "null"}) {
      EXPECT_TRUE(is_refused(run_stack("/" + std::string(key), literal), {"stack.json", key}))
          << key << " " << literal;
    }
  }
  for (const char* key : {"weight_bytes", "gradient_bytes", "reduced_gradient_bytes"}) {
    EXPECT_TRUE(is_refused(run_stack("/" + std::string(key), "0"), {"stack.json", key})) << key;
  }
}

TEST(StackChoice, ThatIsUnknownIsRefusedListingTheKnown) {
  struct Row {
    const char* pointer;
    const char* literal;
    const char* known;
  };
  for (const Row& row :
       {Row{"/precision", "\"fp8\"", "bf16"}, Row{"/data_parallel_overlap", "\"maybe\"", "never"},
        Row{"/can_run/schedules", "[\"pipe\"]", "1f1b"},
        Row{"/can_run/recompute", "[\"block\"]", "selective"},
        Row{"/can_run/zero_stages", "[4]", "3"}, Row{"/can_run/zero_stages", "[-1]", "0"},
        Row{"/can_run/sequence_parallel", "\"yes\"", "true or false"},
        Row{"/scatter_gather", "1", "true or false"}}) {
    EXPECT_TRUE(is_refused(run_stack(row.pointer, row.literal), {key_of(row.pointer), row.known}))
        << row.pointer;
  }
}

TEST(Stack, ThatTheClusterCannotRunIsRefusedSayingWhy) {
  EXPECT_TRUE(is_refused(run_stack("/attention", "\"flash-9\""), {"flash-9", "attention"}));
  EXPECT_TRUE(is_refused(run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "dgx2-v100",
                                   "--stack", "megatron-core-2024"}),
                         {"bf16"}));
}

}  // namespace
}  // namespace ptdp
