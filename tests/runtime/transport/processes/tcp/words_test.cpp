// Tests that the fields of a line are taken one by one, and that unexpected fields are refused.
#include "runtime/transport/processes/tcp/words.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ptdp {
namespace {

TEST(Words, AreTakenOneByOne) {
  Words words("hello 17 -1 node-7");
  words.expect("hello");
  EXPECT_EQ(words.number(0, 17), 17);
  EXPECT_EQ(words.number(-1, 0), -1);
  EXPECT_FALSE(words.is_over());
  EXPECT_EQ(words.word(), "node-7");
  EXPECT_TRUE(words.is_over());
  EXPECT_TRUE(words.is_good());
}

TEST(Words, AreSpoiledByOneThatIsMissing) {
  for (const char* text : {"", "one", "one ", " one", "one  two"}) {
    Words words(text);
    words.word();
    words.word();
    EXPECT_FALSE(words.is_good()) << '"' << text << '"';
  }
}

TEST(Words, AreSpoiledByAnother) {
  Words words("hello hello");
  words.expect("goodbye");
  words.expect("hello");
  EXPECT_FALSE(words.is_good());
}

TEST(Words, AreSpoiledByWhatIsNoNumberInItsBounds) {
  for (const char* text : {"", "x", "1x", "+1", "0x1", "1.5", "8", "-2", "99999999999999999999"}) {
    Words words(text);
    EXPECT_EQ(words.number(-1, 7), -1);
    EXPECT_FALSE(words.is_good()) << '"' << text << '"';
  }
  Words largest("18446744073709551615 65536");
  EXPECT_EQ(largest.number<std::uint64_t>(0, UINT64_MAX), UINT64_MAX);
  EXPECT_TRUE(largest.is_good());
  EXPECT_EQ(largest.number<std::uint16_t>(1, UINT16_MAX), 1);
  EXPECT_FALSE(largest.is_good());
}

}  // namespace
}  // namespace ptdp
