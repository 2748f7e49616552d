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
#include "cost_model/operations/slowest_card.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/csv_table.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/plans_document.h"
#include "planner/explain/explain.h"
#include "planner/explain/named_config.h"
#include "planner/import/reader.h"
#include "planner/search/ties.h"
#include "tools/plan/search_flags.h"
#include "tools/plan/stack_switches.h"

namespace ptdp {
namespace {

/// Tokens per iteration when nothing else gives a batch size. Source: Touvron et al.
/// (arXiv:2307.09288), table 1.
constexpr std::int64_t kUsualTokens = std::int64_t{4} << 20;
constexpr std::int64_t kMostBatchTokens = 1'000'000'000'000'000;
constexpr std::int64_t kLargestVocabulary = 100'000'000;
constexpr std::int64_t kMostPlans = 10'000;
constexpr std::int64_t kMostThreads = 1024;
constexpr double kLeastFit = 0.01;
constexpr double kMostFit = 0.99;

/// Adds a line to what is assumed, unless it is empty.
void assume(PlanRequest& request, std::string text) {
  if (!text.empty()) {
    request.assumptions.push_back(std::move(text));
  }
}

std::string required(const CommandLine& line, const std::string& flag) {
  const auto value = line.text(flag);
  if (!value.has_value()) {
    throw Error("--" + flag + " is missing (--help tells more)");
  }
  return *value;
}

/// Returns how a value came about that was typed with a suffix, such as "1024 GPUs: 1k"; empty if
/// it had none.
std::string resolved_text(const std::string& resolved, const Size& size) {
  return size.written.empty() ? "" : resolved + ": " + size.written;
}

/// Returns the cluster that --model is planned for unless --cluster names one.
std::string usual_cluster(const CommandLine& line) {
  const auto model = line.text("model");
  return model && line.has("nodes") ? find_model(*model).home : kUsualCluster;
}

}  // namespace

AskedGpus asked_gpus(const CommandLine& line, const std::string& usual_cluster) {
  const auto gpus = line.size("gpus", 1, kMostGpus);
  const auto nodes = line.size("nodes", 1, kMostGpus);
  if (gpus && nodes) {
    throw Error("--gpus and --nodes: expected one of them, got both");
  }
  if (gpus) {
    return {gpus->value, resolved_text(plural(gpus->value, "GPU"), *gpus)};
  }
  if (!nodes) {
    return {};
  }
  const ClusterSpec cluster = find_cluster(line.text("cluster").value_or(usual_cluster));
  if (nodes->value > kMostGpus / cluster.gpus_per_node) {
    throw Error(fmt::format("--nodes: {} of {} GPUs each exceed {} GPUs", nodes->value,
                            cluster.gpus_per_node, kMostGpus));
  }
  const std::int64_t count = nodes->value * cluster.gpus_per_node;
  return {count,
          fmt::format("{}: {} of {}, {} each", plural(count, "GPU"), plural(nodes->value, "node"),
                      cluster.name, plural(cluster.gpus_per_node, "GPU"))};
}

void check_cluster_holds(const CommandLine& line, const ClusterSpec& cluster, std::int64_t gpus) {
  const std::int64_t most = cluster.max_gpus();
  if (most > 0 && gpus > most) {
    throw Error(fmt::format("--{}: expected at most the {} of cluster {}, got {}",
                            line.has("nodes") ? "nodes" : "gpus", plural(most, "GPU"), cluster.name,
                            gpus));
  }
}

namespace {

/// Returns the batch of --batch-per-gpu, which may be a fraction: "2", "1/4". Throws Error, naming
/// the nearest batches, if it is no whole number of sequences.
std::int64_t batch_of_gpus(const std::string& text, std::int64_t gpus) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string place = "--batch-per-gpu";
  const std::int64_t per_gpu = slash == text.size()
                                   ? parse_size(text, 1, kLargestBatch, place).value
                                   : parse_count(text.substr(0, slash), 1, kLargestBatch, place);
  const std::int64_t divisor =
      slash == text.size() ? 1 : parse_count(text.substr(slash + 1), 1, kLargestBatch, place);
  const std::int64_t batch = per_gpu * gpus / divisor;
  if (per_gpu * gpus % divisor != 0) {
    const double sequences = static_cast<double>(per_gpu * gpus) / static_cast<double>(divisor);
    throw Error(fmt::format(
        "--batch-per-gpu: {} on {} is {:.10g} sequences; expected a whole number, such as that of "
        "--global-batch-size {}",
        text, plural(gpus, "GPU"), sequences,
        batch == 0 ? "1" : fmt::format("{} or {}", batch, batch + 1)));
  }
  if (batch > kLargestBatch) {
    throw Error(fmt::format("--batch-per-gpu: {} on {} exceeds a batch of {}", text,
                            plural(gpus, "GPU"), kLargestBatch));
  }
  return batch;
}

/// Returns the batch of --global-batch-tokens, in whole sequences, and tells of it.
std::int64_t batch_of_tokens(const Size& tokens, std::int64_t length, PlanRequest& request) {
  const std::int64_t batch = tokens.value / length;
  if (batch < 1 || batch > kLargestBatch) {
    throw Error(fmt::format("--global-batch-tokens: expected from 1 to {} sequences of {}, got {}",
                            kLargestBatch, plural(length, "token"), plural(tokens.value, "token")));
  }
  const std::int64_t rest = tokens.value - batch * length;
  request.assumptions.push_back(fmt::format(
      "global batch size {}: {} in sequences of {}{}", batch, plural(tokens.value - rest, "token"),
      length,
      rest == 0 ? "" : fmt::format(", {} fewer than asked for, since sequences are whole", rest)));
  return batch;
}

}  // namespace

std::optional<std::int64_t> given_batch_size(const CommandLine& line, std::int64_t length,
                                             PlanRequest& request) {
  std::string given;
  for (const char* flag : {"global-batch-size", "batch-per-gpu", "global-batch-tokens"}) {
    if (line.has(flag) && !given.empty()) {
      throw Error("--" + given + " and --" + flag + ": expected one of them, got both");
    }
    given = line.has(flag) ? flag : given;
  }
  if (const auto per_gpu = line.text("batch-per-gpu")) {
    const std::int64_t batch = batch_of_gpus(*per_gpu, request.gpus);
    assume(request, fmt::format("global batch size {}: {} on each of {}", batch, *per_gpu,
                                plural(request.gpus, "GPU")));
    return batch;
  }
  if (const auto tokens = line.size("global-batch-tokens", 1, kMostBatchTokens)) {
    return batch_of_tokens(*tokens, length, request);
  }
  const auto global = line.size("global-batch-size", 1, kLargestBatch);
  if (!global) {
    return std::nullopt;
  }
  assume(request, resolved_text(fmt::format("global batch size {}", global->value), *global));
  return global->value;
}

namespace {

/// Returns a batch that many numbers of replicas divide: at most a sixteenth smaller, and a
/// multiple of the largest power of two that allows.
std::int64_t round_batch(std::int64_t batch) {
  std::int64_t unit = 1;
  while (32 * unit <= batch) {
    unit *= 2;
  }
  return batch / unit * unit;
}

/// Returns the batch of the flags, else that of `from`, else the model's. At another sequence
/// length than the model's own, `own_length`, its batch has as many tokens.
std::int64_t read_batch_size(const CommandLine& line, const ModelProfile& model,
                             std::int64_t own_length, const ImportedRun* from,
                             PlanRequest& request) {
  const std::int64_t length = model.config.seq_length;
  if (const auto given = given_batch_size(line, length, request)) {
    return *given;
  }
  if (from != nullptr) {
    return from->global_batch_size;
  }
  if (model.global_batch_size > 0 && length == own_length) {
    assume(request, fmt::format("global batch size {}: the model's", model.global_batch_size));
    return model.global_batch_size;
  }
  if (model.global_batch_size > 0) {
    const std::int64_t tokens = model.global_batch_size * own_length;
    if (tokens / length > kLargestBatch) {
      throw Error(
          fmt::format("--seq-length: the model's batch of {} is {} of {}; expected "
                      "--global-batch-size too",
                      plural(tokens, "token"), plural(tokens / length, "sequence"), length));
    }
    const std::int64_t batch = round_batch(std::max<std::int64_t>(tokens / length, 1));
    const std::int64_t fewer = tokens - batch * length;
    assume(request,
           fmt::format("global batch size {}: the model's batch of {} ({} of {}) at this sequence "
                       "length{}",
                       batch, plural(tokens, "token"), plural(model.global_batch_size, "sequence"),
                       own_length,
                       fewer > 0 ? fmt::format(", {} fewer for a round number", fewer) : ""));
    return batch;
  }
  const std::int64_t batch = std::max<std::int64_t>(kUsualTokens / length, 1);
  assume(request, fmt::format("global batch size {}: {} tokens, as Llama 2 was trained with; its "
                              "config.json does not say",
                              batch, batch * length));
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

/// Returns the shipped stack that is today's version of a framework whose file was read; nullopt
/// for Megatron-LM, whose version a cluster's default says, and where none is shipped.
std::optional<std::string> stack_of_framework(const std::string& framework) {
  return framework == "torchtitan"        ? std::optional<std::string>("torchtitan-2025")
         : framework == "nanotron"        ? std::optional<std::string>("nanotron-2025")
         : framework == "Megatron-Bridge" ? std::optional<std::string>("megatron-bridge-2025")
                                          : std::nullopt;
}

/// Returns the stack as --precision asks, or else `usual` if that is not empty. The flag takes
/// every spelling that rows of runs may have.
StackSpec at_chosen_precision(const StackSpec& stack, const CommandLine& line,
                              const std::string& usual) {
  const std::optional<std::string> asked = line.text("precision");
  return with_precision(stack, asked ? choose_precision(*asked, "--precision") : usual);
}

/// Tells of a folder that has the name of a shipped model, which is taken in its place.
void tell_passed_over(const CommandLine& line, PlanRequest& request) {
  const auto name = line.text("model");
  if (name && is_model_folder(*name) &&
      profile_file(ProfileKind::kModel, *name).path !=
          std::filesystem::path(*name) / "config.json") {
    assume(request, "model " + *name + ": the shipped one; --model ./" + *name +
                        " takes the folder of this name");
  }
}

/// Tells for which profile another name stands: "torchtitan".
void tell_alias(const CommandLine& line, const std::string& flag, ProfileKind kind,
                PlanRequest& request) {
  const auto name = line.text(flag);
  const auto profile = name ? find_shipped(kind, *name) : std::nullopt;
  if (profile && !is_same_name(*profile, *name)) {
    assume(request, fmt::format("{} {}: what {} stands for", flag, *profile, *name));
  }
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

bool asks_for_all_stacks(const CommandLine& line) {
  return line.text("stack") == "all";
}

StackSpec as_asked(StackSpec stack, const CommandLine& line, const std::string& usual) {
  stack = at_chosen_precision(stack, line, usual);
  if (const auto overlap = overlap_choice(line)) {
    stack = with_overlap(stack, *overlap);
  }
  return with_switches(std::move(stack), line);
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
  return read_run(text, place, asked_gpus(line, usual_cluster(line)).count,
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

namespace {

/// Sets the stack of a request whose cluster is known: that of --stack, else today's stack of the
/// framework whose file was read, else the cluster's default. With `all` it stays as it is.
void choose_stack(const CommandLine& line, const ImportedRun* from, PlanRequest& request) {
  const ClusterSpec& cluster = request.scenario.cluster;
  StackSpec& stack = request.scenario.stack;
  if (asks_for_all_stacks(line)) {
    stack = find_stack(cluster.default_stack);
    return;
  }
  const std::optional<std::string> of_framework =
      from == nullptr || line.has("stack") ? std::nullopt : stack_of_framework(from->framework);
  if (!line.has("stack")) {
    assume(request,
           of_framework
               ? fmt::format("stack {}: today's {}", *of_framework, from->framework)
               : fmt::format("stack {}: the default of {}", cluster.default_stack, cluster.name));
  }
  tell_alias(line, "stack", ProfileKind::kStack, request);
  stack = of_framework ? find_stack(*of_framework) : find_stack_of(line, cluster);
  stack = from == nullptr ? as_asked(stack, line)
                          : as_asked(with_changes(stack, from->stack), line, from->precision);
}

/// Returns how much longer products take on the slowest of `gpus` cards; empty where cards are
/// taken to be alike.
std::string slowest_card_text(const GpuSpec& gpu, std::int64_t gpus) {
  const double longer = slowest_card_factor(gpus, gpu.card_spread) - 1.0;
  return longer > 0.0 ? fmt::format(
                            "products {:.1f} % longer than on a usual {}: all GPUs wait for "
                            "the slowest of {}",
                            100.0 * longer, gpu.name, gpus)
                      : "";
}

}  // namespace

PlanRequest read_request(const CommandLine& line, const ImportedRun* from) {
  PlanRequest request;
  const AskedGpus asked = asked_gpus(line, usual_cluster(line));
  if (from == nullptr && !asked.count) {
    (void)required(line, "gpus");
  }
  request.gpus = from == nullptr ? *asked.count : from->gpus;
  assume(request, asked.assumption);
  ModelProfile model = find_model_of(line, from);
  std::ranges::copy(model.assumptions, std::back_inserter(request.assumptions));
  request.warnings = model.warnings;
  tell_passed_over(line, request);
  tell_alias(line, "model", ProfileKind::kModel, request);
  const int own_length = model.config.seq_length;
  const int said_length =
      from == nullptr ? 0 : from->seq_length.value_or(from->model ? from->model->seq_length : 0);
  if (const auto length = line.size("seq-length", 1, kLongestSequence)) {
    model.config.seq_length = static_cast<int>(length->value);
    (void)parameter_count(model.config);
    assume(request, resolved_text(fmt::format("sequence length {}", length->value), *length));
  } else if (said_length > 0) {
    model.config.seq_length = said_length;
    (void)parameter_count(model.config);
  } else {
    assume(request, length_assumption(model));
  }

  const auto cluster = line.text("cluster");
  if (!cluster.has_value()) {
    request.assumptions.push_back(fmt::format(
        "cluster {}: {}", model.home,
        model.home == kUsualCluster ? "usual today" : "where " + model.name + " was published"));
  }
  tell_alias(line, "cluster", ProfileKind::kCluster, request);
  request.scenario.cluster = find_cluster(cluster.value_or(model.home));
  choose_stack(line, from, request);
  assume(request, slowest_card_text(request.scenario.cluster.gpu, request.gpus));
  if (has_relative_positions(model.config) && request.scenario.stack.attention != "unfused") {
    assume(request,
           "unfused attention for relative positions, which exports refuse: no fused kernel adds "
           "them");
  }
  request.scenario.job = {
      .model_name = model.name,
      .model = model.config,
      .global_batch_size = read_batch_size(line, model, own_length, from, request)};
  check_cluster_holds(line, request.scenario.cluster, request.gpus);
  return request;
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    std::cerr << as_typed("ptdp-plan: warning: ") + warning + "\n";
  }
}

namespace {

/// Returns the number of "0.95" or "95%"; one that --fit refuses for anything else.
double parse_probability(const std::string& text) {
  try {
    return parse_fraction(text, "--fit");
  } catch (const Error&) {
    return -1.0;
  }
}

}  // namespace

FitRequest read_fit(const CommandLine& line) {
  const auto text = line.text("fit");
  if (!text) {
    return {};
  }
  const double fit = parse_probability(*text);
  if (fit < kLeastFit || fit > kMostFit) {
    throw Error(fmt::format("--fit: expected a probability from {} to {}, got {}", kLeastFit,
                            kMostFit, in_quotes(*text)));
  }
  return {.probability = fit, .is_asked_for = true};
}

void reserve_memory(PlanRequest& request, const CalibrationSource& calibration,
                    const std::optional<FitRequest>& fit) {
  ReservedScenario reserved =
      fit ? calibration.reserved_for(fit->probability, request.scenario, request.gpus)
          : calibration.with_own_reserve(request.scenario, request.gpus);
  if (fit && fit->is_asked_for && !reserved.probability) {
    throw Error("--fit: no run says how much memory " + request.scenario.stack.name +
                " has beyond the formulas; leave it out, or use --memory-headroom");
  }
  const bool is_less =
      reserved.scenario.stack.reserve_fraction < request.scenario.stack.reserve_fraction;
  if (fit && !fit->is_asked_for && reserved.support.num_runs == 0 && is_less) {
    reserved = {.scenario = request.scenario};
  }
  if (std::string text = reserve_text(reserved); !text.empty()) {
    request.assumptions.push_back(
        fit ? std::move(text)
            : text + ", as the stack's profile says (a plan's is enough to fit surely: --fit)");
  }
  request.scenario = std::move(reserved.scenario);
}

SearchOptions read_options(const CommandLine& line, std::int64_t gpus) {
  SearchOptions options{.gpus = gpus, .space = read_pins(line)};
  if (const auto headroom = line.text("memory-headroom")) {
    options.memory_headroom = parse_fraction(*headroom, "--memory-headroom");
  }
  const auto tie = line.text("tie");
  options.tie = tie ? parse_fraction(*tie, "--tie") : kUsualTie;
  options.objective = line.choice_or_first<Objective>("objective", kObjectiveNames);
  options.num_best = static_cast<int>(line.count("top", 1, kMostPlans).value_or(5));
  if (const auto threads = line.count("threads", 1, kMostThreads)) {
    options.num_threads = static_cast<int>(*threads);
    options.num_workers = static_cast<std::size_t>(*threads);
  }
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
