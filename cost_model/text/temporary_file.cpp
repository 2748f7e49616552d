#include "cost_model/text/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

namespace ptdp {
namespace {

namespace fs = std::filesystem;

// Nobody gives a file of their own such a name by hand.
constexpr std::string_view kPrefix = ".ptdp-unfinished.";
constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::size_t kNumLetters = 12;

/// The name of a temporary file for a signal handler to read, in memory that is never freed.
struct RemovedName {
  std::atomic<bool> is_taken = false;
  std::atomic<bool> is_there = false;
  std::array<char, PATH_MAX> path = {};
};
// A file that finds no place among the names is left to a later process to remove.
constexpr std::size_t kMostNames = 64;
std::array<RemovedName, kMostNames> removed_names;
static_assert(std::atomic<bool>::is_always_lock_free);

std::size_t take_place() {
  std::size_t place = 0;
  while (place < kMostNames && removed_names[place].is_taken.exchange(true)) {
    ++place;
  }
  return place;
}

void note(std::size_t place, const std::string& path) {
  if (place < kMostNames && path.size() < PATH_MAX) {
    removed_names[place].is_there = false;
    std::memcpy(removed_names[place].path.data(), path.c_str(), path.size() + 1);
    removed_names[place].is_there = true;
  }
}

void give_back(std::size_t place) {
  if (place < kMostNames) {
    removed_names[place].is_there = false;
    removed_names[place].is_taken = false;
  }
}

std::string random_name() {
  std::random_device source;
  std::string name(kPrefix);
  for (std::size_t i = 0; i < kNumLetters; ++i) {
    name += kLetters[source() % kLetters.size()];
  }
  return name;
}

bool is_temporary_name(const std::string& name) {
  return name.size() == kPrefix.size() + kNumLetters && name.starts_with(kPrefix) &&
         name.find_first_not_of(kLetters, kPrefix.size()) == std::string::npos;
}

int open_file(const std::string& path, int flags) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is what it is
  return ::open(path.c_str(), flags | O_CLOEXEC, 0600);
}

void remove_if_abandoned(const std::string& path) {
  const int file = open_file(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) {
    return;
  }
  struct stat status {};
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
      ::flock(file, LOCK_EX | LOCK_NB) == 0) {
    ::unlink(path.c_str());
  }
  ::close(file);
}

void remove_abandoned(const fs::path& directory) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (is_temporary_name(entry->path().filename().string())) {
      remove_if_abandoned(entry->path().string());
    }
  }
}

/// Locks a file that was just created. Returns false if another process, looking for abandoned
/// files, locked or removed it first; true also if the file system has no locks.
bool keeps(int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    return errno != EWOULDBLOCK;
  }
  struct stat status {};
  return ::fstat(file, &status) != 0 || status.st_nlink > 0;
}

}  // namespace

TemporaryFile::TemporaryFile(const fs::path& directory) : place_(take_place()) {
  remove_abandoned(directory.empty() ? "." : directory);
  while (descriptor_ < 0) {
    path_ = (directory / random_name()).string();
    note(place_, path_);  // before the file exists: a signal may come in between
    descriptor_ = open_file(path_, O_RDWR | O_CREAT | O_EXCL);
    if (descriptor_ < 0 && errno != EEXIST) {
      path_.clear();
      return;
    }
    if (descriptor_ >= 0 && !keeps(descriptor_)) {
      ::unlink(path_.c_str());
      ::close(std::exchange(descriptor_, -1));
    }
  }
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) {
    ::unlink(path_.c_str());
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  give_back(place_);
}

bool TemporaryFile::rename_onto(const fs::path& target) {
  if (::rename(path_.c_str(), target.c_str()) != 0) {
    return false;
  }
  path_.clear();
  return true;
}

void remove_temporary_files() noexcept {
  for (const RemovedName& name : removed_names) {
    if (name.is_there) {
      ::unlink(name.path.data());
    }
  }
}

}  // namespace ptdp
