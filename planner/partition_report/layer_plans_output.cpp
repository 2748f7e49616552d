// Prints degrees for a list as text, JSON and CSV.
#include "planner/partition_report/layer_plans_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cost_model/text/csv_columns.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "planner/partition_report/partition_output.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostShownStages = 16;
constexpr int kTermsOfALine = 4;

std::string time_text(const LayerPlan& plan) {
  std::string text;
  for (const LayerPlanTerm& term : kLayerTerms) {
    if (plan.times.*term.time > Seconds(0.0)) {
      std::string name(term.name);
      std::ranges::replace(name, '_', ' ');
      text += share_row(name, plan.times.*term.time, plan.iteration_time());
    }
  }
  return text;
}

/// Returns the memory of the fullest GPU by category, on one line or two.
std::string memory_text(const LayerPlan& plan, const LayerPlans& plans) {
  const int rank = heaviest_of(plan.memory);
  std::string terms;
  int num_terms = 0;
  for (const MemoryTerm& term : kMemoryTerms) {
    if (plan.memory[rank].*term.size > Bytes(0.0)) {
      terms += num_terms == 0 ? "  " : num_terms % kTermsOfALine == 0 ? ",\n  " : ", ";
      terms += fmt::format("{} {:.2f}", term.name, (plan.memory[rank].*term.size).value() / kGibi);
      ++num_terms;
    }
  }
  return fmt::format("fullest GPU: {:.2f} of {:.2f} GiB, on rank {}\n{}\n",
                     peak_of(plan).value() / kGibi, plans.search.cluster.gpu.memory.value() / kGibi,
                     rank, terms);
}

std::string runners_up(const LayerPlans& plans) {
  std::string text;
  for (std::size_t i = 1; i < plans.plans.size(); ++i) {
    const LayerPlan& plan = plans.plans[i];
    text += fmt::format("  {}. {:>9} {:>8} {:>6.1f} GiB  {}\n", i + 1,
                        duration(plan.iteration_time()), signed_percent(loss_of(plan, plans)),
                        peak_of(plan).value() / kGibi, degrees_text(plan.config));
  }
  return text.empty() ? "" : "\nrunners-up: time, loss, memory\n" + text;
}

std::string choices_of_degrees(const LayerCandidates& candidates) {
  return plural(candidates.enumerated, "choice of degrees", "choices of degrees");
}

/// Returns both tables of a plan's partition or, where these would be long, the slowest GPU.
std::string stages_text(const LayerPlan& plan) {
  const std::vector<LayerCost>& ranks = plan.partition.ranks;
  return plan.partition.stages.size() <= kMostShownStages
             ? tables_of(plan.partition)
             : fmt::format(
                   "slowest GPU: {:.6g} ms per microbatch, on rank {} of {}; --format json "
                   "has all\n",
                   1e3 * ranks[slowest_rank(ranks)].time.value(), slowest_rank(ranks),
                   ranks.size());
}

std::string to_text(const LayerPlans& plans, const std::vector<std::string>& assumptions) {
  const LayerPlan& best = plans.plans.front();
  const std::int64_t used = best.config.world_size();
  std::string text =
      headline(plans) +
      fmt::format("\n{}: {} per iteration\n  {} of {}, {}\n\n", degrees_text(best.config),
                  duration(best.iteration_time()),
                  plural(best.partition.num_microbatches, "microbatch", "microbatches"),
                  plural(best.config.micro_batch_size, "sequence"),
                  used == plans.search.gpus ? "all GPUs in use"
                                            : devices(used, plans.search.cluster.gpu) + " in use") +
      time_text(best) + '\n' + stages_text(best) + '\n' + memory_text(best, plans) +
      "layers per stage: " + spelled(best.config.layers_per_stage) + "\n" + runners_up(plans);
  std::vector<std::string> basis = assumptions;
  std::ranges::move(basis_of(plans), std::back_inserter(basis));
  return text + titled("rests on", basis);
}

ObjectWriter written_inputs(const LayerPlans& plans) {
  const LayerSearch& search = plans.search;
  ObjectWriter inputs;
  inputs.text("list", search.list.name);
  if (!search.list.source.empty()) {
    inputs.text("source", search.list.source);
  }
  inputs.text("cluster", search.cluster.name);
  inputs.text("stack", search.stack.name);
  inputs.count("gpus", search.gpus);
  inputs.count("global_batch_size", search.global_batch_size);
  inputs.number("memory_headroom", search.memory_headroom);
  inputs.number("weight_bytes", search.stack.weight_bytes);
  inputs.number("gradient_bytes", search.stack.gradient_bytes);
  inputs.number("optimizer_bytes", search.stack.optimizer_bytes);
  return inputs;
}

ObjectWriter written_candidates(const LayerCandidates& candidates) {
  ObjectWriter written;
  written.count("enumerated", candidates.enumerated);
  written.count("simulated", candidates.simulated);
  written.count("too_full", candidates.too_full);
  written.count("too_long", candidates.too_long);
  written.count("by_chunks", candidates.by_chunks);
  written.count("unseen", candidates.unseen);
  written.number("possible_gain", candidates.possible_gain);
  written.count("beaten", candidates.beaten());
  return written;
}

ObjectWriter written_plan(const LayerPlan& plan, const LayerPlans& plans) {
  ObjectWriter written;
  written.object("config", plan.config);
  written.count("gpus_used", plan.config.world_size());
  written.count("num_microbatches", plan.partition.num_microbatches);
  written.quantity("iteration_time_s", plan.iteration_time(), 1.0);
  written.number("loss", loss_of(plan, plans));
  written.part("breakdown_s", [&](ObjectWriter& terms) {
    for (const LayerPlanTerm& term : kLayerTerms) {
      terms.quantity(std::string(term.name), plan.times.*term.time, 1.0);
    }
  });
  written.children("stages", written_stages(plan.partition));
  std::vector<ObjectWriter> ranks(plan.memory.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].quantity("time_s", plan.partition.ranks[rank].time, 1.0);
    ranks[rank].quantity("memory_GiB", plan.memory[rank].total(), kGibi);
    ranks[rank].part("memory_by_category_GiB", [&](ObjectWriter& categories) {
      for (const MemoryTerm& term : kMemoryTerms) {
        categories.quantity(std::string(term.name), plan.memory[rank].*term.size, kGibi);
      }
    });
  }
  written.children("ranks", std::move(ranks));
  return written;
}

std::string to_json(const LayerPlans& plans, const std::vector<std::string>& assumptions) {
  ObjectWriter json;
  json.text("schema", "ptdp.layer_plans/1");
  json.child("inputs", written_inputs(plans));
  json.texts("assumptions", assumptions);
  json.texts("rests_on", basis_of(plans));
  json.child("candidates", written_candidates(plans.candidates));
  std::vector<ObjectWriter> written;
  for (const LayerPlan& plan : plans.plans) {
    written.push_back(written_plan(plan, plans));
  }
  json.children("plans", std::move(written));
  return json.dump();
}

std::string to_csv(const LayerPlans& plans) {
  const auto number = [](double value) { return fmt::format("{:.15g}", value); };
  const auto count_of = [](int ParallelConfig::*size) {
    return [size](const LayerPlan& plan) { return std::to_string(plan.config.*size); };
  };
  return csv_text<LayerPlan>(
      {{"tp", count_of(&ParallelConfig::tp)},
       {"pp", count_of(&ParallelConfig::pp)},
       {"dp", count_of(&ParallelConfig::dp)},
       {"vpp", count_of(&ParallelConfig::vpp)},
       {"mbs", count_of(&ParallelConfig::micro_batch_size)},
       {"zero", count_of(&ParallelConfig::zero_stage)},
       {"iteration_time_s",
        [&](const auto& plan) { return number(plan.iteration_time().value()); }},
       {"loss", [&](const auto& plan) { return number(loss_of(plan, plans)); }},
       {"memory_GiB", [&](const auto& plan) { return number(peak_of(plan).value() / kGibi); }},
       {"layers_per_stage",
        [](const auto& plan) {
          return fmt::format("{}", fmt::join(plan.config.layers_per_stage, ","));
        }}},
      plans.plans);
}

}  // namespace

std::string headline(const LayerPlans& plans) {
  const LayerSearch& search = plans.search;
  return fmt::format("{} on {} of {} with {}, batch {}", search.list.name,
                     devices(search.gpus, search.cluster.gpu), search.cluster.name,
                     search.stack.name, search.global_batch_size);
}

std::string degrees_text(const ParallelConfig& config) {
  return fmt::format("{}pp={} dp={}{} zero={}, {}",
                     config.tp > 1 ? fmt::format("tp={} ", config.tp) : "", config.pp, config.dp,
                     config.vpp > 1 ? fmt::format(" vpp={}", config.vpp) : "", config.zero_stage,
                     name_of(config.schedule));
}

std::vector<std::string> basis_of(const LayerPlans& plans) {
  const LayerSearch& search = plans.search;
  const std::vector<const ListedLayer*> layers = entries_of(search.list);
  std::vector<std::string> basis = {
      fmt::format("times of layers: the list's, for tp {} and microbatches of {}", search.list.tp,
                  plural(search.list.micro_batch_size, "sequence"))};
  if (std::ranges::any_of(layers, [](const auto* layer) { return !layer->forward; })) {
    basis.emplace_back("forward passes: a third of time_s, where the list has no forward_s");
  }
  basis.push_back(fmt::format(
      "state: {:g} + {:g} + {:g} bytes per parameter (weights, gradients, "
      "optimizer)",
      search.stack.weight_bytes, search.stack.gradient_bytes, search.stack.optimizer_bytes));
  basis.emplace_back("memory leaves out what a pass needs while it runs: --memory-headroom");
  if (std::ranges::any_of(layers, [](const auto* layer) { return layer->memory > Bytes(0.0); })) {
    basis.emplace_back("memory_GiB of the list does not count: it holds for other degrees");
  }
  basis.push_back(fmt::format(
      "cuts: the slowest GPU as fast as possible; chunks per GPU up to {}",
      search.space.vpp.is_any() ? std::to_string(kMostTriedChunks) : search.space.vpp.text()));
  basis.emplace_back("no calibration; not searched: tp, other schedules, ZeRO 2 and 3");
  const LayerCandidates& candidates = plans.candidates;
  basis.push_back(fmt::format("{}: {} simulated, {} too full, {} slower by a bound",
                              choices_of_degrees(candidates), candidates.simulated,
                              candidates.too_full, candidates.beaten()));
  if (candidates.by_chunks > 0) {
    basis.push_back(
        fmt::format("{} of them with chunks cut alike: layers too unlike for an exact cut",
                    candidates.by_chunks));
  }
  if (candidates.too_long > 0) {
    basis.push_back(
        fmt::format("{} left out: their steps take too long to simulate", candidates.too_long));
  }
  if (candidates.unseen > 0) {
    basis.push_back(fmt::format("{} not looked at in time: none is more than {} faster",
                                candidates.unseen, percent(candidates.possible_gain)));
  }
  return basis;
}

std::string why_nothing_fits(const LayerPlans& plans) {
  std::string text = "nothing fits: " + headline(plans);
  if (plans.candidates.enumerated == 0) {
    return text + ": no degrees divide the batch, the GPUs and the layers as the flags ask";
  }
  text += ": " + choices_of_degrees(plans.candidates);
  if (plans.candidates.unseen > 0) {
    return text + fmt::format(", {} of them not looked at in time; expected --pp or --dp too",
                              plans.candidates.unseen);
  }
  text += ", none can run";
  return plans.nearest ? text + fmt::format("; {} lacks least: about {} on the fullest GPU",
                                            degrees_text(plans.nearest->config),
                                            binary_size(plans.nearest->missing))
                       : text;
}

std::string in_format(AnswerFormat format, const LayerPlans& plans,
                      const std::vector<std::string>& assumptions) {
  switch (format) {
    case AnswerFormat::kJson:
      return to_json(plans, assumptions);
    case AnswerFormat::kCsv:
      return to_csv(plans);
    default:
      return to_text(plans, assumptions);
  }
}

}  // namespace ptdp
