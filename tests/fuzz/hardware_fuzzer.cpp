// A cluster, GPU or stack file of any bytes is refused, or reads back as it was written.
#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/stack_spec.h"
#include "tests/fuzz/fuzzing.h"

namespace {

template <class Spec>
void read_write_read(std::string_view text) {
  ptdp::ObjectReader reader = ptdp::ObjectReader::from_text(text, "file.json");
  std::string schema;
  if (reader.has("schema")) {
    reader.text("schema", schema);
  }
  Spec spec;
  describe(reader, spec);
  reader.finish();
  ptdp::ObjectWriter writer;
  describe(writer, spec);
  ptdp::ObjectReader again = ptdp::ObjectReader::from_text(writer.dump(), "written.json");
  Spec copy;
  describe(again, copy);
  again.finish();
  ptdp::ObjectWriter rewriter;
  describe(rewriter, copy);
  ptdp::require(rewriter.dump() == writer.dump());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)ptdp::fuzz(data, size, read_write_read<ptdp::ClusterSpec>);
  (void)ptdp::fuzz(data, size, read_write_read<ptdp::GpuSpec>);
  return ptdp::fuzz(data, size, read_write_read<ptdp::StackSpec>);
}
