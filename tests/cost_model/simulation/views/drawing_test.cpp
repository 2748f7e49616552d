// Tests of the drawing of a step as text.
#include "cost_model/simulation/views/drawing.h"

#include <gtest/gtest.h>

#include "tests/cost_model/simulation/spans.h"

namespace ptdp {
namespace {

// 1F1B with F = 1 and B = 2, by hand: rank 1 starts a forward pass later, and rank 0 waits for its
// first gradient until 5.
Schedule two_ranks() {
  return {.name = "1f1b",
          .pp = 2,
          .num_microbatches = 2,
          .orders = {parse_order("0F0 0F1 0B0 0B1", ""), parse_order("1F0 1B0 1F1 1B1", "")}};
}
Timeline two_ranks_timeline() {
  return {.spans = {{span(0, 1), span(1, 2), span(4, 6), span(7, 9)},
                    {span(1, 2), span(2, 4), span(4, 5), span(5, 7)}}};
}

TEST(Drawing, NamesWhatIsWideEnough) {
  const DrawingWindow window{.to = Seconds(9.0), .last_rank = 1, .columns = 45};
  EXPECT_EQ(draw(two_ranks(), two_ranks_timeline(), MessageMode::kOverlapped, window),
            "          |0 s                  |4.5 s                 |9 s\n"
            "rank 0    F0---F1---..........B0--------.....B1--------\n"
            "rank 1    .....F0---B0--------F1---B1--------..........\n");
}

TEST(Drawing, WritesLettersWhereNamesDoNotFit) {
  const DrawingWindow window{.to = Seconds(9.0), .last_rank = 1, .columns = 9};
  const std::string text =
      draw(two_ranks(), two_ranks_timeline(), MessageMode::kOverlapped, window);
  EXPECT_NE(text.find("rank 0    FF..BB.BB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1    .FBBFBB..\n"), std::string::npos) << text;
}

// Nine seconds on three columns: three seconds each, of which rank 0 has two F; two B; two B.
TEST(Drawing, ShowsWhatHasMostOfAColumn) {
  const DrawingWindow window{.to = Seconds(9.0), .last_rank = 0, .columns = 3};
  const std::string text =
      draw(two_ranks(), two_ranks_timeline(), MessageMode::kOverlapped, window);
  EXPECT_NE(text.find("rank 0    FBB\n"), std::string::npos) << text;
}

TEST(Drawing, IsAWindow) {
  const DrawingWindow window{
      .from = Seconds(4.0), .to = Seconds(6.0), .first_rank = 1, .last_rank = 1, .columns = 8};
  EXPECT_EQ(draw(two_ranks(), two_ranks_timeline(), MessageMode::kOverlapped, window),
            "          |4 s    |6 s\n"
            "rank 1    F1--B1--\n");
}

TEST(Drawing, ThinsOutManyRanks) {
  Schedule schedule{.pp = 9, .orders = {}};
  Timeline timeline;
  for (int rank = 0; rank < 9; ++rank) {
    schedule.orders.push_back({Action{.stage = rank}});
    timeline.spans.push_back({span(rank, rank + 1)});
  }
  const DrawingWindow window{.to = Seconds(9.0), .last_rank = 8, .rows = 3, .columns = 9};
  const std::string text = draw(schedule, timeline, MessageMode::kOverlapped, window);
  EXPECT_NE(text.find("rank 0    F........\nrank 4    ....F....\nrank 8    ........F\n"),
            std::string::npos)
      << text;
}

// Behind the backward pass gradients are reduced, then the norm, then the optimizer.
TEST(Drawing, ShowsWhatABubbleWaitsFor) {
  const Schedule schedule{.orders = {{{ActionKind::kForward},
                                      {ActionKind::kBackward},
                                      {ActionKind::kReduceGradients},
                                      {ActionKind::kReduceNorm},
                                      {ActionKind::kOptimizer}}}};
  const Timeline timeline{.spans = {{span(0, 1), span(1, 3), span(2, 5), span(5, 6), span(6, 8)}}};
  const DrawingWindow window{.to = Seconds(8.0), .last_rank = 0, .columns = 8};
  const std::string text = draw(schedule, timeline, MessageMode::kOverlapped, window);
  EXPECT_NE(text.find("rank 0    FBB**aOO\n"), std::string::npos) << text;
}

TEST(Drawing, ShowsMessagesThatBlock) {
  const Schedule schedule{.pp = 1,
                          .orders = {{{ActionKind::kForward}, {ActionKind::kSendForward}}}};
  const Timeline timeline{.spans = {{span(0, 1), span(1, 2)}}};
  const DrawingWindow window{.to = Seconds(2.0), .last_rank = 0, .columns = 2};
  EXPECT_NE(draw(schedule, timeline, MessageMode::kBlocking, window).find("Fm\n"),
            std::string::npos);
  EXPECT_NE(draw(schedule, timeline, MessageMode::kOverlapped, window).find("F.\n"),
            std::string::npos);
}

// A pair, recomputation, both halves of a backward pass, a hand-over, and the end of a step.
TEST(Drawing, HasALetterForEachKind) {
  const Schedule schedule{
      .orders = {parse_order("(0F0;0B1) 0R0 0I0 0W0 0COPY_F0 0TIED0 0NORM0 0OPTIMIZER0", "")}};
  const Timeline timeline{.spans = {{span(0, 1), span(0, 1), span(1, 2), span(2, 3), span(3, 4),
                                     span(4, 5), span(5, 6), span(6, 7), span(7, 8)}}};
  const DrawingWindow window{.to = Seconds(8.0), .last_rank = 0, .columns = 8};
  EXPECT_EQ(draw(schedule, timeline, MessageMode::kOverlapped, window),
            "          |0 s    |8 s\nrank 0    &RIWmaaO\n");
}

TEST(Drawing, NamesBothOfAPair) {
  const Schedule schedule{.orders = {parse_order("(0F0;0B1) 0F12", "")}};
  const Timeline timeline{.spans = {{span(0, 2), span(0, 2), span(2, 4)}}};
  const DrawingWindow window{.to = Seconds(4.0), .last_rank = 0, .columns = 16};
  EXPECT_EQ(draw(schedule, timeline, MessageMode::kOverlapped, window),
            "          |0 s            |4 s\nrank 0    F0&B1---F12-----\n");
}

// Three columns for "F12": no room, as the next name would touch it.
TEST(Drawing, LeavesAColumnBehindAName) {
  const Schedule schedule{.orders = {parse_order("0F12 0F13", "")}};
  const Timeline timeline{.spans = {{span(0, 1), span(1, 2)}}};
  const auto row = [&](int columns) {
    const std::string text = draw(schedule, timeline, MessageMode::kOverlapped,
                                  {.to = Seconds(2.0), .last_rank = 0, .columns = columns});
    return text.substr(text.find('\n') + 1);
  };
  EXPECT_EQ(row(6), "rank 0    FFFFFF\n");
  EXPECT_EQ(row(8), "rank 0    F12-F13-\n");
}

TEST(Drawing, WritesTimesInUnitsThatSuitThem) {
  const Schedule schedule{.orders = {parse_order("0F0", "")}};
  const Timeline timeline{.spans = {{span(0, 1)}}};
  const auto ruler = [&](double from, double to, int columns) {
    const std::string text =
        draw(schedule, timeline, MessageMode::kOverlapped,
             {.from = Seconds(from), .to = Seconds(to), .last_rank = 0, .columns = columns});
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(ruler(0.0, 0.0125, 10), "          |0 s      |12.5 ms");
  EXPECT_EQ(ruler(0.99999, 1.00001, 10), "          |1000 ms  |1 s");
  EXPECT_EQ(ruler(1.25, 12345.0, 10), "          |1.25 s   |1.234e+04 s");
  // Three times from 36 columns on; of few columns the second stands behind the first.
  EXPECT_EQ(ruler(0.0, 2.0, 35), "          |0 s" + std::string(31, ' ') + "|2 s");
  EXPECT_EQ(ruler(0.0, 2.0, 36),
            "          |0 s" + std::string(14, ' ') + "|1 s" + std::string(14, ' ') + "|2 s");
  EXPECT_EQ(ruler(0.0, 2.0, 2), "          |0 s |2 s");
}

TEST(Drawing, OfOneRowIsOfTheFirstRank) {
  const DrawingWindow window{.to = Seconds(9.0), .last_rank = 1, .rows = 1, .columns = 9};
  EXPECT_EQ(draw(two_ranks(), two_ranks_timeline(), MessageMode::kOverlapped, window),
            "          |0 s     |9 s\nrank 0    FF..BB.BB\n");
}

}  // namespace
}  // namespace ptdp
