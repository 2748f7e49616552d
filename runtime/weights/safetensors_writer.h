// Writing of weights as files of safetensors, by several ranks, in any order.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "runtime/weights/weights_layout.h"

namespace ptdp {

/// Writes the weights of a model into a directory, which then has model.safetensors or several
/// files with their index. Until all is there, the files lie in the hidden directory
/// DIRECTORY/.weights.partial. They get their names last, and the index after all others, so what
/// libraries take for weights is whole. Ranks may be threads or processes, each with a writer
/// constructed with the same arguments; threads may also share one. The order of calls is
///
///   begin() on one rank; a barrier; write() on all; a barrier; finish() on one rank.
///
/// Members that fail throw Error(kOutputFailed). Then no rank calls finish(), and one calls
/// discard_unfinished_weights().
class SafetensorsWriter {
 public:
  /// Throws Error(kBug) for tensors that WeightsLayout refuses.
  SafetensorsWriter(std::filesystem::path directory, const std::vector<NewTensor>& tensors,
                    std::int64_t largest_shard = kLargestShard);

  [[nodiscard]] const WeightsLayout& layout() const { return layout_; }
  /// Makes the directories and all files at their full size, so that a full disk is found at once.
  /// Removes what an earlier attempt left behind. Throws Error(kOutputFailed) also when the
  /// directory has weights already.
  void begin() const;
  /// Writes a block of a tensor from host memory, converted to the tensor's type as
  /// convert_elements() does. One dimension is a matrix of one row. `from` has rows·columns
  /// elements, row by row. All ranks together write every element once. Throws Error(kBug) when
  /// there is no such tensor or block.
  void write(std::string_view name, const MatrixBlock& block, const Buffer& from);
  /// Returns the number of elements of each tensor that this writer wrote. Tensors have the order
  /// in which the constructor got them.
  [[nodiscard]] std::vector<std::int64_t> written() const;
  /// Writes another file of the directory, such as config.json. The rank that calls finish() calls
  /// it before that. `name` has no directories.
  void add(const std::string& name, std::string_view content) const;
  /// Gives the files their names, after syncing them to disk: those of add() first, which replace
  /// files of their names. `written` is the sum of what written() returns on all writers. Calls
  /// `check` before each piece that it syncs, and before it names any file; it may throw. Throws
  /// Error(kBug) when a tensor was not written once in whole.
  void finish(
      std::span<const std::int64_t> written, const std::function<void()>& check = [] {}) const;

 private:
  void check_written(std::span<const std::int64_t> written) const;
  /// Returns the names of all files that were written, in the order in which they get them.
  [[nodiscard]] std::vector<std::string> names_in_order() const;

  std::filesystem::path directory_;
  std::filesystem::path partial_;  ///< Directory of the files until they get their names.
  WeightsLayout layout_;
  std::vector<std::atomic<std::int64_t>> written_;
};

/// Removes the files of an attempt to write weights into `directory` that did not finish. A rank
/// that still writes fails.
void discard_unfinished_weights(const std::filesystem::path& directory) noexcept;

}  // namespace ptdp
