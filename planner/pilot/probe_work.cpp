#include "planner/pilot/probe_work.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {
namespace {

// Bytes. Below the smallest a collective's time is its start; beyond the largest it grows with
// size.
constexpr int kSmallestBuffer = 1 << 16;
constexpr int kLargestBuffer = 1 << 30;

/// Entries of the work list, each once, in a fixed order.
struct ProbeEntries {
  std::set<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>> products;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> attention;
  std::set<std::tuple<std::string, std::int64_t, std::int64_t>> element_wise;
  std::set<std::tuple<int, int>> layers;          ///< Microbatch and tp; the shape is the model's.
  std::map<std::string, double> largest_buffers;  ///< Largest buffer of each collective [B].

  void add_buffer(const std::string& collective, double bytes) {
    double& largest = largest_buffers[collective];
    largest = std::max(largest, bytes);
  }
};

/// Adds the three products of a linear layer.
void add_linear(ProbeEntries& entries, std::int64_t tokens, std::int64_t outputs,
                std::int64_t inputs) {
  entries.products.insert({"forward-product", tokens, outputs, inputs});
  entries.products.insert({"input-gradient-product", tokens, inputs, outputs});
  entries.products.insert({"weight-gradient-product", outputs, inputs, tokens});
}

void add_layer(ProbeEntries& entries, const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const ParallelConfig& config = plan.config;
  const int tp = config.tp;
  const std::int64_t tokens = tokens_of_rank(model, config);
  const std::int64_t h = model.hidden_size;
  if (!has_latent_attention(model)) {
    const std::int64_t queries = query_width(model) / tp;
    add_linear(entries, tokens, queries + 2 * key_width_of_rank(model, tp), h);
    add_linear(entries, tokens, h, queries);
    // Half of the heads, too: a table needs two sizes.
    const std::int64_t heads =
        std::int64_t{1} * config.micro_batch_size * (model.num_attention_heads / tp);
    for (const std::int64_t some : {heads, std::max<std::int64_t>(heads / 2, 1)}) {
      entries.attention.insert({some, model.seq_length / config.cp, model.kv_channels});
    }
  }
  const std::int64_t ffn = model.ffn_hidden_size / tp;
  const bool has_dense = model.num_experts == 0 || model.first_dense_layers > 0;
  if (has_dense) {
    add_linear(entries, tokens, mlp_up_width(model) / tp, h);
    add_linear(entries, tokens, h, ffn);
    const std::string activation = model.gated_linear_unit ? "gated-activation" : "bias-gelu";
    entries.element_wise.insert({activation, tokens, ffn});
    entries.element_wise.insert(
        {model.gated_linear_unit ? "gated-activation-backward" : "gelu-backward",
         model.gated_linear_unit ? tokens : 1, model.gated_linear_unit ? ffn : tokens * ffn});
  }
  const std::string norm =
      model.normalization == Normalization::kRmsNorm ? "rms-norm" : "layer-norm";
  const std::int64_t rows = config.sequence_parallel ? tokens / tp : tokens;
  entries.element_wise.insert({norm, rows, h});
  entries.element_wise.insert({norm + "-backward", rows, h});
  const bool is_whole_layer = has_dense && !has_latent_attention(model) && config.cp == 1 &&
                              model.num_attention_heads % tp == 0;
  if (is_whole_layer) {
    entries.layers.insert({config.micro_batch_size, tp});
  }
}

void add_ends(ProbeEntries& entries, const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const std::int64_t tokens = tokens_of_rank(model, plan.config);
  const std::int64_t vocabulary = padded_vocab_size(model, plan.config.tp) / plan.config.tp;
  add_linear(entries, tokens, vocabulary, model.hidden_size);
  entries.element_wise.insert({"cross-entropy", tokens, vocabulary});
  entries.element_wise.insert({"cross-entropy-backward", tokens, vocabulary});
}

void add_collectives(ProbeEntries& entries, const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  const double activations = element_bytes(stack.precision) *
                             static_cast<double>(tokens_of_rank(model, config)) * model.hidden_size;
  const auto add_reduction = [&](double bytes, bool is_sharded) {
    if (is_sharded) {
      entries.add_buffer("reduce-scatter", bytes);
      entries.add_buffer("all-gather", bytes);
    } else {
      entries.add_buffer("all-reduce", bytes);
    }
  };
  if (config.tp > 1) {
    add_reduction(activations, config.sequence_parallel);
  }
  if (config.dp > 1) {
    const double gradients = rank_parameters(model, config, 0).dense * stack.reduced_gradient_bytes;
    add_reduction(gradients, config.zero_stage > 0);
  }
  if (config.pp > 1 || config.cp > 1) {
    entries.add_buffer("send-receive", activations);
  }
  if (config.ep > 1) {
    entries.add_buffer("all-to-all", activations * std::max(model.moe_router_topk, 1));
  }
}

/// Returns sizes [B] four times apart, two at least, up to one that holds `largest`, or to the
/// largest of all.
std::vector<int> buffer_sizes(double largest) {
  std::vector<int> sizes = {kSmallestBuffer, 4 * kSmallestBuffer};
  while (sizes.back() < largest && sizes.back() < kLargestBuffer) {
    sizes.push_back(4 * sizes.back());
  }
  return sizes;
}

std::vector<ObjectWriter> layers_json(const ProbeEntries& entries, const TransformerConfig& model) {
  std::vector<ObjectWriter> layers;
  for (const auto& [micro_batch_size, tp] : entries.layers) {
    ObjectWriter& layer = layers.emplace_back();
    layer.count("hidden_size", model.hidden_size);
    layer.count("num_attention_heads", model.num_attention_heads);
    layer.count("num_query_groups", model.num_query_groups);
    layer.count("kv_channels", model.kv_channels);
    layer.count("ffn_hidden_size", model.ffn_hidden_size);
    layer.flag("gated_linear_unit", model.gated_linear_unit);
    layer.choice("normalization", model.normalization,
                 NamedValues<Normalization>(kNormalizationNames));
    layer.choice("activation_func", activation_of(model),
                 NamedValues<Activation>(kActivationNames));
    layer.flag("add_bias_linear", model.add_bias_linear);
    layer.flag("rope", model.position_embedding == PositionEmbedding::kRope);
    layer.count("seq_length", model.seq_length);
    layer.count("micro_batch_size", micro_batch_size);
    layer.count("tp", tp);
  }
  return layers;
}

std::vector<ObjectWriter> collectives_json(const ProbeEntries& entries) {
  std::vector<ObjectWriter> collectives;
  for (const auto& [operation, largest] : entries.largest_buffers) {
    ObjectWriter& collective = collectives.emplace_back();
    collective.text("operation", operation);
    collective.counts("bytes", buffer_sizes(largest));
  }
  return collectives;
}

std::string_view probed_precision(const StackSpec& stack) {
  switch (stack.precision) {
    case Precision::kFp16:
    case Precision::kBf16:
    case Precision::kFp32:
      return name_of(stack.precision);
    case Precision::kTf32:
      return "fp32";
    default:
      throw Error("the probe times fp16, bf16 and fp32, not " +
                  std::string(name_of(stack.precision)));
  }
}

}  // namespace

std::string probe_work(std::span<const Plan> plans) {
  ProbeEntries entries;
  for (const Plan& plan : plans) {
    add_layer(entries, plan);
    add_ends(entries, plan);
    add_collectives(entries, plan);
  }
  const Plan& first = plans.front();
  ObjectWriter work;
  work.schema("ptdp.probe-work/1");
  work.text("precision", std::string(probed_precision(first.scenario.stack)));
  std::vector<ObjectWriter> products;
  for (const auto& [operation, m, n, k] : entries.products) {
    ObjectWriter& entry = products.emplace_back();
    entry.text("operation", operation);
    entry.count("m", m);
    entry.count("n", n);
    entry.count("k", k);
  }
  work.children("products", std::move(products));
  std::vector<ObjectWriter> attention;
  for (const auto& [heads, seq_length, head_size] : entries.attention) {
    ObjectWriter& entry = attention.emplace_back();
    entry.count("heads", heads);
    entry.count("seq_length", seq_length);
    entry.count("head_size", head_size);
  }
  work.children("attention", std::move(attention));
  std::vector<ObjectWriter> element_wise;
  for (const auto& [operation, rows, width] : entries.element_wise) {
    ObjectWriter& entry = element_wise.emplace_back();
    entry.text("operation", operation);
    entry.count("rows", rows);
    entry.count("width", width);
  }
  work.children("element_wise", std::move(element_wise));
  work.children("layers", layers_json(entries, first.scenario.job.model));
  work.children("collectives", collectives_json(entries));
  return work.dump();
}

std::string probe_with_work(const std::string& program, const std::string& work) {
  constexpr std::string_view empty_work = "\nWORK = None\n";
  const std::size_t place = program.find(empty_work);
  if (place == std::string::npos) {
    throw Error("the probe has no line WORK = None", ExitStatus::kBug);
  }
  std::string with_work = program;
  return with_work.replace(place, empty_work.size(), "\nWORK = r'''" + work + "'''\n");
}

}  // namespace ptdp
