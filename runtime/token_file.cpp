#include "runtime/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/files.h"

namespace ptdp {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t kBytesPerToken = 2;
constexpr std::int64_t kHeaderWords = 256;
constexpr std::int64_t kHeaderBytes = kHeaderWords * 4;
constexpr std::int32_t kMagic = 20240520;
constexpr std::int32_t kVersion = 1;
constexpr std::int32_t kMagicOf32Bits = 20240801;  ///< llm.c's for Llama 3: uint32 tokens.
constexpr std::int64_t kTokensPerBlock = std::int64_t{1} << 19;

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, int vocab_size)
    : file_(path), vocab_size_(vocab_size) {
  read_header();
  std::vector<std::int32_t> block;
  for (std::int64_t first = 0; first < size_; first += kTokensPerBlock) {
    block.resize(static_cast<std::size_t>(std::min(kTokensPerBlock, size_ - first)));
    read(first, block);
  }
}

void TokenFile::read_header() {
  std::array<std::int32_t, 3> words{};
  if (file_.size() >= static_cast<std::int64_t>(sizeof(words))) {
    file_.read(0, std::as_writable_bytes(std::span(words)));
  }
  const auto [magic, version, count] = words;
  if (magic == kMagicOf32Bits) {
    fail_to_read(path(),
                 "expected 16-bit tokens, found llm.c's file of 32-bit ones (magic 20240801)");
  }
  if (magic == kMagic) {
    if (version != kVersion) {
      fail_to_read(path(),
                   "version " + std::to_string(version) + " of llm.c's token files, expected 1");
    }
    const std::int64_t expected = kHeaderBytes + kBytesPerToken * count;
    if (count < 0 || file_.size() != expected) {
      fail_to_read(path(), "its header says " + std::to_string(count) + " tokens, which is " +
                               std::to_string(expected) + " bytes in all, found " +
                               std::to_string(file_.size()));
    }
    begin_ = kHeaderBytes;
  } else if (file_.size() % kBytesPerToken != 0) {
    fail_to_read(path(), "expected 16-bit tokens, found an odd number of bytes, " +
                             std::to_string(file_.size()));
  }
  size_ = (file_.size() - begin_) / kBytesPerToken;
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  std::vector<std::uint16_t> read(tokens.size());
  file_.read(begin_ + kBytesPerToken * first, std::as_writable_bytes(std::span(read)));
  std::ranges::copy(read, tokens.begin());

  std::int32_t largest = 0;
  for (const std::int32_t token : tokens) {
    largest = std::max(largest, token);
  }
  if (largest >= vocab_size_) {
    const auto place =
        std::ranges::find_if(tokens, [&](std::int32_t token) { return token >= vocab_size_; });
    fail_to_read(path(), "token " + std::to_string(*place) + " at position " +
                             std::to_string(first + (place - tokens.begin())) +
                             ", expected tokens below the vocabulary's " +
                             std::to_string(vocab_size_));
  }
}

}  // namespace ptdp
