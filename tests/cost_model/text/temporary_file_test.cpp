// Tests what writers leave in a directory when they end, and what a later writer does with it.
#include "cost_model/text/temporary_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(TemporaryFile, IsHiddenAndPrivateAndGoneWithItsWriter) {
  const TemporaryDirectory directory;
  {
    const TemporaryFile file(directory.path());
    ASSERT_GE(file.descriptor(), 0);
    const std::vector<std::string> names = names_in(directory.path());
    ASSERT_EQ(names.size(), 1U);
    EXPECT_EQ(names[0].substr(0, 17), ".ptdp-unfinished.");
    EXPECT_EQ(fs::status(directory.path() / names[0]).permissions(), fs::perms(0600));
  }
  EXPECT_TRUE(names_in(directory.path()).empty());
}

TEST(TemporaryFile, StaysOnceItIsRenamed) {
  const TemporaryDirectory directory;
  {
    TemporaryFile file(directory.path());
    ASSERT_TRUE(file.rename_onto(directory.path() / "x"));
  }
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"x"});
}

TEST(TemporaryFile, IsNotMadeWhereNoneCanBe) {
  const TemporaryFile file("/nowhere");
  EXPECT_LT(file.descriptor(), 0);
  EXPECT_EQ(errno, ENOENT);
}

TEST(TemporaryFile, IsRemovedByAHandlerOfSignals) {
  const TemporaryDirectory directory;
  std::optional<TemporaryFile> first(directory.path());
  const TemporaryFile second(directory.path());
  ASSERT_EQ(names_in(directory.path()).size(), 2U);
  first.reset();
  const fs::path other = directory.file(".ptdp-unfinished.aB3dE6aB3dE6", "not of this process");
  remove_temporary_files();
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{other.filename().string()});
}

/// Returns the name of the file that a killed writer leaves.
std::string leave_one(const fs::path& directory) {
  const pid_t child = ::fork();
  if (child == 0) {
    const TemporaryFile file(directory);
    ::_exit(0);  // no destructor runs
  }
  ::waitpid(child, nullptr, 0);
  return names_in(directory).at(0);
}

TEST(TemporaryFile, OfAKilledWriterIsRemovedByTheNext) {
  const TemporaryDirectory directory;
  const std::string left = leave_one(directory.path());
  ASSERT_EQ(left.substr(0, 17), ".ptdp-unfinished.");
  const TemporaryFile next(directory.path());
  EXPECT_FALSE(fs::exists(directory.path() / left));
}

TEST(TemporaryFile, OfALivingWriterIsLeftAlone) {
  const TemporaryDirectory directory;
  TemporaryFile living(directory.path());
  { const TemporaryFile next(directory.path()); }
  EXPECT_TRUE(living.rename_onto(directory.path() / "x"));
}

TEST(TemporaryFile, LeavesAloneWhatIsNotOne) {
  const TemporaryDirectory directory;
  const fs::path target = directory.file("target", "kept");
  for (const char* name : {".ptdp.config", ".ptdp-unfinished.short",
                           ".ptdp-unfinished.muchtoolongaone", ".ptdp-unfinished.a-b.cda-b.cd",
                           "x.ptdp-unfinished.aB3dE6aB3dE6", "ptdp-unfinished.aB3dE6aB3dE6"}) {
    (void)directory.file(name, "kept");
  }
  fs::create_symlink(target, directory.path() / ".ptdp-unfinished.linkedlinked");
  fs::create_directory(directory.path() / ".ptdp-unfinished.folderfolder");
  ASSERT_EQ(::mkfifo((directory.path() / ".ptdp-unfinished.a0pipea0pipe").c_str(), 0600), 0);
  const std::vector<std::string> before = names_in(directory.path());
  { const TemporaryFile file(directory.path()); }
  EXPECT_EQ(names_in(directory.path()), before);
}

// Two that begin at once must not take each other's file for abandoned.
TEST(TemporaryFile, OfManyWritersAtOnceIsEachRenamed) {
  const TemporaryDirectory directory;
  constexpr int writers = 4;
  constexpr int rounds = 100;
  for (int writer = 0; writer < writers; ++writer) {
    if (::fork() == 0) {
      for (int i = 0; i < rounds; ++i) {
        TemporaryFile file(directory.path());
        if (!file.rename_onto(directory.path() / ("x" + std::to_string(writer)))) {
          ::_exit(1);
        }
      }
      ::_exit(0);
    }
  }
  for (int writer = 0; writer < writers; ++writer) {
    int status = 0;
    ASSERT_GT(::wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"x0", "x1", "x2", "x3"}));
}

}  // namespace
}  // namespace ptdp
