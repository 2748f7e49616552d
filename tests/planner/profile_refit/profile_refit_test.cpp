#include "planner/profile_refit/profile_refit.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "cost_model/inputs/catalog/catalog.h"
#include "planner/search/search.h"
#include "tests/planner/fake_machine.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

Scenario host() {
  return host_scenario(small_model(256, 64), 16);
}

KnobFactors with(ProfileKnob knob, double factor) {
  KnobFactors factors;
  factors[knob] = factor;
  return factors;
}

const KnobRefit& found(const ProfileRefit& refit, ProfileKnob knob) {
  return refit.knobs[static_cast<std::size_t>(knob)];
}

Scenario corrected(const ProfileRefit& refit, const Scenario& job) {
  return {.job = job.job, .cluster = refit.cluster, .stack = refit.stack};
}

TEST(WithFactors, OfOneChangesNothing) {
  for (const char* cluster : {"host", "selene-a100", "dgx-h100"}) {
    Scenario scenario = host();
    scenario.cluster = find_cluster(cluster);
    scenario.stack = find_stack(scenario.cluster.default_stack);
    EXPECT_EQ(with_factors(scenario, KnobFactors()), scenario) << cluster;
  }
}

TEST(WithFactors, MultipliesTimeFactorsAndEndsAtTheirRange) {
  EXPECT_DOUBLE_EQ(
      with_factors(host(), with(ProfileKnob::kProducts, 3.0)).cluster.time_factors.matmul,
      3.0 * host().cluster.time_factors.matmul);
  EXPECT_DOUBLE_EQ(
      with_factors(host(), with(ProfileKnob::kMemory, 1e-5)).cluster.time_factors.memory_bound,
      0.01);
}

TEST(WithFactors, RaisesABandwidthThatIsExceededAndKeepsTheOtherRate) {
  const LinkSpec before = host().cluster.nvlink;
  const LinkSpec after = with_factors(host(), with(ProfileKnob::kMessageRate, 0.5)).cluster.nvlink;
  EXPECT_DOUBLE_EQ(after.efficiency, 1.0);
  EXPECT_DOUBLE_EQ(after.bandwidth.value(), 2.0 * before.effective_bandwidth().value());
  EXPECT_DOUBLE_EQ(after.collective_bandwidth().value(), before.collective_bandwidth().value());
}

TEST(WithFactors, KeepsCurvesThatCanBeRead) {
  for (const double latency : {1e-3, 1.0, 1e3}) {
    for (const double rate : {1e-3, 1.0, 1e3}) {
      KnobFactors factors = with(ProfileKnob::kCollectiveLatency, latency);
      factors[ProfileKnob::kCollectiveRate] = rate;
      Scenario scenario = host();
      for (const char* cluster : {"host", "selene-a100", "hgx-h200"}) {
        scenario.cluster = find_cluster(cluster);
        EXPECT_NO_THROW((void)with_factors(scenario, factors)) << latency << ' ' << rate;
      }
    }
  }
}

TEST(RefitProfile, FindsWhatIsWrong) {
  for (const ProfileKnobText& text : kProfileKnobs) {
    const bool is_between_nodes =
        text.knob == ProfileKnob::kNetworkLatency || text.knob == ProfileKnob::kNetworkRate;
    if (is_between_nodes || text.knob == ProfileKnob::kMessageLatency ||
        text.knob == ProfileKnob::kMessageRate) {
      continue;  // of no weight in these runs
    }
    for (const double factor : {0.2, 4.0}) {
      const ProfileRefit refit =
          refit_profile(campaign(with_factors(host(), with(text.knob, factor)), host()), "a test");
      // What is cheap on the machine hardly shows in its times, and need not be known.
      if (factor > 1.0) {
        EXPECT_NEAR(found(refit, text.knob).factor / factor, 1.0, 0.02)
            << text.name << ' ' << factor;
      }
      for (const RunRefit& run : refit.runs) {
        EXPECT_NEAR(run.after / run.measured, 1.0, 0.01) << text.name << ' ' << run.name;
        EXPECT_NEAR(*run.leave_one_out / run.measured, 1.0, 0.1) << text.name << ' ' << run.name;
      }
    }
  }
}

// Every constant off by up to a factor of 30, to either side: what is predicted of the runs is
// what they took, what is predicted of plans that never ran is near, and the plan that is chosen is
// the one that the machine's own profile chooses, or as good.
TEST(RefitProfile, FindsTheMachineBehindAnyDistortion) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> logarithm(-std::log(30.0), std::log(30.0));
  for (int machine = 0; machine < 20; ++machine) {
    KnobFactors distortion;
    for (const ProfileKnobText& text : kProfileKnobs) {
      distortion[text.knob] = std::exp(logarithm(random));
    }
    const Scenario actual = with_factors(host(), distortion);
    const ProfileRefit refit = refit_profile(campaign(actual, host()), "a test");
    for (const RunRefit& run : refit.runs) {
      EXPECT_NEAR(run.after / run.measured, 1.0, 0.02) << machine << ' ' << run.name;
    }
    const Scenario job = host_scenario(small_model(128, 128), 16);
    Scenario truth = actual;
    truth.job = job.job;
    const SearchOptions options{.gpus = 2, .num_best = 1, .wants_front = false};
    const double best = search(truth, options).best.front().time.value();
    const Candidate chosen = search(corrected(refit, job), options).best.front();
    EXPECT_LE(seconds_on(actual, job, chosen.config), 1.05 * best) << machine;
  }
}

TEST(RefitProfile, IsNotMovedByOneRunThatWasDisturbed) {
  std::vector<NamedReport> runs =
      campaign(with_factors(host(), with(ProfileKnob::kProducts, 3.0)), host());
  for (TermComparison& term : runs[2].report.terms) {
    term.measured = term.measured * 5.0;
  }
  EXPECT_NEAR(found(refit_profile(runs, "a test"), ProfileKnob::kProducts).factor, 3.0, 0.05);
}

TEST(RefitProfile, LeavesWhatNoRunMeasuredAndSaysSo) {
  const ProfileRefit refit = refit_profile(
      {run_on(with_factors(host(), with(ProfileKnob::kProducts, 2.0)), host(), layout(1, 1, 1))},
      "a test");
  EXPECT_NEAR(found(refit, ProfileKnob::kProducts).factor, 2.0, 0.01);
  EXPECT_EQ(refit.cluster.all_reduce_curves, host().cluster.all_reduce_curves);
  EXPECT_EQ(refit.stack.pipeline_latency.value(), host().stack.pipeline_latency.value());
  EXPECT_FALSE(refit.runs.front().leave_one_out.has_value());
  EXPECT_THAT(to_table(refit), HasSubstr("latency of messages       left as it was"));
}

TEST(RefitProfile, StopsAtItsBoundAndSaysSo) {
  std::vector<NamedReport> runs = campaign(host(), host());
  for (NamedReport& run : runs) {
    run.report.terms[0].measured = run.report.terms[0].measured * 1e5;
    run.report.measured_time = run.report.measured_time * 1e5;
  }
  const ProfileRefit refit = refit_profile(runs, "a test");
  EXPECT_DOUBLE_EQ(found(refit, ProfileKnob::kProducts).factor, 100.0);
  EXPECT_THAT(to_table(refit), HasSubstr("stopped at the bound"));
}

TEST(RefitProfile, WritesProfilesThatCanBeReadAgain) {
  const TemporaryDirectory directory;
  const ProfileRefit refit = refit_profile(
      campaign(with_factors(host(), with(ProfileKnob::kProducts, 0.1)), host()), "run.json");
  const ClusterSpec cluster =
      find_cluster(directory.file("cluster.json", cluster_json(refit.cluster)).string());
  const StackSpec stack =
      find_stack(directory.file("stack.json", stack_json(refit.stack)).string());
  EXPECT_EQ(cluster_json(cluster), cluster_json(refit.cluster));
  EXPECT_EQ(stack_json(stack), stack_json(refit.stack));
  EXPECT_EQ(cluster.name, "host-refit");
  EXPECT_THAT(cluster.source, HasSubstr("run.json"));
}

TEST(RefitProfile, RefusesRunsThatSayNothing) {
  const auto refusal = [](const auto& spoil) {
    std::vector<NamedReport> runs = {run_on(host(), host(), layout(1, 1, 1), "good.json"),
                                     run_on(host(), host(), layout(1, 1, 1), "bad.json")};
    spoil(runs[1].report);
    return message_of([&] { return refit_profile(runs, "a test"); });
  };
  EXPECT_THAT(refusal([](RunReport& run) { run.execution.is_shrunk = true; }),
              HasSubstr("bad.json: a shrunk run"));
  EXPECT_THAT(refusal([](RunReport& run) { run.execution.requested_steps = 20; }),
              HasSubstr("bad.json: an interrupted run"));
  EXPECT_THAT(refusal([](RunReport& run) { run.predicted_time = {}; }),
              HasSubstr("bad.json: a run of which nothing was predicted"));
  EXPECT_THAT(refusal([](RunReport& run) { run.tool_version = "0.0.1"; }),
              HasSubstr("bad.json: tool_version: predictions of 0.0.1"));
  EXPECT_THAT(
      refusal([](RunReport& run) { run.plan.scenario.cluster.gpu.matmul_efficiency *= 0.5; }),
      HasSubstr("bad.json: planned for another cluster"));
}

}  // namespace
}  // namespace ptdp
