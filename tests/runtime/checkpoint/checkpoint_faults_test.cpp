// Checkpoints that are damaged, half written or cannot be written: earlier ones stay and are used.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cost_model/text/files.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "tests/runtime/checkpoint/checkpointed_model.h"
#include "tests/support/error_of.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const CheckpointLayout kLayout{.tp = 2, .dp = 2, .shards_states = true, .type = DataType::kFloat32};
constexpr double kEarlier = 0.5;
constexpr double kLater = 0.75;

/// The checkpoints of steps 10 and 20, and a copy of the files of step 20.
class TwoCheckpoints {
 public:
  TwoCheckpoints() {
    save_checkpoint(path(), kLayout, 10, kEarlier);
    save_checkpoint(path(), kLayout, 20, kLater);
  }
  [[nodiscard]] fs::path path() const { return directory_.path() / "run"; }
  [[nodiscard]] fs::path later() const { return path() / "step-00000020"; }
  [[nodiscard]] std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(later())) {
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

 private:
  TemporaryDirectory directory_;
};

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

void set_byte(const fs::path& path, std::size_t place, char value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(place));
  file.put(value);
}

/// Returns the step that is opened. Expects that what it restores is of that step.
std::int64_t opened_step(const fs::path& directory) {
  const Checkpoint checkpoint = Checkpoint::open(directory);
  const std::int64_t step = checkpoint.state().step;
  EXPECT_EQ(find_restored_difference(checkpoint, {}, step == 10 ? kEarlier : kLater), "");
  return step;
}

std::size_t num_hidden(const fs::path& directory) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    count += entry.path().filename().string().starts_with('.') ? 1 : 0;
  }
  return count;
}

TEST(DamagedCheckpoint, IsPassedOverWhereAFileIsCutAnywhere) {
  const TwoCheckpoints checkpoints;
  ASSERT_EQ(opened_step(checkpoints.path()), 20);
  for (const fs::path& file : checkpoints.files()) {
    const std::string content = read_file(file);
    for (std::size_t length = 0; length < content.size(); length += 1 + content.size() / 7) {
      write(file, content.substr(0, length));
      ASSERT_EQ(Checkpoint::open(checkpoints.path()).state().step, 10) << file << length;
    }
    write(file, content + "x");
    ASSERT_EQ(opened_step(checkpoints.path()), 10) << file;
    write(file, content);
  }
  EXPECT_EQ(opened_step(checkpoints.path()), 20);
}

TEST(DamagedCheckpoint, IsPassedOverWhereAnyByteIsAnother) {
  const TwoCheckpoints checkpoints;
  for (const fs::path& file : checkpoints.files()) {
    const std::string content = read_file(file);
    for (std::size_t place = 0; place < content.size(); place += 1 + content.size() / 29) {
      set_byte(file, place, static_cast<char>(content[place] ^ 1));
      ASSERT_EQ(Checkpoint::open(checkpoints.path()).state().step, 10) << file << place;
      set_byte(file, place, content[place]);
    }
  }
  EXPECT_EQ(opened_step(checkpoints.path()), 20);
}

TEST(DamagedCheckpoint, IsPassedOverWhereAFileIsMissing) {
  const TwoCheckpoints checkpoints;
  for (const fs::path& file : checkpoints.files()) {
    const std::string content = read_file(file);
    fs::remove(file);
    ASSERT_EQ(opened_step(checkpoints.path()), 10) << file;
    fs::create_directory(file);
    ASSERT_EQ(opened_step(checkpoints.path()), 10) << file << " is a directory";
    fs::remove(file);
    write(file, content);
  }
  EXPECT_EQ(opened_step(checkpoints.path()), 20);
}

TEST(DamagedCheckpoint, IsPassedOverWhereFilesAreOfAnotherStep) {
  const TwoCheckpoints checkpoints;
  const fs::path earlier = checkpoints.path() / "step-00000010";
  for (const std::string name : {"rank-00001.bin", "rank-00001.json", "manifest.json"}) {
    const std::string content = read_file(checkpoints.later() / name);
    write(checkpoints.later() / name, read_file(earlier / name));
    if (name.ends_with(".json") && content == read_file(earlier / name)) {
      continue;
    }
    EXPECT_EQ(opened_step(checkpoints.path()), 10) << name;
    write(checkpoints.later() / name, content);
  }
  fs::remove_all(checkpoints.later());
  fs::copy(earlier, checkpoints.later());
  const Checkpoint opened = Checkpoint::open(checkpoints.path());
  EXPECT_EQ(opened.state().step, 10);
  EXPECT_THAT(opened.passed_over()[0], HasSubstr("is of step 10, expected that of its directory"));
}

TEST(DamagedCheckpoint, IsNamedWithWhatIsWrong) {
  const TwoCheckpoints checkpoints;
  const fs::path file = checkpoints.later() / "rank-00003.bin";
  const std::string content = read_file(file);
  const auto complaint = [&] {
    const Checkpoint checkpoint = Checkpoint::open(checkpoints.path());
    EXPECT_THAT(checkpoint.passed_over(), SizeIs(1));
    return checkpoint.passed_over()[0];
  };
  write(file, content.substr(0, 100));
  EXPECT_THAT(complaint(), HasSubstr("step-00000020/rank-00003.bin: 100 bytes, expected " +
                                     std::to_string(content.size())));
  write(file, std::string(content.size(), 'x'));
  EXPECT_THAT(complaint(), HasSubstr("step-00000020/rank-00003.bin: checksum "));
  fs::remove(file);
  EXPECT_THAT(complaint(), HasSubstr("rank-00003.bin: cannot be read: No such file"));
  EXPECT_THAT(error_of([&] { (void)Checkpoint::open(checkpoints.later()); }),
              HasSubstr("rank-00003.bin: cannot be read"));
}

TEST(DamagedCheckpoint, EndsARestoreThatIsUnderWay) {
  const TwoCheckpoints checkpoints;
  const Checkpoint checkpoint = Checkpoint::open(checkpoints.path());
  fs::remove_all(checkpoints.later());
  CheckpointedRank rank({}, 0);
  EXPECT_THAT(error_of([&] { checkpoint.restore(rank.backend(), rank.optimizer()); }),
              HasSubstr("cannot be read"));
}

TEST(CheckpointDirectory, ThatCannotBeListedIsNotTakenForEmpty) {
  const TemporaryDirectory directory;
  EXPECT_EQ(Checkpoint::newest_step(directory.path() / "nothing"), std::nullopt);
  EXPECT_EQ(Checkpoint::newest_step(directory.path()), std::nullopt);
  const fs::path turning = directory.path() / "turning";
  fs::create_symlink("turning", turning);
  EXPECT_THAT(error_of([&] { (void)Checkpoint::newest_step(turning); }),
              HasSubstr("turning: cannot be listed: Too many levels of symbolic links"));
  write(directory.path() / "file", "");
  EXPECT_THAT(error_of([&] { (void)Checkpoint::newest_step(directory.path() / "file"); }),
              HasSubstr("file: cannot be listed: Not a directory"));
}

TEST(CheckpointWriter, LeavesTheEarlierOneWhereItStopsHalfWay) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kLayout, 10, kEarlier);
  CheckpointedRank rank(kLayout, 0);
  const CheckpointWriter writer(directory.path(), 20);
  writer.begin();
  EXPECT_EQ(opened_step(directory.path()), 10);
  writer.write_shard(0, rank.backend(), rank.optimizer());
  EXPECT_EQ(opened_step(directory.path()), 10);
  // Another run comes and saves step 15: what was left is gone.
  EXPECT_EQ(num_hidden(directory.path()), 1U);
  save_checkpoint(directory.path(), kLayout, 15, kLater);
  EXPECT_EQ(num_hidden(directory.path()), 0U);
  EXPECT_EQ(opened_step(directory.path()), 15);
}

TEST(CheckpointWriter, ReplacesTheSameStep) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), {.dp = 4, .shards_states = true}, 10, kLater);
  save_checkpoint(directory.path(), kLayout, 10, kEarlier);
  EXPECT_EQ(opened_step(directory.path()), 10);
  EXPECT_EQ(num_hidden(directory.path()), 0U);
}

// What is left of a run that ended between two renames, where names cannot be exchanged.
TEST(CheckpointWriter, BringsBackWhatItsSuccessorDidNotReplace) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kLayout, 10, kEarlier);
  fs::rename(directory.path() / "step-00000010", directory.path() / ".step-00000010.replaced");
  CheckpointWriter(directory.path(), 20).begin();
  EXPECT_EQ(opened_step(directory.path()), 10);
}

// What failed attempts left is removed, where it is known to be theirs: of one that was moved aside
// and has a successor, and of one that was not finished.
TEST(CheckpointWriter, RemovesWhatFailedAttemptsLeftAndNothingElse) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kLayout, 10, kEarlier);
  const std::vector<std::string> kept = {".notes.partial",          ".notes.replaced",
                                         ".step-10.partial",        "step-00000030.partial",
                                         ".step-00000030.partial2", "notes"};
  const std::vector<std::string> left = {".step-00000010.replaced", ".step-00000010.partial",
                                         ".step-00000020.partial"};
  for (const std::vector<std::string>& names : {kept, left}) {
    for (const std::string& name : names) {
      fs::create_directory(directory.path() / name);
      write(directory.path() / name / "file", name);
    }
  }
  const CheckpointWriter writer(directory.path(), 40);
  writer.begin();
  writer.discard();
  for (const std::string& name : kept) {
    EXPECT_TRUE(fs::exists(directory.path() / name / "file")) << name;
  }
  for (const std::string& name : left) {
    EXPECT_FALSE(fs::exists(directory.path() / name)) << name;
  }
  EXPECT_FALSE(fs::exists(directory.path() / ".step-00000040.partial"));
  EXPECT_EQ(opened_step(directory.path()), 10);
}

TEST(CheckpointWriter, RefusesToFinishWithoutAllShards) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kLayout, 10, kEarlier);
  const CheckpointWriter writer(directory.path(), 20);
  writer.begin();
  CheckpointedRank rank(kLayout, 0);
  writer.write_shard(0, rank.backend(), rank.optimizer());
  EXPECT_EQ(status_of([&] { writer.finish(state_at(20), kLayout.world_size()); }),
            ExitStatus::kOutputFailed);
  EXPECT_EQ(opened_step(directory.path()), 10);
  writer.discard();
  EXPECT_EQ(num_hidden(directory.path()), 0U);
}

TEST(CheckpointWriter, SaysThatTheDiskIsFullAndLeavesTheEarlierOne) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kLayout, 10, kEarlier);
  int num_failures = 0;
  for (const rlim_t bytes : {0U, 50U, 200U, 900U, 1200U, 2000U, 4000U}) {
    std::string message;
    {
      const FileSizeLimit limit(bytes);
      EXPECT_NE(status_of([&] { save_checkpoint(directory.path(), kLayout, 20, kLater); }),
                ExitStatus::kBadInput);
      message = error_of([&] { save_checkpoint(directory.path(), kLayout, 20, kLater); });
    }
    if (message != "nothing thrown") {
      ++num_failures;
      EXPECT_THAT(message, HasSubstr(": cannot write: File too large"));
      EXPECT_EQ(opened_step(directory.path()), 10) << bytes << " bytes";
    }
  }
  EXPECT_GE(num_failures, 4);
  CheckpointWriter(directory.path(), 20).discard();
  EXPECT_EQ(num_hidden(directory.path()), 0U);
}

int descriptor_of(const fs::path& file) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (fs::read_symlink(entry.path(), error) == fs::canonical(file)) {
      return std::stoi(entry.path().filename().string());
    }
  }
  return -1;
}

/// Counts SIGUSR1 during its lifetime, and lets it interrupt the call that its thread is in.
class InterruptingSignal {
 public:
  InterruptingSignal() {
    struct sigaction action = {};
    action.sa_handler = [](int /*signal*/) { ++handled; };
    handled = 0;
    ::sigaction(SIGUSR1, &action, &before_);
  }
  InterruptingSignal(const InterruptingSignal&) = delete;
  InterruptingSignal& operator=(const InterruptingSignal&) = delete;
  InterruptingSignal(InterruptingSignal&&) = delete;
  InterruptingSignal& operator=(InterruptingSignal&&) = delete;
  ~InterruptingSignal() { ::sigaction(SIGUSR1, &before_, nullptr); }
  [[nodiscard]] static int count() { return handled; }

 private:
  static inline std::atomic<int> handled = 0;
  struct sigaction before_ = {};
};

// As on a file system that lets signals interrupt a write. A pipe takes the file's place, for it
// does so everywhere: it is full, nobody reads, and so the writer waits until a signal comes.
TEST(ChecksummedFile, IsWrittenWholeWhereSignalsInterruptIt) {
  const TemporaryDirectory directory;
  std::optional<ChecksummedFile> file(directory.path() / "file");
  std::array<int, 2> pipe = {};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  ASSERT_GE(::dup2(pipe[1], descriptor_of(directory.path() / "file")), 0);
  ::close(pipe[1]);

  std::string content;
  while (content.size() < std::size_t{1} << 18) {  // four times what a pipe holds
    content += std::to_string(content.size()) + ' ';
  }
  const InterruptingSignal signal;
  std::atomic<bool> has_ended = false;
  std::string message;
  std::thread writer([&] {
    message = error_of([&] { file->append(std::as_bytes(std::span(content))); });
    file.reset();
    has_ended = true;
  });
  // The first to come while it waits ends a write of what the pipe holds, the next one of nothing.
  while (InterruptingSignal::count() < 100 && !has_ended) {
    ::pthread_kill(writer.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::string found;
  std::array<char, 4096> part = {};
  for (ssize_t count = 1; count > 0; found.append(part.data(), static_cast<std::size_t>(count))) {
    count = std::max(::read(pipe[0], part.data(), part.size()), ssize_t{0});
  }
  writer.join();
  ::close(pipe[0]);
  EXPECT_EQ(message, "nothing thrown");
  EXPECT_TRUE(found == content) << found.size() << " of " << content.size() << " bytes";
}

TEST(CheckpointWriter, SaysWhereItCannotWrite) {
  const TemporaryDirectory directory;
  const auto begin = [](const fs::path& path) { CheckpointWriter(path, 20).begin(); };
  for (const fs::path& path :
       {directory.file("file", ""), directory.path() / "file" / "below", fs::path("/proc/ptdp")}) {
    EXPECT_EQ(status_of([&] { begin(path); }), ExitStatus::kOutputFailed) << path;
    EXPECT_THAT(error_of([&] { begin(path); }), HasSubstr(path.string() + ": cannot ")) << path;
  }
}

// A child saves step 20 over and over and is killed at some moment: what there is is whole.
TEST(CheckpointWriter, LeavesWholeCheckpointsWheneverItIsKilled) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), kLayout, 10, kEarlier);
  for (int trial = 0; trial < 12; ++trial) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      while (true) {
        save_checkpoint(directory.path(), kLayout, 20, kLater);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 1370 * trial));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const Checkpoint checkpoint = Checkpoint::open(directory.path());
    EXPECT_THAT(checkpoint.passed_over(), SizeIs(0));
    const double salt = checkpoint.state().step == 10 ? kEarlier : kLater;
    EXPECT_EQ(find_restored_difference(checkpoint, {.pp = 2}, salt), "");
  }
}

}  // namespace
}  // namespace ptdp
