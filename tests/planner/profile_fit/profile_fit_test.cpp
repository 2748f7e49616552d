// Tests of profiles that are refitted to runs.
#include "planner/profile_fit/profile_fit.h"

#include <gmock/gmock.h>

#include <array>
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

const KnobFit& found(const ProfileFit& refit, ProfileKnob knob) {
  return refit.knobs[static_cast<std::size_t>(knob)];
}

Scenario corrected(const ProfileFit& refit, const Scenario& job) {
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
      const ProfileFit refit =
          fit_profile(campaign(with_factors(host(), with(text.knob, factor)), host()), "a test");
      // What is cheap on the machine hardly shows in its times, and need not be known.
      if (factor > 1.0) {
        EXPECT_NEAR(found(refit, text.knob).factor / factor, 1.0, 0.02)
            << text.name << ' ' << factor;
      }
      for (const RunFit& run : refit.runs) {
        EXPECT_NEAR(run.after / run.measured, 1.0, 0.01) << text.name << ' ' << run.name;
        EXPECT_NEAR(*run.leave_one_out / run.measured, 1.0, 0.1) << text.name << ' ' << run.name;
      }
    }
  }
}

// Every constant is off by up to a factor of 30, to either side. The refit must predict what the
// runs took, and nearly what plans take that never ran. It must choose the plan that the machine's
// own profile chooses, or one as good.
TEST(RefitProfile, FindsTheMachineBehindAnyDistortion) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> logarithm(-std::log(30.0), std::log(30.0));
  for (int machine = 0; machine < kDistortedMachines; ++machine) {
    KnobFactors distortion;
    for (const ProfileKnobText& text : kProfileKnobs) {
      distortion[text.knob] = std::exp(logarithm(random));
    }
    const Scenario actual = with_factors(host(), distortion);
    const ProfileFit refit = fit_profile(campaign(actual, host()), "a test");
    for (const RunFit& run : refit.runs) {
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
    term.time.measured = term.time.measured * 5.0;
  }
  EXPECT_NEAR(found(fit_profile(runs, "a test"), ProfileKnob::kProducts).factor, 3.0, 0.05);
}

TEST(RefitProfile, LeavesWhatNoRunMeasuredAndSaysSo) {
  const ProfileFit refit = fit_profile(
      {run_on(with_factors(host(), with(ProfileKnob::kProducts, 2.0)), host(), layout(1, 1, 1))},
      "a test");
  EXPECT_NEAR(found(refit, ProfileKnob::kProducts).factor, 2.0, 0.01);
  EXPECT_EQ(refit.cluster.all_reduce_curves, host().cluster.all_reduce_curves);
  EXPECT_EQ(refit.stack.pipeline_latency.value(), host().stack.pipeline_latency.value());
  EXPECT_FALSE(refit.runs.front().leave_one_out.has_value());
  EXPECT_THAT(to_text(refit), HasSubstr("latency of messages       left as it was"));
}

TEST(RefitProfile, StopsAtItsBoundAndSaysSo) {
  std::vector<NamedReport> runs = campaign(host(), host());
  for (NamedReport& run : runs) {
    run.report.terms[0].time.measured = run.report.terms[0].time.measured * 1e5;
    run.report.measured_time = run.report.measured_time * 1e5;
  }
  const ProfileFit refit = fit_profile(runs, "a test");
  EXPECT_DOUBLE_EQ(found(refit, ProfileKnob::kProducts).factor, 100.0);
  EXPECT_THAT(to_text(refit), HasSubstr("stopped at the limit"));
}

TEST(RefitProfile, WritesProfilesThatCanBeReadAgain) {
  const TemporaryDirectory directory;
  const ProfileFit refit = fit_profile(
      campaign(with_factors(host(), with(ProfileKnob::kProducts, 0.1)), host()), "run.json");
  const ClusterSpec cluster =
      find_cluster(directory.file("cluster.json", to_json(refit.cluster)).string());
  const StackSpec stack = find_stack(directory.file("stack.json", to_json(refit.stack)).string());
  EXPECT_EQ(to_json(cluster), to_json(refit.cluster));
  EXPECT_EQ(to_json(stack), to_json(refit.stack));
  EXPECT_EQ(cluster.name, "host-refit");
  EXPECT_THAT(cluster.source, HasSubstr("run.json"));
}

TEST(RefitProfile, RefusesRunsThatSayNothing) {
  const auto refusal = [](const auto& spoil) {
    std::vector<NamedReport> runs = {run_on(host(), host(), layout(1, 1, 1), "good.json"),
                                     run_on(host(), host(), layout(1, 1, 1), "bad.json")};
    spoil(runs[1].report);
    return message_of([&] { return fit_profile(runs, "a test"); });
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

/// Returns a curve of 1, 2 and 4 MB in 10, 15 and 30 us.
MeasuredCurve made_up_curve() {
  return {{{Bytes(1e6), microseconds(10.0)},
           {Bytes(2e6), microseconds(15.0)},
           {Bytes(4e6), microseconds(30.0)}},
          "test"};
}

/// Expects the curve to be made_up_curve() with its lowest time multiplied by `latency`. The rest
/// of each time (0, 5 and 20 us) must be multiplied by `rate`.
void expect_scaled(const MeasuredCurve& curve, double latency, double rate) {
  ASSERT_EQ(curve.points().size(), 3U);
  const std::array beyond = {0.0, 5.0, 20.0};
  for (std::size_t i = 0; i < beyond.size(); ++i) {
    EXPECT_NEAR(curve.points()[i].time.value() * 1e6, latency * 10.0 + rate * beyond[i], 1e-9);
  }
}

// A prime for each knob tells what each constant is multiplied with, and what stays.
TEST(WithFactors, MultipliesEachConstantByItsOwnKnob) {
  Scenario before = host();
  before.cluster.reduce_scatter_curves = {{.ranks = 2, .curve = made_up_curve()}};
  before.cluster.all_gather_curves = {{.ranks = 4, .nodes = 2, .curve = made_up_curve()}};
  before.cluster.message_curve = made_up_curve();
  before.cluster.nic.sibling_efficiency = 0.25;
  before.stack.host_time_per_kernel = microseconds(3.0);
  before.stack.loss_scaling_traffic = 8.0;
  KnobFactors factors;
  factors[ProfileKnob::kProducts] = 2.0;
  factors[ProfileKnob::kAttention] = 3.0;
  factors[ProfileKnob::kMemory] = 5.0;
  factors[ProfileKnob::kOverhead] = 7.0;
  factors[ProfileKnob::kOptimizer] = 11.0;
  factors[ProfileKnob::kCollectiveLatency] = 3.5;
  factors[ProfileKnob::kCollectiveRate] = 2.5;
  factors[ProfileKnob::kMessageLatency] = 4.5;
  factors[ProfileKnob::kMessageRate] = 1.5;
  factors[ProfileKnob::kNetworkLatency] = 5.5;
  factors[ProfileKnob::kNetworkRate] = 1.25;
  const Scenario after = with_factors(before, factors);
  const ClusterSpec& cluster = after.cluster;
  EXPECT_DOUBLE_EQ(cluster.time_factors.matmul, 2.0 * before.cluster.time_factors.matmul);
  EXPECT_DOUBLE_EQ(cluster.time_factors.attention, 3.0 * before.cluster.time_factors.attention);
  EXPECT_DOUBLE_EQ(cluster.time_factors.memory_bound,
                   5.0 * before.cluster.time_factors.memory_bound);
  EXPECT_EQ(cluster.time_factors.communication, before.cluster.time_factors.communication);
  EXPECT_DOUBLE_EQ(cluster.gpu.kernel_latency / before.cluster.gpu.kernel_latency, 7.0);
  EXPECT_DOUBLE_EQ(after.stack.microbatch_overhead / before.stack.microbatch_overhead, 7.0);
  EXPECT_DOUBLE_EQ(after.stack.host_time_per_kernel.value() * 1e6, 21.0);
  EXPECT_DOUBLE_EQ(after.stack.pipeline_latency / before.stack.pipeline_latency, 4.5);
  EXPECT_DOUBLE_EQ(after.stack.optimizer_traffic, 11.0 * before.stack.optimizer_traffic);
  EXPECT_DOUBLE_EQ(after.stack.loss_scaling_traffic, 88.0);
  EXPECT_EQ(after.stack.loss_traffic, before.stack.loss_traffic);
  ASSERT_FALSE(before.stack.other_precisions.empty());
  for (std::size_t i = 0; i < before.stack.other_precisions.size(); ++i) {
    EXPECT_DOUBLE_EQ(after.stack.other_precisions[i].optimizer_traffic,
                     11.0 * before.stack.other_precisions[i].optimizer_traffic);
  }
  EXPECT_DOUBLE_EQ(cluster.collective_launch / before.cluster.collective_launch, 3.5);
  EXPECT_DOUBLE_EQ(cluster.nvlink.hop_latency / before.cluster.nvlink.hop_latency, 3.5);
  EXPECT_DOUBLE_EQ(cluster.nic.hop_latency / before.cluster.nic.hop_latency, 5.5);
  const auto slower = [](BytesPerSecond slow, BytesPerSecond fast) {
    return fast.value() / slow.value();
  };
  const ClusterSpec& old = before.cluster;
  EXPECT_NEAR(slower(cluster.nvlink.effective_bandwidth(), old.nvlink.effective_bandwidth()), 1.5,
              1e-12);
  EXPECT_NEAR(slower(cluster.nvlink.collective_bandwidth(), old.nvlink.collective_bandwidth()), 2.5,
              1e-12);
  EXPECT_NEAR(slower(cluster.nic.effective_bandwidth(), old.nic.effective_bandwidth()), 1.25,
              1e-12);
  EXPECT_NEAR(slower(cluster.nic.collective_bandwidth(), old.nic.collective_bandwidth()), 1.25,
              1e-12);
  EXPECT_FALSE(cluster.nic.collective_efficiency.has_value());  // one number remains one
  EXPECT_NEAR(slower(cluster.nic.sibling_bandwidth(), old.nic.sibling_bandwidth()), 1.25, 1e-12);
  EXPECT_EQ(cluster.nic.bandwidth, old.nic.bandwidth);
  expect_scaled(cluster.reduce_scatter_curves.at(0).curve, 3.5, 2.5);
  expect_scaled(cluster.all_gather_curves.at(0).curve, 5.5, 1.25);
  expect_scaled(cluster.message_curve, 4.5, 1.5);
  EXPECT_EQ(after.job, before.job);
}

// 4 MB take four times as long as 1 MB, and no more than 3.99 for each factor of size: with a
// hundredth of the latency and three times the rate, 0.1, 15.1 and 60.1 us, the first is raised to
// 15.1 / (3.99 * 2). Times of 10, 9.5 and 9.1 us fall by no more than 0.91 of the one before.
TEST(WithFactors, KeepsGrowthAndDipsOfCurvesWithinWhatACurveMay) {
  Scenario scenario = host();
  scenario.cluster.message_curve = made_up_curve();
  KnobFactors factors = with(ProfileKnob::kMessageLatency, 0.01);
  factors[ProfileKnob::kMessageRate] = 3.0;
  const std::vector<MeasuredPoint> grown =
      with_factors(scenario, factors).cluster.message_curve.points();
  EXPECT_NEAR(grown[0].time.value() * 1e6, 15.1 / 7.98, 1e-9);
  EXPECT_NEAR(grown[1].time.value() * 1e6, 15.1, 1e-9);
  EXPECT_NEAR(grown[2].time.value() * 1e6, 60.1, 1e-9);
  scenario.cluster.message_curve = {{{Bytes(1e6), microseconds(10.0)},
                                     {Bytes(2e6), microseconds(9.5)},
                                     {Bytes(4e6), microseconds(9.1)}},
                                    "test"};
  // Times beyond 9.1 us are doubled: 10.9, 9.9 and 9.1, of which the second is raised to 0.91 *
  // 10.9.
  const std::vector<MeasuredPoint> fallen =
      with_factors(scenario, with(ProfileKnob::kMessageRate, 2.0)).cluster.message_curve.points();
  EXPECT_NEAR(fallen[0].time.value() * 1e6, 10.9, 1e-9);
  EXPECT_NEAR(fallen[1].time.value() * 1e6, 9.919, 1e-9);
  EXPECT_NEAR(fallen[2].time.value() * 1e6, 9.1, 1e-9);
}

// Errors of -50, +25 % before, -20, 0 % after and -37.5 % left out.
TEST(ProfileRefitText, SaysWhatWasCorrectedAndWhatItIsWorth) {
  ProfileFit refit;
  for (const ProfileKnobText& text : kProfileKnobs) {
    refit.knobs.push_back({.knob = text.knob, .time_share = 0.0012});
  }
  refit.knobs[0] = {.knob = ProfileKnob::kProducts, .factor = 2.5, .num_runs = 1};
  refit.knobs[3] = {
      .knob = ProfileKnob::kOverhead, .factor = 1000.0, .num_runs = 3, .is_at_bound = true};
  refit.runs = {
      {.name = "a.json",
       .measured = Seconds(2.0),
       .before = Seconds(1.0),
       .after = Seconds(1.6),
       .leave_one_out = Seconds(1.25)},
      {.name = "b.json", .measured = Seconds(4.0), .before = Seconds(5.0), .after = Seconds(4.0)}};
  EXPECT_EQ(to_text(refit),
            "Corrections of the profile\n"
            "  products                  takes 2.5 times as long as the profile says (1 run)\n"
            "  attention                 left as it was: at most 0.12 % of a run's time\n"
            "  memory-bound work         left as it was: at most 0.12 % of a run's time\n"
            "  launches and overhead     takes 1e+03 times as long as the profile says (3 runs); "
            "stopped at the limit of 1000 times: is this the machine that the profile describes?\n"
            "  optimizer                 left as it was: at most 0.12 % of a run's time\n"
            "  latency of collectives    left as it was: at most 0.12 % of a run's time\n"
            "  transfer of collectives   left as it was: at most 0.12 % of a run's time\n"
            "  latency of messages       left as it was: at most 0.12 % of a run's time\n"
            "  transfer of messages      left as it was: at most 0.12 % of a run's time\n"
            "  latency between nodes     left as it was: at most 0.12 % of a run's time\n"
            "  transfer between nodes    left as it was: at most 0.12 % of a run's time\n"
            "\n"
            "Predicted against measured, per iteration\n"
            "      measured      before       after  leave-one-out  run\n"
            "           2 s     -50.0 %     -20.0 %        -37.5 %  a.json\n"
            "           4 s     +25.0 %       0.0 %              -  b.json\n"
            "                    37.5 %      10.0 %         37.5 %  mean absolute error\n");
  refit.runs[0].leave_one_out.reset();
  EXPECT_THAT(to_text(refit),
              HasSubstr("                    37.5 %      10.0 %              -  mean absolute"));
}

// A profile that is refitted twice is not renamed again, and tells of both.
TEST(RefitProfile, NamesWhatItMadeOnce) {
  Scenario believed = host();
  believed.cluster.name = "host-refit";
  believed.cluster.source = "first";
  const ProfileFit refit = fit_profile({run_on(believed, believed, layout(1, 1, 1))}, "two runs");
  EXPECT_EQ(refit.cluster.name, "host-refit");
  EXPECT_EQ(refit.stack.name, "ptdp-cpu-refit");
  EXPECT_EQ(refit.cluster.source, "Refitted by ptdp-calibrate to two runs. Before: first");
  EXPECT_EQ(refit.stack.source,
            "Refitted by ptdp-calibrate to two runs. Before: " + believed.stack.source);
  EXPECT_EQ(stack_file_beside("some/host.json"), std::filesystem::path("some/host.stack.json"));
}

}  // namespace
}  // namespace ptdp
