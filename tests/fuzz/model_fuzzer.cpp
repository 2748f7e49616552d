// A model file of any bytes is refused, or counted and costed without a fault.
#include "cost_model/spec/object_reader.h"
#include "cost_model/spec/parameter_counts.h"
#include "cost_model/spec/transformer_config.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    ptdp::ObjectReader reader = ptdp::ObjectReader::from_text(text, "model.json");
    // The keys of a profile around those of the model.
    std::string ignored;
    for (const char* key : {"schema", "name", "source"}) {
      if (reader.has(key)) {
        reader.text(key, ignored);
      }
    }
    int batch = 0;
    if (reader.has("global_batch_size")) {
      reader.count("global_batch_size", batch, 1, 1000);
    }
    ptdp::TransformerConfig model;
    describe(reader, model);
    reader.finish();
    model = ptdp::resolved(model, "model.json");
    ptdp::require(ptdp::parameter_count(model) > 0);
    ptdp::require(ptdp::sc21_parameter_count(model) > 0.0);
    (void)ptdp::find_uncovered_feature(model);
  });
}
