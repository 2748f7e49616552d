// Which parts of a layer selective recomputation repeats, and which layers full recomputation does.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/text/named_values.h"

namespace ptdp {

/// A part of a layer whose activations are dropped after the forward pass and computed again before
/// the backward pass: one of Megatron-Core's --recompute-modules, or torchtitan's "op".
enum class RecomputeModule {
  kCoreAttention,  ///< softmax(QKᵀ)V, from queries, keys and values.
  kMoeActivation,  ///< The activation between the two products of experts.
  kLayerNorm,      ///< Outputs of the norms that are kernels of their own.
  /// Queries, keys and values of latent attention, and the norms of its compressions.
  kMlaUpProjection,
  kMlp,            ///< The MLP of layers without experts, with the norm that is fused into it.
  kMoe,            ///< All of the experts: router, dispatch, products, shared experts.
  kSharedExperts,  ///< Experts that every token visits.
  /// All of a layer but attention's result and every second product, in their order.
  kEverySecondProduct
};
inline constexpr std::array kRecomputeModuleNames = {
    NamedValue<RecomputeModule>{RecomputeModule::kCoreAttention, "core_attn"},
    NamedValue<RecomputeModule>{RecomputeModule::kMoeActivation, "moe_act"},
    NamedValue<RecomputeModule>{RecomputeModule::kLayerNorm, "layernorm"},
    NamedValue<RecomputeModule>{RecomputeModule::kMlaUpProjection, "mla_up_proj"},
    NamedValue<RecomputeModule>{RecomputeModule::kMlp, "mlp"},
    NamedValue<RecomputeModule>{RecomputeModule::kMoe, "moe"},
    NamedValue<RecomputeModule>{RecomputeModule::kSharedExperts, "shared_experts"},
    NamedValue<RecomputeModule>{RecomputeModule::kEverySecondProduct, "op"}};

/// A set of modules that recomputation repeats.
class RecomputeModules {
 public:
  constexpr RecomputeModules() = default;
  constexpr RecomputeModules(std::initializer_list<RecomputeModule> modules) {
    for (const RecomputeModule module : modules) {
      add(module);
    }
  }
  constexpr void add(RecomputeModule module) {
    bits_ = static_cast<std::uint8_t>(bits_ | bit_of(module));
  }
  [[nodiscard]] constexpr bool has(RecomputeModule module) const {
    return (bits_ & bit_of(module)) != 0;
  }
  [[nodiscard]] constexpr bool is_empty() const { return bits_ == 0; }
  /// Returns whether all modules of this set are among `others`.
  [[nodiscard]] constexpr bool are_among(RecomputeModules others) const {
    return (bits_ & ~others.bits_) == 0;
  }
  /// Returns the modules of the set in the order of kRecomputeModuleNames.
  [[nodiscard]] std::vector<RecomputeModule> list() const;

  friend bool operator==(const RecomputeModules&, const RecomputeModules&) = default;
  friend std::strong_ordering operator<=>(const RecomputeModules&,
                                          const RecomputeModules&) = default;

 private:
  static constexpr unsigned bit_of(RecomputeModule module) {
    return 1U << static_cast<unsigned>(module);
  }

  std::uint8_t bits_ = 0;
};

/// Returns whether `modules` include the MLP that every token of a layer visits: the dense MLP, or
/// the shared experts of a layer with experts.
[[nodiscard]] constexpr bool cover_mlp(RecomputeModules modules, bool has_experts) {
  return has_experts
             ? modules.has(RecomputeModule::kMoe) || modules.has(RecomputeModule::kSharedExperts)
             : modules.has(RecomputeModule::kMlp);
}

/// The attention core alone, which is selective recomputation in arXiv:2205.05198.
inline constexpr RecomputeModules kCoreAttentionAlone = {RecomputeModule::kCoreAttention};

/// Returns which part of a layer a module is, in a few words for people.
[[nodiscard]] std::string_view meaning_of(RecomputeModule module);

/// Returns the names of modules with a plus sign between them: "core_attn+mlp".
[[nodiscard]] std::string to_string(RecomputeModules modules);
/// Reads names of modules with a plus sign, a comma or a space between them. Throws Error, whose
/// message begins with `place`, for an unknown name, a name given twice, and "op" beside others.
[[nodiscard]] RecomputeModules parse_recompute_modules(std::string_view text,
                                                       const std::string& place);

/// Which layers full recomputation repeats, and how many at a time, given recompute_num_layers = n.
enum class RecomputeMethod {
  kBlock,    ///< Repeats the first n layers of each virtual stage; n = 0: all.
  kUniform,  ///< Repeats all layers, n at a time: of n layers only the first one's input is kept.
  /// Repeats every n-th layer of each virtual stage: torchtitan's selective_ac_option "2".
  kEvery
};
inline constexpr std::array kRecomputeMethodNames = {
    NamedValue<RecomputeMethod>{RecomputeMethod::kBlock, "block"},
    NamedValue<RecomputeMethod>{RecomputeMethod::kUniform, "uniform"},
    NamedValue<RecomputeMethod>{RecomputeMethod::kEvery, "every"}};
[[nodiscard]] std::string_view name_of(RecomputeMethod method);

}  // namespace ptdp
