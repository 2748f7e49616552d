#include "runtime/weights/carried_files.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Largest file that is carried [B]; the largest tokenizer.json of released models has 33 MiB.
constexpr std::size_t kLargestCarried = std::size_t{256} << 20;

/// Names that AutoTokenizer and GenerationConfig of transformers 5.12.1 read, beside those that
/// begin with one of kCarriedBeginnings.
constexpr std::array<std::string_view, 8> kCarriedNames = {
    "added_tokens.json",       "generation_config.json", "merges.txt", "sentencepiece.bpe.model",
    "special_tokens_map.json", "spiece.model",           "vocab.json", "vocab.txt"};
/// tokenizer.json, tokenizer_config.json, tokenizer.model, tokenizer.model.v3; tekken.json;
/// chat_template.jinja.
constexpr std::array<std::string_view, 3> kCarriedBeginnings = {"tokenizer", "tekken",
                                                                "chat_template"};

bool is_carried(std::string_view name) {
  const bool is_named = std::ranges::find(kCarriedNames, name) != kCarriedNames.end();
  const bool begins = std::ranges::any_of(
      kCarriedBeginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
  return is_named || (begins && !name.ends_with(".safetensors") && !name.ends_with(".py"));
}

}  // namespace

std::vector<FileContent> read_carried_files(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (is_carried(name) && !entry->is_directory(ignored)) {
      names.push_back(name);
    }
  }
  if (error) {
    fail_to_read(directory, "cannot be read: " + error.message());
  }
  std::ranges::sort(names);
  std::vector<FileContent> files;
  files.reserve(names.size());
  for (const std::string& name : names) {
    files.push_back({.path = name, .content = read_file(directory / name, kLargestCarried)});
  }
  return files;
}

}  // namespace ptdp
