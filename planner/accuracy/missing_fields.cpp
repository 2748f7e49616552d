// Fills in the fields of a row one after another, by a rule for each column.
#include "planner/accuracy/missing_fields.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "cost_model/contains.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/measured/measured_run.h"
#include "cost_model/text/integer_ranges.h"

namespace ptdp {
namespace {

constexpr std::int64_t kLargestCount = 1'000'000'000;

/// A row of a table with the fields that are filled in so far.
class PartialRow {
 public:
  PartialRow(const CsvTable& row, const ClusterSpec& cluster, const StackSpec& stack)
      : row_(row), cluster_(cluster), stack_(stack) {
    if (count("n_experts") > 0) {
      RowModels models;
      const std::optional<ModelProfile>& profile = models.find(text("model"));
      has_latent_attention_ = profile && ptdp::has_latent_attention(profile->config);
    }
  }

  /// Returns the field of a column: what is filled in, else what the row says.
  [[nodiscard]] std::string text(const std::string& column) const {
    const auto found = filled_in_.find(column);
    return found != filled_in_.end() ? found->second : row_.text(0, column);
  }
  /// Returns the field of a column as a number; 0 when it is empty or "?".
  [[nodiscard]] std::int64_t count(const std::string& column) const {
    const std::string value = text(column);
    return value.empty() || value == "?"
               ? 0
               : parse_count(value, 0, kLargestCount, row_.place_of(0, column));
  }
  [[nodiscard]] std::int64_t count_or_one(const std::string& column) const {
    return std::max<std::int64_t>(1, count(column));
  }
  /// Returns whether the profile that a row of experts names has latent attention.
  [[nodiscard]] bool has_latent_attention() const { return has_latent_attention_; }
  [[nodiscard]] const ClusterSpec& cluster() const { return cluster_; }
  [[nodiscard]] const StackCapabilities& can_run() const { return stack_.can_run; }

  void fill_in(const std::string& column, const std::string& value) { filled_in_[column] = value; }
  void forget(const std::string& column) { filled_in_.erase(column); }
  [[nodiscard]] const RowFields& filled_in() const { return filled_in_; }
  [[nodiscard]] bool was_unknown(const std::string& column) const {
    return filled_in_.contains(column);
  }

 private:
  const CsvTable& row_;
  const ClusterSpec& cluster_;
  const StackSpec& stack_;
  RowFields filled_in_;
  bool has_latent_attention_ = false;
};

using Texts = std::vector<std::string>;

Texts as_texts(const std::vector<std::int64_t>& numbers) {
  Texts texts;
  texts.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    texts.push_back(std::to_string(number));
  }
  return texts;
}

/// Returns whether `parts` cut the layers evenly, with embedding and head as layers if `has_slots`.
bool is_cut_evenly(std::int64_t layers, std::int64_t parts, bool has_slots) {
  return has_slots ? (layers + 2) % parts == 0 : layers % parts == 0;
}

/// Whether neither the GPUs nor the replicas are known: a rate of a GPU says nothing of them, and
/// the row is then taken as one replica with a usual batch.
bool is_of_unknown_size(const PartialRow& row) {
  return row.count("gpu_count") == 0 && row.count("dp") == 0 && !row.text("tflops_per_gpu").empty();
}

Texts values_of_tp(const PartialRow& row) {
  std::vector<std::int64_t> values;
  const std::int64_t heads = row.count("heads");
  for (std::int64_t tp = 1; tp <= row.cluster().gpus_per_node && heads > 0; tp *= 2) {
    if (heads % tp == 0) {
      values.push_back(tp);
    }
  }
  return as_texts(values);
}

/// Returns the row's number of layers; 0 when it is more than a model may have.
std::int64_t num_layers(const PartialRow& row) {
  const std::int64_t layers = row.count("layers");
  return layers <= kMostModelLayers ? layers : 0;
}

Texts values_of_pp(const PartialRow& row) {
  const std::int64_t gpus = row.count("gpu_count");
  const std::int64_t others = row.count("tp") * row.count_or_one("cp");
  const std::int64_t layers = num_layers(row);
  const bool is_any = is_of_unknown_size(row);
  std::vector<std::int64_t> values;
  for (std::int64_t pp = 1; others > 0 && pp <= layers && (is_any || pp * others <= gpus); ++pp) {
    const bool has_pipeline = pp == 1 || !row.can_run().schedules.empty();
    if ((is_any || gpus % (pp * others) == 0) && has_pipeline && is_cut_evenly(layers, pp, false)) {
      values.push_back(pp);
    }
  }
  return as_texts(values);
}

Texts values_of_dp(const PartialRow& row) {
  const std::int64_t others = row.count("tp") * row.count("pp") * row.count_or_one("cp");
  const std::int64_t gpus = row.count("gpu_count");
  if (is_of_unknown_size(row)) {
    return {"1"};
  }
  return others > 0 && gpus > 0 && gpus % others == 0 ? as_texts({gpus / others}) : Texts{};
}

Texts values_of_vpp(const PartialRow& row) {
  const std::int64_t pp = row.count("pp");
  const std::int64_t layers = num_layers(row);
  const std::string schedule = row.text("schedule");
  const bool is_interleaved = schedule.find("interleaved") != std::string::npos;
  const bool may_interleave =
      pp >= row.can_run().interleaved_min_stages &&
      (is_interleaved ||
       (schedule.empty() && contains(row.can_run().schedules, ScheduleKind::kInterleaved)));
  if (pp <= 1 || !may_interleave) {
    return {"1"};
  }
  for (const bool has_slots : {false, true}) {
    std::vector<std::int64_t> values;
    for (std::int64_t vpp = is_interleaved ? 2 : 1; vpp * pp <= layers + 2; ++vpp) {
      if (is_cut_evenly(layers, vpp * pp, has_slots)) {
        values.push_back(vpp);
      }
    }
    if (!values.empty()) {
      return as_texts(values);
    }
  }
  return {"1"};
}

Texts values_of_gbs(const PartialRow& row) {
  const std::int64_t seq = row.count("seq");
  const std::int64_t dp = row.count("dp");
  if (row.count("gpu_count") == 0 && row.was_unknown("dp") && seq > 0) {
    return as_texts({std::max<std::int64_t>(kAssumedBatchTokens / seq, 1)});
  }
  const bool is_rate = row.text("iter_time_best_s").empty() && !row.text("tokens_s_gpu").empty();
  const std::int64_t most = is_rate ? kMostTokensOfRate : kMostBatchTokens;
  std::vector<std::int64_t> values;
  for (std::int64_t batch = dp; dp > 0 && seq > 0 && batch <= most / seq; batch *= 2) {
    if (batch * seq >= kFewestBatchTokens) {
      values.push_back(batch);
    }
  }
  return as_texts(values);
}

Texts values_of_mbs(const PartialRow& row) {
  const std::int64_t dp = row.count_or_one("dp");
  const std::int64_t batch = row.count("gbs");
  return batch % dp == 0 ? as_texts(divisors(batch / dp)) : Texts{};
}

Texts values_of_recompute(const PartialRow& row) {
  Texts values;
  for (const auto& entry : kRecomputeNames) {
    if (contains(row.can_run().recompute, entry.value)) {
      values.emplace_back(entry.name);
    }
  }
  return values;
}

/// Returns each module of the stack's selective recomputation that the row's model has.
Texts values_of_recompute_modules(const PartialRow& row) {
  const bool has_experts = row.count("n_experts") > 0;
  const bool is_latent = row.has_latent_attention();
  Texts values;
  for (const RecomputeModule module : row.can_run().recompute_modules.list()) {
    const bool is_of_experts = module == RecomputeModule::kMoe ||
                               module == RecomputeModule::kMoeActivation ||
                               module == RecomputeModule::kSharedExperts;
    if ((has_experts || !is_of_experts) &&
        (is_latent || module != RecomputeModule::kMlaUpProjection)) {
      values.push_back(to_string(RecomputeModules{module}));
    }
  }
  return values;
}

Texts values_of_zero(const PartialRow& row) {
  Texts values;
  for (const int stage : row.can_run().zero_stages) {
    values.push_back(std::to_string(stage));
  }
  return values;
}

Texts values_of_seq_parallel(const PartialRow& row) {
  return row.count("tp") > 1 && row.can_run().sequence_parallel ? Texts{"n", "y"} : Texts{"n"};
}

Texts values_of_etp(const PartialRow& row) {
  return row.count("tp") > 1 ? Texts{"1", row.text("tp")} : Texts{"1"};
}

bool always(const PartialRow& /*row*/) {
  return true;
}
bool never(const PartialRow& /*row*/) {
  return false;
}
bool has_sharded_experts(const PartialRow& row) {
  return row.count("n_experts") > 0 && row.count("tp") > 1;
}

/// Whether the row's recomputation is filled in as that of modules, which nobody knows then.
bool has_assumed_modules(const PartialRow& row) {
  return row.was_unknown("recompute") && row.text("recompute") == "selective";
}

/// A rule that fills in a column. It may look at the columns of the rules before it.
struct FieldRule {
  const char* column;
  bool (*is_needed)(const PartialRow&);  ///< Whether an empty field is unknown, as "?" is.
  Texts (*values)(const PartialRow&);    ///< What the field may have been.
};
constexpr std::array kRules = {
    FieldRule{"tp", always, values_of_tp},
    FieldRule{"pp", always, values_of_pp},
    FieldRule{"dp", always, values_of_dp},
    FieldRule{"vpp", always, values_of_vpp},
    FieldRule{"gbs", always, values_of_gbs},
    FieldRule{"mbs", always, values_of_mbs},
    FieldRule{"recompute", always, values_of_recompute},
    FieldRule{"recompute_modules", has_assumed_modules, values_of_recompute_modules},
    FieldRule{"zero", never, values_of_zero},
    FieldRule{"seq_parallel", never, values_of_seq_parallel},
    FieldRule{"etp", has_sharded_experts, values_of_etp}};

bool is_unknown(const PartialRow& row, const FieldRule& rule) {
  const std::string text = row.text(rule.column);
  return text == "?" || (text.empty() && rule.is_needed(row));
}

/// Returns whether the row has a rate in place of a time, by a convention that it does not tell.
bool is_rate_of_unknown_convention(const PartialRow& row) {
  return row.text("iter_time_best_s").empty() && !row.text("tflops_per_gpu").empty() &&
         row.text("flop_convention").starts_with("unstated");
}

/// Fills in the fields of the rules from `next` on. Returns false when there are too many ways.
// NOLINTNEXTLINE(misc-no-recursion): as deep as there are rules
bool fill_in_rest(PartialRow& row, std::size_t next, Completions& completions) {
  if (completions.values.size() > kMostCompletions) {
    return false;
  }
  while (next < kRules.size() && !is_unknown(row, kRules[next])) {
    ++next;
  }
  if (next < kRules.size()) {
    const std::string column = kRules[next].column;
    // Modules belong to recompute, which is among the unknown columns where they are filled in.
    if (!contains(completions.unknown, column) && column != "recompute_modules") {
      completions.unknown.push_back(column);
    }
    const Texts values = kRules[next].values(row);
    bool is_done = true;
    for (std::size_t i = 0; i < values.size() && is_done; ++i) {
      row.fill_in(column, values[i]);
      is_done = fill_in_rest(row, next + 1, completions);
    }
    row.forget(column);
    return is_done;
  }
  if (is_rate_of_unknown_convention(row)) {
    for (const char* convention : {"model_full", "hardware"}) {
      RowFields fields = row.filled_in();
      fields["flop_convention"] = convention;
      completions.values.push_back(std::move(fields));
    }
  } else if (!row.filled_in().empty()) {
    completions.values.push_back(row.filled_in());
  }
  return true;
}

}  // namespace

Completions complete_missing_fields(const CsvTable& row, const ClusterSpec& cluster,
                                    const StackSpec& stack) {
  PartialRow partial(row, cluster, stack);
  Completions completions;
  if (is_rate_of_unknown_convention(partial)) {
    completions.unknown.emplace_back("flop_convention");
  }
  if (!fill_in_rest(partial, 0, completions)) {
    completions.values.clear();
  }
  return completions;
}

}  // namespace ptdp
