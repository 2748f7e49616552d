// Files of a checkpoint, written and read with their checksums, and a replacement of directories
// that survives a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "cost_model/text/descriptor.h"
#include "runtime/checkpoint/checkpoint_format.h"

struct XXH64_state_s;  // defined in xxhash.h

namespace ptdp {

/// Frees the state of an XXH64 computation.
struct ChecksumDeleter {
  void operator()(XXH64_state_s* state) const noexcept;
};

/// XXH64, seed 0, of bytes that come piece by piece. Source: Collet, xxHash fast digest algorithm,
/// specification 0.1.1.
class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  std::unique_ptr<XXH64_state_s, ChecksumDeleter> state_;
};

/// Returns the XXH64 checksum, seed 0, of `content`.
[[nodiscard]] std::uint64_t checksum_of(std::string_view content);
/// Reads a whole file and returns its name, size and checksum. Throws Error when it cannot be read.
[[nodiscard]] FileDigest digest_of(const std::filesystem::path& path);

/// A file that is created and filled piece by piece, with its checksum. Every member that fails
/// throws Error(kOutputFailed).
class ChecksummedFile {
 public:
  /// Creates the file. Throws Error(kOutputFailed) when it exists already.
  explicit ChecksummedFile(std::filesystem::path path);

  /// Returns the number of bytes written.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Writes `bytes` at the end of the file.
  void append(std::span<const std::byte> bytes);
  /// Syncs the file to disk, closes it, and returns its name, size and checksum. Call it after the
  /// last piece.
  [[nodiscard]] FileDigest close();

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::int64_t size_ = 0;
  Checksum checksum_;
};

/// Creates a file with `content`, synced to disk, and returns its digest. Throws
/// Error(kOutputFailed), also when the file exists already.
FileDigest write_checksummed(const std::filesystem::path& path, std::string_view content);

/// Moves directory `from` to the name `to`. A directory already at `to` is moved to `aside` and
/// removed; where the file system can exchange two names, `to` exists throughout. Throws
/// Error(kOutputFailed).
void replace_directory(const std::filesystem::path& from, const std::filesystem::path& to,
                       const std::filesystem::path& aside);

}  // namespace ptdp
