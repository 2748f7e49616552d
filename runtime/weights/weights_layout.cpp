#include "runtime/weights/weights_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/shown_text.h"
#include "runtime/weights/safetensors_header.h"
#include "runtime/weights/weights_index.h"

namespace ptdp {
namespace {

/// Numbers of tensors that are written into one file.
using Shard = std::vector<std::size_t>;

/// Limit on the size of all tensors [B], so that no place in a file overflows.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

[[noreturn]] void refuse(const NewTensor& tensor, const std::string& why) {
  throw Error("writing weights: tensor " + in_quotes(tensor.name) + ": " + why, ExitStatus::kBug);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

/// Returns a tensor's size [B]. Throws Error(kBug) when it has no such size.
std::int64_t checked_bytes(const NewTensor& tensor) {
  if (tensor.name.empty() || tensor.name == "__metadata__" || !is_utf8(tensor.name)) {
    refuse(tensor, "expected another name");
  }
  if (!element_type_of(stored_name_of(tensor.type))) {
    refuse(tensor, fmt::format("type {}, expected a floating-point type", name_of(tensor.type)));
  }
  const bool is_matrix = tensor.shape.size() == 1 || tensor.shape.size() == 2;
  const auto bytes = is_matrix && std::ranges::min(tensor.shape) >= 0
                         ? tensor_bytes(8 * bytes_of(tensor.type), tensor.shape)
                         : std::optional<std::int64_t>();
  if (!bytes) {
    refuse(tensor, "shape " + sizes_text(tensor.shape) +
                       ", expected one or two sizes, none of them negative or too large");
  }
  return *bytes;
}

std::vector<Shard> divide(const std::vector<std::int64_t>& bytes, std::int64_t largest_shard) {
  std::vector<Shard> shards;
  Shard current;
  std::int64_t size = 0;
  const auto close = [&] {
    if (!current.empty()) {
      shards.push_back(std::exchange(current, {}));
    }
    size = 0;
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > largest_shard) {
      shards.push_back({i});  // the file in progress goes on behind it
      continue;
    }
    if (size > largest_shard - bytes[i]) {
      close();
    }
    current.push_back(i);
    size += bytes[i];
  }
  close();
  return shards;
}

}  // namespace

WeightsLayout::WeightsLayout(const std::vector<NewTensor>& tensors, std::int64_t largest_shard) {
  std::vector<std::int64_t> bytes;
  bytes.reserve(tensors.size());
  std::int64_t total = 0;
  for (const NewTensor& tensor : tensors) {
    bytes.push_back(checked_bytes(tensor));
    if (bytes.back() > kMostBytes - total) {
      refuse(tensor, "too large beside the others");
    }
    total += bytes.back();
    const TensorPlace place{
        .number = bytes.size() - 1,
        .type = tensor.type,
        .tensor = {.type = std::string(stored_name_of(tensor.type)), .shape = tensor.shape}};
    if (!places_.emplace(tensor.name, place).second) {
      refuse(tensor, "expected one tensor of this name, got two");
    }
  }
  if (tensors.empty()) {
    throw Error("writing weights: expected tensors, got none", ExitStatus::kBug);
  }
  const std::vector<Shard> shards = divide(bytes, largest_shard);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::vector<std::pair<std::string, StoredTensor>> members;
    members.reserve(shards[i].size());
    for (const std::size_t number : shards[i]) {
      const std::string& name = tensors[number].name;
      members.emplace_back(name, places_.at(name).tensor);
      members.back().second.end = bytes[number];
    }
    add_shard(i, shards.size(), std::move(members));
  }
}

void WeightsLayout::add_shard(std::size_t shard, std::size_t num_shards,
                              std::vector<std::pair<std::string, StoredTensor>> tensors) {
  // The widest types first: each element then lies at a multiple of its size. The order is that of
  // the library's Dtype, in which BF16 is above F16.
  std::ranges::sort(tensors, {}, [](const auto& named) {
    const std::string& type = named.second.type;
    const int rank = type == "F64" ? 0 : type == "F32" ? 1 : type == "BF16" ? 2 : 3;
    return std::tuple<int, std::string>(rank, named.first);
  });
  std::int64_t end = 0;
  for (auto& [name, tensor] : tensors) {
    tensor.begin = end;
    tensor.end += end;
    end = tensor.end;
  }
  ShardLayout layout{.file = num_shards == 1 ? std::string(kWeightsName)
                                             : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                           shard + 1, num_shards),
                     .head = safetensors_head(tensors)};
  const auto head_bytes = static_cast<std::int64_t>(layout.head.size());
  if (head_bytes - kHeaderLengthBytes > kLargestHeader) {
    throw Error(fmt::format("writing weights: {}: header of {} bytes, expected at most {}",
                            layout.file, head_bytes - kHeaderLengthBytes, kLargestHeader),
                ExitStatus::kOutputFailed);
  }
  layout.bytes = head_bytes + end;
  shards_.push_back(std::move(layout));
  for (auto& [name, tensor] : tensors) {
    TensorPlace& place = places_.find(name)->second;
    place.shard = shard;
    place.offset = head_bytes + tensor.begin;
    place.tensor = std::move(tensor);
  }
}

std::string WeightsLayout::index_text() const {
  if (shards_.size() == 1) {
    return "";
  }
  WeightMap files;
  std::int64_t total = 0;
  for (const auto& [name, place] : places_) {
    files[name] = shards_[place.shard].file;
    total += place.tensor.end - place.tensor.begin;
  }
  return weights_index_text(files, total);
}

}  // namespace ptdp
