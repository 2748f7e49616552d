#include "tools/shared/flag_synonyms.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "cost_model/error.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

/// A name of a flag elsewhere, with hyphens for underscores, and ours.
struct Synonym {
  std::string_view typed;
  std::string_view flag;
};

/// Names that mean exactly what our flags mean. Sources: Megatron-LM's megatron/training/
/// arguments.py and the keys of Megatron-Bridge, DeepSpeed's configuration, torchtitan's
/// job_config.py, and the flags of vLLM. Sections of torchtitan ("parallelism.") are left out.
constexpr std::array kSynonyms = {
    Synonym{"world-size", "gpus"},
    Synonym{"nnodes", "nodes"},
    Synonym{"num-nodes", "nodes"},
    Synonym{"gbs", "global-batch-size"},
    Synonym{"train-batch-size", "global-batch-size"},
    Synonym{"seq-len", "seq-length"},
    Synonym{"seqlen", "seq-length"},
    Synonym{"sequence-length", "seq-length"},
    Synonym{"mbs", "micro-batch-size"},
    Synonym{"train-micro-batch-size-per-gpu", "micro-batch-size"},
    Synonym{"pipeline-parallel-microbatch-size", "micro-batch-size"},
    Synonym{"tensor-model-parallel-size", "tp"},
    Synonym{"tensor-parallel-size", "tp"},
    Synonym{"tensor-parallel-degree", "tp"},
    Synonym{"pipeline-model-parallel-size", "pp"},
    Synonym{"pipeline-parallel-size", "pp"},
    Synonym{"pipeline-parallel-degree", "pp"},
    Synonym{"data-parallel-size", "dp"},
    Synonym{"data-parallel-replicate-degree", "dp-replicate"},
    Synonym{"context-parallel-size", "cp"},
    Synonym{"context-parallel-degree", "cp"},
    Synonym{"expert-model-parallel-size", "ep"},
    Synonym{"expert-parallel-degree", "ep"},
    Synonym{"expert-tensor-parallel-size", "etp"},
    Synonym{"expert-tensor-parallel-degree", "etp"},
    Synonym{"virtual-pipeline-model-parallel-size", "vpp"},
    Synonym{"num-virtual-stages-per-pipeline-rank", "vpp"},
    Synonym{"recompute-granularity", "recompute"},
    Synonym{"zero", "zero-stage"},
    Synonym{"train-tokens", "tokens"},
    Synonym{"dtype", "precision"},
    Synonym{"precision", "dtype"},
    Synonym{"dtype", "types"},
    Synonym{"precision", "types"},
};

/// Names under which people look for our flags, and which count something else or are switches.
constexpr std::array kRelated = {
    Synonym{"num-gpus", "gpus"},  // DeepSpeed's are those of a node
    Synonym{"ngpus", "gpus"},
    Synonym{"n-gpus", "gpus"},
    Synonym{"nproc-per-node", "gpus"},
    Synonym{"batch-size", "global-batch-size"},
    Synonym{"local-batch-size", "micro-batch-size"},  // torchtitan's are those of a replica's step
    Synonym{"gradient-accumulation-steps", "global-batch-size"},
    Synonym{"data-parallel-shard-degree", "dp"},
    Synonym{"num-layers-per-virtual-pipeline-stage", "vpp"},
    Synonym{"pipeline-parallel-schedule", "schedule"},
    Synonym{"use-distributed-optimizer", "zero-stage"},
    Synonym{"fsdp", "zero-stage"},
    Synonym{"recompute-activations", "recompute"},
    Synonym{"activation-checkpointing", "recompute"},
    Synonym{"bf16", "precision"},
    Synonym{"fp16", "precision"},
    Synonym{"fp8", "precision"},
    Synonym{"max-seq-len", "seq-length"},
    Synonym{"max-position-embeddings", "seq-length"},
};

bool has_flag(const po::options_description& flags, std::string_view name) {
  return std::ranges::any_of(flags.options(),
                             [&](const auto& flag) { return flag->long_name() == name; });
}

/// Returns a name as the tables spell it.
std::string with_hyphens(std::string_view typed) {
  for (const std::string_view section : {"parallelism.", "training."}) {
    if (typed.starts_with(section)) {
      typed.remove_prefix(section.size());
    }
  }
  std::string name(typed);
  std::ranges::replace(name, '_', '-');
  return name;
}

/// Returns our flag for a name of `table`, if `flags` has it.
std::optional<std::string> find_in(std::span<const Synonym> table, std::string_view name,
                                   const po::options_description& flags) {
  for (const Synonym& synonym : table) {
    if (synonym.typed == name && has_flag(flags, synonym.flag)) {
      return std::string(synonym.flag);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> known_flag(std::string_view typed,
                                      const po::options_description& flags) {
  if (has_flag(flags, typed)) {
    return std::string(typed);
  }
  const std::string name = with_hyphens(typed);
  return has_flag(flags, name) ? std::optional(name) : find_in(kSynonyms, name, flags);
}

std::optional<std::string> related_flag(std::string_view typed,
                                        const po::options_description& flags) {
  return find_in(kRelated, with_hyphens(typed), flags);
}

std::vector<std::string> with_known_flags(const std::vector<std::string>& arguments,
                                          const po::options_description& flags) {
  std::vector<std::string> known;
  std::map<std::string, std::string> typed_as;
  bool is_word = false;  // behind "--" all arguments are
  for (const std::string& argument : arguments) {
    is_word = is_word || argument == "--";
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string typed = argument.substr(0, equals);
    const std::optional<std::string> flag =
        !is_word && typed.starts_with("--") ? known_flag(typed.substr(2), flags) : std::nullopt;
    if (!flag) {
      known.push_back(argument);
      continue;
    }
    const auto [first, is_first] = typed_as.emplace(*flag, typed);
    if (!is_first && first->second != typed) {
      throw Error(first->second + " and " + typed + ": expected one of them, got both; they are " +
                  "one flag, --" + *flag);
    }
    known.push_back("--" + *flag + argument.substr(equals));
  }
  return known;
}

std::vector<std::string> synonyms_of(const po::options_description& flags) {
  std::vector<std::string> names;
  for (const Synonym& synonym : kSynonyms) {
    if (has_flag(flags, synonym.flag) && !has_flag(flags, synonym.typed)) {
      names.push_back("--" + std::string(synonym.typed));
    }
  }
  return names;
}

std::string synonyms_help(const po::options_description& flags) {
  std::string text;
  for (const auto& flag : flags.options()) {
    std::string line;
    for (const Synonym& synonym : kSynonyms) {
      if (synonym.flag == flag->long_name() && !has_flag(flags, synonym.typed)) {
        line += (line.empty() ? "" : ", ") + ("--" + std::string(synonym.typed));
      }
    }
    if (!line.empty()) {
      text += "  --" + flag->long_name() + ": " + line + "\n";
    }
  }
  return text.empty() ? text : "\nother names of these flags (with _ for - too):\n" + text;
}

}  // namespace ptdp
