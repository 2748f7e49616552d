// Tests that descriptors are closed once, by their last owner.
#include "cost_model/text/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace ptdp {
namespace {

bool is_open_in_system(int number) {
  struct stat status {};
  return ::fstat(number, &status) == 0;
}

struct Ends {
  Descriptor reader;
  Descriptor writer;
};

Ends pipe_ends() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  return {.reader = Descriptor(ends[0]), .writer = Descriptor(ends[1])};
}

TEST(Descriptor, IsClosedWithItsOwner) {
  int number = -1;
  {
    const Ends ends = pipe_ends();
    number = ends.reader.get();
    EXPECT_TRUE(is_open_in_system(number));
  }
  EXPECT_FALSE(is_open_in_system(number));
}

TEST(Descriptor, HasOneOwner) {
  Ends ends = pipe_ends();
  const int reader = ends.reader.get();
  Descriptor taken = std::move(ends.reader);
  EXPECT_FALSE(ends.reader.is_open());  // NOLINT(bugprone-use-after-move): what the test is for
  EXPECT_EQ(taken.get(), reader);
  const int writer = ends.writer.get();
  taken = std::exchange(ends.writer, Descriptor());
  EXPECT_EQ(taken.get(), writer);
  EXPECT_FALSE(is_open_in_system(reader));
  EXPECT_TRUE(is_open_in_system(writer));
}

TEST(Descriptor, SaysWhetherTheSystemClosedIt) {
  Ends ends = pipe_ends();
  EXPECT_TRUE(ends.reader.close());
  EXPECT_FALSE(ends.reader.is_open());
  EXPECT_TRUE(ends.reader.close()) << "there is none any more";
  Descriptor stranger(::dup(ends.writer.get()));
  ::close(stranger.get());
  EXPECT_FALSE(stranger.close());
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace ptdp
