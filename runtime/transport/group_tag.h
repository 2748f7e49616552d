// What the groups of a training run are for.
#pragma once

namespace ptdp {

/// Tags by which groups with the same members are told apart. The replicas of virtual stage s have
/// tag kStageDataTag + s.
enum GroupTag : int {
  kTensorTag,
  kForwardTag,
  kBackwardTag,
  kModelTag,
  kWorldTag,
  kTiedTag,
  kShardTag,
  kStageDataTag
};

/// Whether a group's collectives are parts of passes, beside which those of other groups may run.
/// Collectives of all other groups follow one another on every rank.
[[nodiscard]] constexpr bool is_within_passes(int tag) {
  return tag == kTensorTag || tag == kShardTag;
}

}  // namespace ptdp
