// A model file of any bytes is refused, or counted and costed without a fault.
#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/text/object_reader.h"
#include "tests/fuzz/fuzzing.h"

namespace {

/// Counts and costs a resolved model.
void count(const ptdp::TransformerConfig& model) {
  const std::int64_t parameters = ptdp::parameter_count(model);
  ptdp::require(parameters > 0);
  ptdp::require(ptdp::active_parameter_count(model) > 0);
  ptdp::require(ptdp::active_parameter_count(model) <= parameters);
  ptdp::require(ptdp::mtp_parameter_count(model) >= 0);
  for (const bool has_experts : {false, true}) {
    ptdp::require(ptdp::active_layer_weights(model, has_experts) > 0.0);
  }
  ptdp::require(ptdp::layer_parameters(model, model.num_experts > 0).total() > 0);
  ptdp::require(ptdp::sc21_parameter_count(model) > 0.0);
  ptdp::require(ptdp::causal_model_flops(model, 1).value() > 0.0);
  ptdp::require(ptdp::causal_model_flops(model, 1) <= ptdp::model_flops(model, 1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    ptdp::ObjectReader reader = ptdp::ObjectReader::from_text(text, "model.json");
    if (ptdp::is_huggingface_config(reader)) {
      count(ptdp::read_huggingface_config(reader));
      return;
    }
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
    count(ptdp::resolved(model, "model.json"));
  });
}
