// Tests of reading files whole, and of replacing them atomically.
#include "cost_model/text/files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

std::string write_failure(const fs::path& path, std::string_view content) {
  return message_of(
      [&] {
        write_file_atomically(path, content);
        return 0;
      },
      ExitStatus::kOutputFailed);
}

std::string write_failure(const std::vector<FileContent>& files) {
  return message_of(
      [&] {
        write_files_atomically(files);
        return 0;
      },
      ExitStatus::kOutputFailed);
}

std::size_t num_entries(const fs::path& directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(ReadFile, GivesEveryByte) {
  const TemporaryDirectory directory;
  std::string content("a\0b\r\n\xFF", 6);
  content += std::string(200'000, 'x');  // more than one block
  EXPECT_EQ(read_file(directory.file("x", content)), content);
}

TEST(ReadFile, GivesNothingOfAnEmptyFile) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_file(directory.file("x", "")), "");
}

TEST(ReadFile, FollowsALink) {
  const TemporaryDirectory directory;
  fs::create_symlink(directory.file("x", "content"), directory.path() / "link");
  EXPECT_EQ(read_file(directory.path() / "link"), "content");
}

TEST(ReadFile, NamesAMissingFile) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "x";
  EXPECT_EQ(message_of([&] { return read_file(path); }),
            path.string() + ": cannot be read: No such file or directory");
}

TEST(ReadFile, NamesAFileWhoseNameIsTooLong) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / std::string(300, 'x');
  EXPECT_EQ(message_of([&] { return read_file(path); }),
            path.string() + ": cannot be read: File name too long");
}

TEST(ReadFile, RefusesADirectory) {
  const TemporaryDirectory directory;
  EXPECT_EQ(message_of([&] { return read_file(directory.path()); }),
            directory.path().string() + ": expected a file, found a directory");
}

// Opening a pipe that nobody writes to waits for ever; the time limit of ctest would show it.
TEST(ReadFile, RefusesAPipeWithoutWaiting) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { return read_file(path); }),
            path.string() + ": expected a regular file, found a pipe or device");
}

TEST(ReadFile, RefusesADevice) {
  EXPECT_EQ(message_of([] { return read_file("/dev/zero"); }),
            "/dev/zero: expected a regular file, found a pipe or device");
}

TEST(ReadFile, TakesAFileOfTheLimit) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_file(directory.file("x", "12345"), 5), "12345");
}

TEST(ReadFile, RefusesAFileBeyondTheLimit) {
  const TemporaryDirectory directory;
  const fs::path path = directory.file("x", "123456");
  EXPECT_EQ(message_of([&] { return read_file(path, 5); }),
            path.string() + ": larger than the limit of 5 bytes");
}

TEST(WriteFile, WritesEveryByte) {
  const TemporaryDirectory directory;
  const std::string content("a\0b\r\n\xFF", 6);
  write_file_atomically(directory.path() / "x", content);
  EXPECT_EQ(read_file(directory.path() / "x"), content);
}

TEST(WriteFile, ReplacesWhatWasThere) {
  const TemporaryDirectory directory;
  const fs::path path = directory.file("x", "the old and longer one");
  write_file_atomically(path, "new");
  EXPECT_EQ(read_file(path), "new");
}

TEST(WriteFile, WritesIntoTheWorkingDirectory) {
  const TemporaryDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  write_file_atomically("x", "content");
  fs::current_path(before);
  EXPECT_EQ(read_file(directory.path() / "x"), "content");
}

TEST(WriteFile, LeavesNothingElseBehind) {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "x", "content");
  EXPECT_EQ(num_entries(directory.path()), 1U);
}

// 0666 less the mask 0027.
TEST(WriteFile, GivesTheFileTheUsualPermissions) {
  const TemporaryDirectory directory;
  const mode_t before = ::umask(0027);
  write_file_atomically(directory.path() / "x", "content");
  ::umask(before);
  EXPECT_EQ(fs::status(directory.path() / "x").permissions(), fs::perms{0640});
}

// One file may be read by its owner alone; the other may also be written by its group.
TEST(WriteFile, KeepsThePermissionsOfTheFileThatItReplaces) {
  const TemporaryDirectory directory;
  for (const auto permissions : {fs::perms{0600}, fs::perms{0664}, fs::perms{0750}}) {
    const fs::path path = directory.file("x", "old");
    fs::permissions(path, permissions);
    write_file_atomically(path, "new");
    EXPECT_EQ(fs::status(path).permissions(), permissions);
  }
}

TEST(WriteFile, LeavesTheMaskOfTheProcessAsItWas) {
  const TemporaryDirectory directory;
  const mode_t before = ::umask(0027);
  write_file_atomically(directory.path() / "x", "content");
  EXPECT_EQ(::umask(before), mode_t{0027});
}

TEST(WriteFile, NamesAMissingDirectory) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "missing" / "x";
  EXPECT_EQ(write_failure(path, "content"),
            path.string() + ": cannot create a file beside it: No such file or directory");
}

TEST(WriteFile, RefusesToReplaceADirectory) {
  const TemporaryDirectory directory;
  EXPECT_EQ(write_failure(directory.path(), "content"),
            directory.path().string() + ": cannot write: it is no regular file");
}

// As root, `--output /dev/null` would otherwise put a file where the device was.
TEST(WriteFile, RefusesToReplaceAPipeOrDevice) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(write_failure(path, "content"), StartsWith(path.string() + ": "));
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST(WriteFile, NamesAFileWhoseNameIsTooLong) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / std::string(300, 'x');
  EXPECT_THAT(write_failure(path, "content"), HasSubstr("File name too long"));
}

TEST(WriteFile, NamesALoopOfLinks) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "loop";
  fs::create_directory_symlink(path, path);
  EXPECT_THAT(write_failure(path / "x", "content"), HasSubstr("Too many levels"));
}

TEST(WriteFile, NamesAPathThatCannotBeRenamedOnto) {
  const TemporaryDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  EXPECT_EQ(write_failure("", "content"), ": cannot rename onto it: No such file or directory");
  fs::current_path(before);
  EXPECT_EQ(num_entries(directory.path()), 0U);
}

TEST(WriteFile, KeepsTheOldFileWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  const fs::path path = directory.file("x", "old");
  const std::string content(10'000, 'x');
  {
    const FileSizeLimit full(5'000);
    EXPECT_EQ(write_failure(path, content), path.string() + ": cannot write: File too large");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(num_entries(directory.path()), 1U);
}

TEST(WriteFilesAtomically, WritesThemAll) {
  const TemporaryDirectory directory;
  const fs::path old = directory.file("old", "old");
  write_files_atomically(std::vector<FileContent>{{old, "new"}, {directory.path() / "x", "y"}});
  EXPECT_EQ(read_file(old), "new");
  EXPECT_EQ(read_file(directory.path() / "x"), "y");
  EXPECT_EQ(num_entries(directory.path()), 2U);
}

TEST(WriteFilesAtomically, ReplacesNoneWhereOneCannotBeWritten) {
  const TemporaryDirectory directory;
  const fs::path old = directory.file("old", "old");
  EXPECT_THAT(write_failure({{old, "new"}, {directory.path() / "nowhere" / "x", "y"}}),
              HasSubstr("nowhere/x"));
  EXPECT_EQ(read_file(old), "old");
  EXPECT_EQ(num_entries(directory.path()), 1U);
}

}  // namespace
}  // namespace ptdp
