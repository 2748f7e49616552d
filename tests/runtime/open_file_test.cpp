// Tests of files that are read at any offset.
#include "runtime/open_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <span>
#include <string>
#include <utility>

#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

/// Returns what a read of `count` bytes at `offset` finds, or its message.
std::string read_at(const OpenFile& file, std::int64_t offset, std::size_t count) {
  std::string text(count, '?');
  const std::string message = message_of([&] {
    file.read(offset, std::as_writable_bytes(std::span(text)));
    return 0;
  });
  return message == "nothing was thrown" ? text : message;
}

TEST(OpenFile, IsReadAtAnyPlaceUpToItsEnd) {
  const TemporaryDirectory directory;
  const OpenFile file(directory.file("digits", "0123456789"));
  EXPECT_EQ(file.size(), 10);
  EXPECT_EQ(file.path(), directory.path() / "digits");
  EXPECT_EQ(read_at(file, 0, 10), "0123456789");
  EXPECT_EQ(read_at(file, 9, 1), "9");
  EXPECT_EQ(read_at(file, 4, 3), "456");
  EXPECT_EQ(read_at(file, 10, 0), "");
}

// The message says how much of the request is missing, and where.
TEST(OpenFile, SaysWhereItEndsAndWhatIsMissing) {
  const TemporaryDirectory directory;
  const auto path = directory.file("digits", "0123456789");
  const OpenFile file(path);
  EXPECT_EQ(read_at(file, 6, 7), path.string() + ": ends at byte 10, expected 3 bytes more");
  EXPECT_EQ(read_at(file, 10, 1), path.string() + ": ends at byte 10, expected 1 bytes more");
  EXPECT_EQ(read_at(file, 25, 5), path.string() + ": ends at byte 10, expected 20 bytes more");
}

TEST(OpenFile, SaysWhereAFileEndsThatWasCutSince) {
  const TemporaryDirectory directory;
  const auto path = directory.file("digits", "0123456789");
  const OpenFile file(path);
  std::filesystem::resize_file(path, 4);
  EXPECT_EQ(read_at(file, 8, 2), path.string() + ": ends at byte 4, expected 6 bytes more");
}

TEST(OpenFile, RefusesWhatIsNoFile) {
  const TemporaryDirectory directory;
  const auto message = [&](const std::string& name) {
    const auto path = directory.path() / name;
    const std::string text = message_of([&] { return OpenFile(path).size(); });
    EXPECT_EQ(text.substr(0, path.string().size() + 2), path.string() + ": ");
    return text.substr(path.string().size() + 2);
  };
  EXPECT_EQ(message("nothing"), "cannot be read: No such file or directory");
  EXPECT_EQ(message(""), "expected a file, found a directory");
  const auto pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message("pipe"), "expected a regular file, found a pipe or device");
}

TEST(OpenFile, IsMovedWithItsNameAndSize) {
  const TemporaryDirectory directory;
  OpenFile first(directory.file("a", "aaa"));
  OpenFile second(directory.file("b", "bbbbb"));
  second = std::move(first);
  EXPECT_EQ(second.path(), directory.path() / "a");
  EXPECT_EQ(second.size(), 3);
  EXPECT_EQ(read_at(second, 0, 3), "aaa");
  const OpenFile third(std::move(second));
  EXPECT_EQ(third.path(), directory.path() / "a");
  EXPECT_EQ(third.size(), 3);
  EXPECT_EQ(read_at(third, 1, 2), "aa");
}

}  // namespace
}  // namespace ptdp
