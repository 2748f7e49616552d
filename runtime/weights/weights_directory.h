// A directory with the weights of a model as Hugging Face's libraries write it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/weights/safetensors_file.h"
#include "runtime/weights/weights_index.h"

namespace ptdp {

/// The weights of a directory, in model.safetensors or in the files that
/// model.safetensors.index.json lists. All files stay open. Several threads may read at once, and
/// should share one object.
class WeightsDirectory {
 public:
  /// Opens all files and reads their headers. Throws Error when there are no weights in
  /// safetensors, when a file is missing or at fault, and unless the index lists exactly the
  /// tensors of its files, each where it is. A directory with both an index and a model.safetensors
  /// that it does not list is refused too.
  explicit WeightsDirectory(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Returns the names of all tensors, in ascending order.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool has(std::string_view name) const { return file_of_.contains(name); }
  /// Returns a tensor. Throws Error, with near misses, when there is none of this name.
  [[nodiscard]] const StoredTensor& tensor(std::string_view name) const;
  /// Throws Error unless the tensor is there and has this shape.
  void require_shape(std::string_view name, std::span<const std::int64_t> shape) const;
  /// Reads a block of a tensor into host memory, as SafetensorsFile::read() does.
  void read(std::string_view name, const MatrixBlock& block, const Buffer& to) const;

 private:
  void open_listed(const WeightMap& files, const std::string& index_place);
  void add(const std::filesystem::path& file);
  [[nodiscard]] const SafetensorsFile& file_of(std::string_view name) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  /// Indices in files_ by the names of tensors.
  std::map<std::string, std::size_t, std::less<>> file_of_;
};

}  // namespace ptdp
