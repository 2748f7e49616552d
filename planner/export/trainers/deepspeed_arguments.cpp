#include "planner/export/trainers/deepspeed_arguments.h"

#include <fmt/format.h>

#include "cost_model/inputs/config_fields.h"

namespace ptdp {
namespace {

void add_deepspeed_model(const TransformerConfig& model, ArgumentList& arguments) {
  arguments.add("layers", "--num-layers", model.num_layers);
  arguments.add("hidden size", "--hidden-size", model.hidden_size);
  arguments.add("width of the MLP", "--ffn-hidden-size", model.ffn_hidden_size);
  arguments.add("attention heads", "--num-attention-heads", model.num_attention_heads);
  arguments.add("width of a head", "--kv-channels", model.kv_channels);
  if (model.num_query_groups != model.num_attention_heads) {
    arguments.add("key-value heads", "--num-key-value-heads", model.num_query_groups);
  }
  arguments.add("sequence length", "--seq-length", model.seq_length);
  arguments.add("sequence length", "--max-position-embeddings", model.seq_length);
  // NullTokenizer adds a token, the end of a document; other tokenizers bring their own size.
  arguments.add("vocabulary", "--vocab-size", model.vocab_size - 1);
  arguments.add("vocabulary", "--make-vocab-size-divisible-by", 128);
  arguments.add_if(model.position_embedding == PositionEmbedding::kRope, "positions",
                   "--use-rotary-position-embeddings");
  if (model.position_embedding == PositionEmbedding::kRope) {
    arguments.add("positions", "--rotary-position-embeddings-theta",
                  fmt::format("{:.0f}", model.rotary.base));
    if (model.rotary.percent != 1.0) {
      arguments.add("positions", "--rotary-percent", model.rotary.percent);
    }
  }
  arguments.add_if(model.position_embedding == PositionEmbedding::kNone, "positions",
                   "--no-position-embedding");
  arguments.add("norms", "--normalization",
                model.normalization == Normalization::kRmsNorm ? "rmsnorm" : "layernorm");
  arguments.add("norms", "--layernorm-epsilon", model.layernorm_epsilon);
  arguments.add("initial weights", "--init-method-std", model.init_method_std);
  arguments.add_if(model.gated_linear_unit, "gated MLP", "--swiglu");
  arguments.add_if(!model.add_bias_linear, "biases", "--disable-bias-linear");
  arguments.add_if(model.untied_embeddings, "logits of their own",
                   "--untie-embeddings-and-output-weights");
  const DropoutRates dropout = dropout_rates(model);
  arguments.add("dropout", "--attention-dropout", dropout.attention);
  arguments.add("dropout", "--hidden-dropout", dropout.hidden);
}

void add_deepspeed_recomputation(const ParallelConfig& config, ArgumentList& arguments) {
  if (repeats(config.recompute) == Repeats::kModules) {
    arguments.add("recomputation", "--recompute-granularity", "selective");
  } else if (repeats(config.recompute) == Repeats::kLayer) {
    const bool is_block =
        config.recomputes_by_layers() && config.recompute_method == RecomputeMethod::kBlock;
    arguments.add("recomputation", "--recompute-granularity", "full");
    arguments.add("recomputation", "--recompute-method", is_block ? "block" : "uniform");
    arguments.add("recomputation", "--recompute-num-layers",
                  config.recomputes_by_layers() ? config.recompute_num_layers : 1);
  }
}

}  // namespace

int deepspeed_stage(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  const bool has_fp32_gradients = plan.scenario.stack.precision == Precision::kBf16;
  return config.zero_stage == 0 && has_fp32_gradients && config.dp == 1 && config.cp == 1
             ? 1
             : config.zero_stage;
}

std::vector<MegatronArgument> deepspeed_arguments(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  ArgumentList arguments;
  add_deepspeed_model(plan.scenario.job.model, arguments);
  arguments.add("tensor parallel", "--tensor-model-parallel-size", config.tp);
  arguments.add_if(config.sequence_parallel && config.tp > 1, "sequence parallel",
                   "--sequence-parallel");
  arguments.add("pipeline parallel", "--pipeline-model-parallel-size", config.pp);
  // DeepSpeed's pipeline engine runs stages of ZeRO up to 1, even with a single pipeline rank.
  arguments.add_if(config.pp == 1, "pipeline parallel", "--no-pipeline-parallel");
  if (config.cp > 1) {
    arguments.add("context parallel", "--ds-sequence-parallel-size", config.cp);
  }
  arguments.add("microbatch", "--micro-batch-size", config.micro_batch_size);
  arguments.add("batch", "--global-batch-size", plan.scenario.job.global_batch_size);
  add_deepspeed_recomputation(config, arguments);
  arguments.add("ZeRO", "--zero-stage", deepspeed_stage(plan));
  arguments.add_if(offloads_optimizer(config.offload), "optimizer on the host", "--cpu-optimizer");
  arguments.add_if(stack.precision == Precision::kBf16, "precision", "--bf16");
  arguments.add_if(stack.precision == Precision::kFp16, "precision", "--fp16");
  arguments.add_if(stack.attention != "unfused", "attention", "--use-flash-attn-v2");
  arguments.add("", "--no-query-key-layer-scaling");
  arguments.add("", "--train-iters", 20);
  arguments.add("", "--lr", "1.0e-4");
  arguments.add("", "--min-lr", "1.0e-5");
  arguments.add("", "--lr-decay-style", "cosine");
  arguments.add("", "--lr-decay-iters", 20);
  arguments.add("", "--clip-grad", "1.0");
  arguments.add("", "--weight-decay", "0.1");
  arguments.add("", "--eval-iters", 0);
  arguments.add("", "--log-interval", 1);
  return arguments.take();
}

std::string deepspeed_json(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  std::string text = fmt::format(
      "{{\n  \"train_batch_size\": {},\n  \"train_micro_batch_size_per_gpu\": {},\n"
      "  \"gradient_accumulation_steps\": {},\n  \"gradient_clipping\": 1.0,\n"
      "  \"steps_per_print\": 1,\n",
      plan.scenario.job.global_batch_size, config.micro_batch_size,
      num_microbatches(plan.scenario.job.global_batch_size, config));
  if (stack.precision == Precision::kBf16) {
    text += "  \"bf16\": {\"enabled\": true},\n";
    text += "  \"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n";
  } else if (stack.precision == Precision::kFp16) {
    text += "  \"fp16\": {\"enabled\": true},\n";
  }
  text += fmt::format("  \"zero_optimization\": {{\n    \"stage\": {}", deepspeed_stage(plan));
  if (deepspeed_stage(plan) > 0) {
    text += fmt::format(",\n    \"overlap_comm\": {},\n    \"contiguous_gradients\": true",
                        overlaps_reduction(stack, config.pp));
  }
  if (offloads_optimizer(config.offload)) {
    text += ",\n    \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}";
  }
  return text + "\n  }\n}\n";
}

}  // namespace ptdp
