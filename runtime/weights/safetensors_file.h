// A file of safetensors, from which any part of any tensor is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "kernels/backend.h"
#include "runtime/open_file.h"
#include "runtime/weights/safetensors_header.h"

namespace ptdp {

/// A file of Hugging Face safetensors whose header was checked. Several threads may read it at
/// once. Source of the format: https://github.com/huggingface/safetensors, "Format".
class SafetensorsFile {
 public:
  /// Opens a file and reads its header alone. Throws Error when the file is unreadable, or when the
  /// header is at fault (parse_safetensors_header()), larger than kLargestHeader or than the file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  /// Returns a tensor. Throws Error, with near misses, when the file has none of this name.
  [[nodiscard]] const StoredTensor& tensor(std::string_view name) const;
  /// Throws Error unless the tensor is there and has this shape.
  void require_shape(std::string_view name, std::span<const std::int64_t> shape) const;
  /// Reads a block of a tensor of one or two dimensions into host memory, converted to the type of
  /// `to` as convert_elements() does. One dimension is a matrix of one row. `to` has rows·columns
  /// elements and takes them row by row. Throws Error when the tensor is missing, has elements
  /// other than F64, F32, BF16 and F16, or lacks the block.
  void read(std::string_view name, const MatrixBlock& block, const Buffer& to) const;

 private:
  OpenFile file_;
  std::int64_t data_begin_ = 0;  ///< Place of the first tensor in the file [B].
  SafetensorsHeader header_;
};

}  // namespace ptdp
