#include "tools/plan/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/files.h"
#include "cost_model/text/plural.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/plans_document.h"
#include "planner/explain/explain.h"
#include "planner/explain/named_config.h"
#include "planner/import/reader.h"
#include "tools/plan/search_flags.h"
#include "tools/plan/stack_switches.h"

namespace ptdp {
namespace {

/// Tokens per iteration when nothing else gives a batch size. Source: Touvron et al.
/// (arXiv:2307.09288), table 1.
constexpr std::int64_t kUsualTokens = std::int64_t{4} << 20;
constexpr std::int64_t kLargestVocabulary = 100'000'000;
constexpr std::int64_t kMostPlans = 10'000;
constexpr std::int64_t kMostThreads = 1024;

std::string required(const CommandLine& line, const std::string& flag) {
  const auto value = line.text(flag);
  if (!value.has_value()) {
    throw Error("--" + flag + " is missing (--help shows all flags)");
  }
  return *value;
}

std::int64_t read_batch_size(const CommandLine& line, const ModelProfile& model,
                             const ImportedRun* from, PlanRequest& request) {
  const auto global = line.count("global-batch-size", 1, kLargestBatch);
  const auto per_gpu = line.count("batch-per-gpu", 1, kLargestBatch);
  if (global.has_value() && per_gpu.has_value()) {
    throw Error("--global-batch-size and --batch-per-gpu: expected one of them, got both");
  }
  if (per_gpu.has_value()) {
    if (*per_gpu > kLargestBatch / request.gpus) {
      throw Error(fmt::format("--batch-per-gpu: {} on {} exceeds a batch of {}", *per_gpu,
                              plural(request.gpus, "GPU"), kLargestBatch));
    }
    return *per_gpu * request.gpus;
  }
  if (global.has_value()) {
    return *global;
  }
  if (from != nullptr) {
    return from->global_batch_size;
  }
  if (model.global_batch_size > 0) {
    request.assumptions.push_back(
        fmt::format("global batch size {}: the model's", model.global_batch_size));
    return model.global_batch_size;
  }
  const std::int64_t batch = std::max<std::int64_t>(kUsualTokens / model.config.seq_length, 1);
  request.assumptions.push_back(
      fmt::format("global batch size {}: {} tokens, as Llama 2 was trained with; its config.json "
                  "does not say",
                  batch, batch * model.config.seq_length));
  return batch;
}

std::string length_assumption(const ModelProfile& model) {
  const int length = model.config.seq_length;
  if (model.longest_sequence == 0) {
    return fmt::format("sequence length {}: the model's", length);
  }
  return length == model.longest_sequence
             ? fmt::format("sequence length {}: the longest that its config.json has", length)
             : fmt::format("sequence length {}: usual; its config.json has {} as the longest",
                           length, model.longest_sequence);
}

/// Returns the model that --model names, else the one that was read from a file.
ModelProfile find_model_of(const CommandLine& line, const ImportedRun* from) {
  if (from == nullptr || line.has("model")) {
    return find_model(required(line, "model"));
  }
  if (!from->model) {
    const bool is_vocabulary = from->missing.find(',') == std::string::npos &&
                               from->missing.find("vocab") != std::string::npos;
    throw Error(
        from->place + ": does not say the whole model, without " + from->missing +
        (is_vocabulary ? "; expected --vocab-size N or --model too" : "; expected --model too"));
  }
  ModelProfile model;
  model.name = std::filesystem::path(from->place).filename().string();
  std::ranges::replace_if(
      model.name,
      [](unsigned char c) {
        return std::isalnum(c) == 0 &&
               std::string_view("._+-").find(static_cast<char>(c)) == std::string_view::npos;
      },
      '-');
  model.config = *from->model;
  return model;
}

/// Returns the stack as --precision asks, or else `usual` if that is not empty. The flag takes
/// every spelling that rows of runs may have.
StackSpec at_chosen_precision(const StackSpec& stack, const CommandLine& line,
                              const std::string& usual) {
  const std::optional<std::string> asked = line.text("precision");
  if (!asked) {
    return with_precision(stack, usual);
  }
  if (const auto name = find_precision_name(*asked)) {
    return with_precision(stack, *name);
  }
  const std::vector<std::string> names = precision_names();
  return with_precision(stack, names[find_choice(*asked, names, "--precision")]);
}

}  // namespace

StackSpec find_stack_of(const CommandLine& line, const ClusterSpec& cluster) {
  if (const auto stack = line.text("stack")) {
    return find_stack(*stack);
  }
  try {
    return find_stack(cluster.default_stack);
  } catch (const Error& error) {
    throw Error(line.text("cluster").value_or(cluster.name) + ": default_stack: " + error.what());
  }
}

std::optional<ImportedRun> read_from(const CommandLine& line) {
  if (const auto file = line.text("from")) {
    return read_from(line, read_file(*file), *file);
  }
  if (line.has("vocab-size")) {
    throw Error("--vocab-size: used by --from only, where the file names a tokenizer alone");
  }
  return std::nullopt;
}

ImportedRun read_from(const CommandLine& line, std::string_view text, const std::string& place) {
  const auto model = line.text("model");
  return read_run(text, place, line.count("gpus", 1, kMostGpus),
                  model ? std::optional(find_model(*model).config) : std::nullopt,
                  line.count("vocab-size", 1, kLargestVocabulary));
}

ParallelConfig given_config(const CommandLine& line, const PlanRequest& request,
                            const ImportedRun* from) {
  const auto named = line.text("config");
  return named ? named_config(parse_partial_config(*named, "--config"), request.scenario,
                              request.gpus, "--config")
               : from->config;
}

PlanRequest read_request(const CommandLine& line, const ImportedRun* from) {
  PlanRequest request;
  if (from == nullptr) {
    (void)required(line, "gpus");
  }
  request.gpus = from == nullptr ? *line.count("gpus", 1, kMostGpus) : from->gpus;
  ModelProfile model = find_model_of(line, from);
  request.assumptions = model.assumptions;
  request.warnings = model.warnings;
  const int said_length =
      from == nullptr ? 0 : from->seq_length.value_or(from->model ? from->model->seq_length : 0);
  if (const auto length = line.count("seq-length", 1, kLongestSequence)) {
    model.config.seq_length = static_cast<int>(*length);
    (void)parameter_count(model.config);
  } else if (said_length > 0) {
    model.config.seq_length = said_length;
    (void)parameter_count(model.config);
  } else {
    request.assumptions.push_back(length_assumption(model));
  }

  const auto cluster = line.text("cluster");
  if (!cluster.has_value()) {
    request.assumptions.emplace_back("cluster selene-a100: the default");
  }
  request.scenario.cluster = find_cluster(cluster.value_or("selene-a100"));
  if (!line.has("stack")) {
    request.assumptions.push_back(fmt::format("stack {}: the default of {}",
                                              request.scenario.cluster.default_stack,
                                              request.scenario.cluster.name));
  }
  request.scenario.stack = at_chosen_precision(find_stack_of(line, request.scenario.cluster), line,
                                               from == nullptr ? "" : from->precision);
  if (from != nullptr) {
    request.scenario.stack = with_changes(request.scenario.stack, from->stack);
  }
  if (const auto overlap = overlap_choice(line)) {
    request.scenario.stack = with_overlap(request.scenario.stack, *overlap);
  }
  request.scenario.stack = with_switches(request.scenario.stack, line);
  request.scenario.job = {.model_name = model.name,
                          .model = model.config,
                          .global_batch_size = read_batch_size(line, model, from, request)};
  if (const std::int64_t most = request.scenario.cluster.max_gpus();
      most > 0 && request.gpus > most) {
    throw Error(fmt::format("--gpus: expected at most the {} of cluster {}, got {}",
                            plural(most, "GPU"), request.scenario.cluster.name, request.gpus));
  }
  return request;
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    std::cerr << "ptdp-plan: warning: " + warning + "\n";
  }
}

void reserve_memory(PlanRequest& request, const CalibrationSource& calibration) {
  ReservedScenario reserved = calibration.with_own_reserve(request.scenario, request.gpus);
  if (std::string text = reserve_text(reserved); !text.empty()) {
    request.assumptions.push_back(std::move(text));
  }
  request.scenario = std::move(reserved.scenario);
}

SearchOptions read_options(const CommandLine& line, std::int64_t gpus) {
  SearchOptions options{.gpus = gpus, .space = read_pins(line)};
  if (const auto headroom = line.text("memory-headroom")) {
    options.memory_headroom = parse_fraction(*headroom, "--memory-headroom");
  }
  options.objective = line.choice_or_first<Objective>("objective", kObjectiveNames);
  options.num_best = static_cast<int>(line.count("top", 1, kMostPlans).value_or(5));
  options.num_threads = static_cast<int>(line.count("threads", 1, kMostThreads).value_or(1));
  return options;
}

RunBudget read_budget(const CommandLine& line) {
  RunBudget budget;
  if (const auto tokens = line.text("tokens")) {
    budget.tokens = parse_with_suffix(*tokens, "--tokens");
  }
  budget.price_per_gpu_hour = line.number("price", 0.0, 1e9);
  if (budget.price_per_gpu_hour.has_value() && !budget.tokens.has_value()) {
    throw Error("--price: expected --tokens too, the tokens to train on");
  }
  return budget;
}

}  // namespace ptdp
