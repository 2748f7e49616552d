// Sends and receives messages of floats, one at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/transport/communicator.h"
#include "tests/runtime/transport/buffers.h"

namespace ptdp {

inline void send(Communicator& end, std::vector<float> values, int to) {
  end.wait(end.send(buffer_of(values), to));
}

inline std::vector<float> received(Communicator& end, std::size_t size, int from) {
  std::vector<float> values(size);
  end.wait(end.receive(buffer_of(values), from));
  return values;
}

}  // namespace ptdp
