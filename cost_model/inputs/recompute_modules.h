// What of a layer is computed again where recomputation is selective, and of which layers all is.
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

/// Parts of a layer whose activations are dropped after the forward pass and computed again before
/// the backward one: Megatron-Core's --recompute-modules, and torchtitan's "op".
enum class RecomputeModule {
  kCoreAttention,      ///< softmax(QKᵀ)V, from queries, keys and values.
  kMoeActivation,      ///< The activation between the two products of experts.
  kLayerNorm,          ///< Outputs of the norms that are kernels of their own.
  kMlaUpProjection,    ///< Queries, keys and values of latent attention, and the norms of what is
                       ///< compressed.
  kMlp,                ///< The MLP of layers without experts, with the norm that is fused into it.
  kMoe,                ///< All of the experts: router, dispatch, products, shared experts.
  kSharedExperts,      ///< Experts that every token visits.
  kEverySecondProduct  ///< All but attention's result and every other product, in their order.
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

/// A set of them.
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
  /// Whether all of them are among `others`.
  [[nodiscard]] constexpr bool are_among(RecomputeModules others) const {
    return (bits_ & ~others.bits_) == 0;
  }
  /// In the order of kRecomputeModuleNames.
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

/// Whether they cover the dense MLP of a layer: of one with experts, its shared ones.
[[nodiscard]] constexpr bool cover_mlp(RecomputeModules modules, bool has_experts) {
  return has_experts
             ? modules.has(RecomputeModule::kMoe) || modules.has(RecomputeModule::kSharedExperts)
             : modules.has(RecomputeModule::kMlp);
}

/// What selective recomputation has always meant (arXiv:2205.05198).
inline constexpr RecomputeModules kCoreAttentionAlone = {RecomputeModule::kCoreAttention};

/// "core_attn+mlp".
[[nodiscard]] std::string to_string(RecomputeModules modules);
/// The way back; commas and spaces do, too. `place` begins the message of the Error that it throws
/// for a name that there is not, for one that is there twice, and for "op" beside others.
[[nodiscard]] RecomputeModules parse_recompute_modules(std::string_view text,
                                                       const std::string& place);

/// Which layers full recomputation is of, where it is not of all, or not layer by layer.
enum class RecomputeMethod {
  kBlock,    ///< The first recompute_num_layers of each virtual stage; 0: all.
  kUniform,  ///< All, so many at a time: only the inputs of the first of them are kept.
  kEvery     ///< Every so many-th of each virtual stage: torchtitan's selective_ac_option "2".
};
inline constexpr std::array kRecomputeMethodNames = {
    NamedValue<RecomputeMethod>{RecomputeMethod::kBlock, "block"},
    NamedValue<RecomputeMethod>{RecomputeMethod::kUniform, "uniform"},
    NamedValue<RecomputeMethod>{RecomputeMethod::kEvery, "every"}};
[[nodiscard]] std::string_view name_of(RecomputeMethod method);

}  // namespace ptdp
