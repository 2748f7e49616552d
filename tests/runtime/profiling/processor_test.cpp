// Tests of what is found out about a host's processor.
#include "runtime/profiling/processor.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

TEST(CoresOfQuota, RoundUpAShareOfTimeAndKnowNoLimit) {
  EXPECT_EQ(cores_of_quota("150000", "100000"), 2);
  EXPECT_EQ(cores_of_quota("200000\n", "100000\n"), 2);
  EXPECT_EQ(cores_of_quota("1000", "100000"), 1);
  EXPECT_EQ(cores_of_quota("max", "100000"), 0);
  EXPECT_EQ(cores_of_quota("-1", "100000"), 0);
  EXPECT_EQ(cores_of_quota("", ""), 0);
}

TEST(ProcessorName, IsTheFirstOfTheSystemsListInPrintableLetters) {
  EXPECT_EQ(processor_name_in("processor\t: 0\nmodel name\t: Fast\x01 9000\nmodel name\t: b\n"),
            "Fast? 9000");
  EXPECT_EQ(processor_name_in("nothing"), "unknown");
  EXPECT_FALSE(processor_name().empty());
}

TEST(AvailableCores, AreOneAtLeast) {
  EXPECT_GE(available_cores(), 1);
}

}  // namespace
}  // namespace ptdp
