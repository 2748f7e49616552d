#include "runtime/weights/weights_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns the names of a directory's entries. Throws Error when it cannot be listed.
std::vector<std::string> entry_names(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) {
    fail_to_read(directory, "expected a directory with weights: " + error.message());
  }
  std::ranges::sort(names);
  return names;
}

/// Throws Error, naming what a directory has in place of weights that can be read.
[[noreturn]] void refuse_without_weights(const fs::path& directory,
                                         const std::vector<std::string>& names) {
  const auto first_that = [&](const auto& is_meant) {
    const auto found = std::ranges::find_if(names, is_meant);
    return found == names.end() ? std::string() : *found;
  };
  const std::string pickled = first_that([](const std::string& name) {
    return name.starts_with("pytorch_model") || name.ends_with(".pth") || name.ends_with(".pt");
  });
  const std::string other =
      first_that([](const std::string& name) { return name.ends_with(".safetensors"); });
  const std::string expected = fmt::format("expected {} or {}", kWeightsName, kWeightsIndexName);
  if (!other.empty()) {
    fail_to_read(directory, expected + ", found " + in_quotes(other) + " alone");
  }
  if (!pickled.empty()) {
    fail_to_read(directory, expected + ", found " + in_quotes(pickled) +
                                ": pickled weights are not read; save them as safetensors");
  }
  fail_to_read(directory, expected + ", found no weights");
}

}  // namespace

WeightsDirectory::WeightsDirectory(const fs::path& path) : path_(path) {
  const std::vector<std::string> names = entry_names(path);
  const bool is_one_file = std::ranges::binary_search(names, kWeightsName);
  if (!std::ranges::binary_search(names, kWeightsIndexName)) {
    if (!is_one_file) {
      refuse_without_weights(path, names);
    }
    add(kWeightsName);
    return;
  }
  const fs::path index = path / kWeightsIndexName;
  const WeightMap files = parse_weights_index(read_file(index, kLargestIndex), index.string());
  if (is_one_file &&
      std::ranges::none_of(files, [](const auto& entry) { return entry.second == kWeightsName; })) {
    fail_to_read(path, fmt::format("expected {} or {}, found both, and the index does not list {}",
                                   kWeightsName, kWeightsIndexName, kWeightsName));
  }
  open_listed(files, index.string());
}

void WeightsDirectory::open_listed(const WeightMap& files, const std::string& index_place) {
  std::set<std::string> shards;
  for (const auto& [name, shard] : files) {
    std::error_code error;
    if (shards.insert(shard).second && !fs::exists(path_ / shard, error)) {
      throw Error(fmt::format("{}: weight_map: {}: file {} is missing", index_place,
                              in_quotes(name), in_quotes(shard)));
    }
  }
  for (const std::string& shard : shards) {
    add(shard);
    for (const auto& [name, tensor] : files_.back().header().tensors) {
      const auto listed = files.find(name);
      if (listed == files.end() || listed->second != shard) {
        fail_to_read(
            files_.back().path(),
            fmt::format("tensor {}: expected in the index, {}", in_quotes(name),
                        listed == files.end() ? "which does not list it"
                                              : "which lists it in " + in_quotes(listed->second)));
      }
    }
  }
  for (const auto& [name, shard] : files) {
    if (!has(name)) {
      throw Error(fmt::format("{}: weight_map: {}: file {} has no such tensor", index_place,
                              in_quotes(name), in_quotes(shard)));
    }
  }
}

void WeightsDirectory::add(const fs::path& file) {
  files_.emplace_back(path_ / file);
  for (const auto& [name, tensor] : files_.back().header().tensors) {
    file_of_[name] = files_.size() - 1;
  }
}

std::vector<std::string> WeightsDirectory::names() const {
  std::vector<std::string> names;
  names.reserve(file_of_.size());
  for (const auto& [name, file] : file_of_) {
    names.push_back(name);
  }
  return names;
}

const SafetensorsFile& WeightsDirectory::file_of(std::string_view name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) {
    fail_to_read(path_, "no tensor " + in_quotes(name) + did_you_mean(name, names()));
  }
  return files_[found->second];
}

const StoredTensor& WeightsDirectory::tensor(std::string_view name) const {
  return file_of(name).tensor(name);
}

void WeightsDirectory::require_shape(std::string_view name,
                                     std::span<const std::int64_t> shape) const {
  file_of(name).require_shape(name, shape);
}

void WeightsDirectory::read(std::string_view name, const MatrixBlock& block,
                            const Buffer& to) const {
  file_of(name).read(name, block, to);
}

}  // namespace ptdp
