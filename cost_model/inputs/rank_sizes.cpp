#include "cost_model/inputs/rank_sizes.h"

namespace ptdp {
namespace {

constexpr std::int64_t kVocabularyMultiple = 128;

}  // namespace

std::int64_t padded_vocab_size(const TransformerConfig& model, int tp) {
  const std::int64_t multiple = kVocabularyMultiple * tp;
  return (model.vocab_size + multiple - 1) / multiple * multiple;
}

}  // namespace ptdp
