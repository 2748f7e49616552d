// Tests of pairs of predicted and measured values.
#include "planner/runs/measured.h"

#include <gtest/gtest.h>

#include "cost_model/text/object_writer.h"
#include "tests/support/round_trip.h"

namespace ptdp {
namespace {

struct Both {
  Measured<Seconds> time;
  Measured<Bytes> size;
  Measured<int> places;
  Measured<std::int64_t> sent;
};
template <class Fields>
void describe(Fields& fields, Described<Fields, Both>& both) {
  describe_measured(fields, both.time, "s");
  describe_measured(fields, both.size, "bytes");
  describe_measured(fields, both.places, "places");
  describe_measured(fields, both.sent, "sent");
}

TEST(Measured, ReadsBackAsItWasWritten) {
  const std::string text = dump(Both{.time = {Seconds(1.5), Seconds(2.0)},
                                     .size = {Bytes(3.0), Bytes(4.0)},
                                     .places = {5, 6},
                                     .sent = {std::int64_t{1} << 40, 7}});
  EXPECT_EQ(text, R"({
  "predicted_s": 1.5,
  "measured_s": 2.0,
  "predicted_bytes": 3.0,
  "measured_bytes": 4.0,
  "predicted_places": 5,
  "measured_places": 6,
  "predicted_sent": 1099511627776,
  "measured_sent": 7
}
)");
  EXPECT_EQ(dump(parse<Both>(text)), text);
}

TEST(Measured, IsARowWithADashForWhatIsUnknown) {
  EXPECT_EQ(measured_row("a", {Seconds(1.5), Seconds(2.0)}),
            "  a                                    1.5 s             2 s    -25.0 %\n");
  EXPECT_EQ(measured_row("a", Measured<Seconds>{}),
            "  a                                        -               -\n");
  EXPECT_EQ(measured_row("a", {Bytes(0.0), Bytes(2e9)}),
            "  a                                        -            2 GB\n");
}

}  // namespace
}  // namespace ptdp
