// Where the tensors of a model lie in the files that are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/data_type.h"
#include "runtime/weights/stored_tensor.h"

namespace ptdp {

/// Largest size of the tensors of a file [B], unless a tensor alone is larger. Source:
/// huggingface_hub 1.33, MAX_SHARD_SIZE.
inline constexpr std::int64_t kLargestShard = 5'000'000'000;

/// A tensor that is to be written: `type` is F64, F32, BF16 or F16 in the file.
struct NewTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape;  ///< Sizes of one or two dimensions.
};

/// A file that is to be written.
struct ShardLayout {
  std::string file;        ///< Name in the directory.
  std::string head;        ///< Its first bytes: the length of the header and the header.
  std::int64_t bytes = 0;  ///< Size of the whole file [B].
};

/// A tensor's place in the files.
struct TensorPlace {
  std::size_t shard = 0;    ///< Index of its file among the shards.
  std::size_t number = 0;   ///< Number of the tensor in the order in which they were given.
  std::int64_t offset = 0;  ///< Place of its first byte in the file [B].
  DataType type = DataType::kFloat32;
  StoredTensor tensor;
};

/// Divides tensors among files, as huggingface_hub does: in the given order, a file is full when
/// the next tensor would exceed its size. Within a file, tensors are ordered by type and name, as
/// huggingface/safetensors orders them.
class WeightsLayout {
 public:
  /// `largest_shard` bounds the size of the tensors of a file [B]. Throws Error(kBug) for no tensor
  /// at all, for a tensor without a name of its own or without a floating-point type, and for sizes
  /// that are negative or too large.
  explicit WeightsLayout(const std::vector<NewTensor>& tensors,
                         std::int64_t largest_shard = kLargestShard);

  [[nodiscard]] const std::vector<ShardLayout>& shards() const { return shards_; }
  /// Returns the tensors by their names.
  [[nodiscard]] const std::map<std::string, TensorPlace, std::less<>>& places() const {
    return places_;
  }
  /// Returns the text of the index; empty for a single file, which needs none.
  [[nodiscard]] std::string index_text() const;

 private:
  void add_shard(std::size_t shard, std::size_t num_shards,
                 std::vector<std::pair<std::string, StoredTensor>> tensors);

  std::vector<ShardLayout> shards_;
  std::map<std::string, TensorPlace, std::less<>> places_;
};

}  // namespace ptdp
