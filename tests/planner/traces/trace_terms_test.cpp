// Tests of the sweep over spans, by hand and against brute force.
#include "planner/traces/trace_terms.h"

#include <gmock/gmock.h>

#include <random>

namespace ptdp {
namespace {

using testing::ElementsAre;

// Purpose 0 from 0 to 4 and from 3 to 5, purpose 1 from 4 to 9; the window is from 1 to 12.
TEST(Sweep, GivesTimeToTheFirstPurpose) {
  const std::vector<BusySpan> spans = {{4, 9, 1}, {3, 5, 0}, {0, 4, 0}};
  const std::vector<TraceWindow> windows = {{.number = 1, .start = 1, .end = 12}};
  const std::vector<SweptWindow> swept = sweep(spans, windows, 2);
  ASSERT_EQ(swept.size(), 1U);
  EXPECT_THAT(swept[0].alone, ElementsAre(4, 4));
  EXPECT_THAT(swept[0].busy, ElementsAre(4, 5));
  EXPECT_EQ(swept[0].idle, 3);
}

constexpr std::size_t kPurposes = 4;

TEST(Sweep, AgreesWithBruteForce) {
  std::mt19937 random(7);
  const auto drawn = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<BusySpan> spans;
    for (int i = drawn(20); i > 0; --i) {
      const int start = drawn(100);
      spans.push_back({start, start + drawn(15), static_cast<std::size_t>(drawn(kPurposes))});
    }
    const int first = drawn(30);
    const int second = first + drawn(40);
    const std::vector<TraceWindow> windows = {
        {.number = 1, .start = first, .end = second},
        {.number = 2, .start = second + drawn(5), .end = second + 5 + drawn(50)}};
    const std::vector<SweptWindow> swept = sweep(spans, windows, kPurposes);
    for (std::size_t w = 0; w < windows.size(); ++w) {
      std::vector<Nanoseconds> alone(kPurposes);
      std::vector<Nanoseconds> busy(kPurposes);
      Nanoseconds idle = 0;
      for (Nanoseconds now = windows[w].start; now < windows[w].end; ++now) {
        std::size_t first_purpose = kPurposes;
        for (std::size_t purpose = kPurposes; purpose-- > 0;) {
          const bool runs = std::ranges::any_of(spans, [&](const BusySpan& span) {
            return span.purpose == purpose && span.start <= now && now < span.end;
          });
          busy[purpose] += runs ? 1 : 0;
          first_purpose = runs ? purpose : first_purpose;
        }
        (first_purpose == kPurposes ? idle : alone[first_purpose]) += 1;
      }
      EXPECT_EQ(swept[w].alone, alone);
      EXPECT_EQ(swept[w].busy, busy);
      EXPECT_EQ(swept[w].idle, idle);
    }
  }
}

}  // namespace
}  // namespace ptdp
