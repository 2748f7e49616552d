// Files of a checkpoint, written and read with their checksums, and directories that survive a
// crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "cost_model/text/descriptor.h"
#include "runtime/checkpoint/checkpoint_format.h"

struct XXH64_state_s;  // of xxhash.h

namespace ptdp {

struct ChecksumDeleter {
  void operator()(XXH64_state_s* state) const noexcept;
};

/// XXH64 with seed 0 of bytes that come piece by piece. Source: Collet, xxHash fast digest
/// algorithm, specification 0.1.1.
class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  std::unique_ptr<XXH64_state_s, ChecksumDeleter> state_;
};

[[nodiscard]] std::uint64_t checksum_of(std::string_view content);
/// Throws Error where the file cannot be read.
[[nodiscard]] FileDigest digest_of(const std::filesystem::path& path);

/// A file that is made and filled piece by piece. All throw Error(kOutputFailed).
class ChecksummedFile {
 public:
  /// The file must not be there.
  explicit ChecksummedFile(std::filesystem::path path);

  /// Bytes so far.
  [[nodiscard]] std::int64_t size() const { return size_; }
  void append(std::span<const std::byte> bytes);
  /// After the last piece: what was written is on the disk.
  [[nodiscard]] FileDigest close();

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::int64_t size_ = 0;
  Checksum checksum_;
};

/// A whole file at once.
FileDigest write_checksummed(const std::filesystem::path& path, std::string_view content);

/// Moves a directory to the place of another. One that is there goes `aside`, in one step where the
/// file system can exchange two names, and is removed. Throws Error(kOutputFailed).
void replace_directory(const std::filesystem::path& from, const std::filesystem::path& to,
                       const std::filesystem::path& aside);

}  // namespace ptdp
