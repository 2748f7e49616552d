// A manifest or an index of any bytes is refused, or reads back as it was written and lies within
// its bounds, every entry behind the one before.
#include "runtime/checkpoint/checkpoint_format.h"
#include "tests/fuzz/fuzzing.h"

namespace ptdp {
namespace {

void check(const ShardIndex& index) {
  std::int64_t end = 0;
  for (const ShardEntry& entry : index.entries) {
    const MatrixBlock& block = entry.block;
    require(block.first_row + block.rows <= entry.total_rows);
    require(block.first_column + block.columns <= block.total_columns);
    require(entry.range.first + entry.range.count <= block.rows * block.columns);
    require(entry.offset == end);
    end += 3 * bytes_of(index.type) * entry.range.count;
    require(end <= index.data.bytes);
  }
  require(end == index.data.bytes);
}

}  // namespace
}  // namespace ptdp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ptdp::fuzz(data, size, [](std::string_view text) {
    const std::string written = to_json(ptdp::parse_manifest(text, "manifest.json"));
    ptdp::require(to_json(ptdp::parse_manifest(written, "written.json")) == written);
  });
  return ptdp::fuzz(data, size, [](std::string_view text) {
    const ptdp::ShardIndex index = ptdp::parse_shard_index(text, "rank-00000.json");
    ptdp::check(index);
    const std::string written = to_json(index);
    ptdp::require(to_json(ptdp::parse_shard_index(written, "written.json")) == written);
  });
}
