// Sends a message between two ranks, and back.
#pragma once

#include "runtime/transport/communicator.h"

namespace ptdp {

/// Returns the rank's partner: even ranks pair with the next one. Returns −1 for the last of an odd
/// number of ranks.
[[nodiscard]] inline int partner(const Communicator& world) {
  const int peer = world.rank() ^ 1;
  return peer < world.size() ? peer : -1;
}

inline void there_and_back(Communicator& world, Buffer buffer) {
  const int peer = partner(world);
  if (peer < 0) {
    return;
  }
  if (world.rank() < peer) {
    world.wait(world.send(buffer, peer));
    world.wait(world.receive(buffer, peer));
  } else {
    world.wait(world.receive(buffer, peer));
    world.wait(world.send(buffer, peer));
  }
}

}  // namespace ptdp
