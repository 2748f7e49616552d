// Sends byte strings as int32 elements, since a communicator moves elements of tensors.
#include "runtime/transport/gathering.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace ptdp {
namespace {

/// A count of bytes, as its lower and its upper 32 bits.
using Length = std::array<std::int32_t, 2>;

constexpr std::size_t kElement = sizeof(std::int32_t);

void send_elements(Communicator& world, Backend& backend, const void* elements, std::int64_t count,
                   int to) {
  const Tensor tensor(backend, DataType::kInt32, count);
  if (count > 0) {
    backend.copy_in(elements, tensor);
  }
  world.wait(world.send(tensor, to));
}

void receive_elements(Communicator& world, Backend& backend, void* elements, std::int64_t count,
                      int from) {
  const Tensor tensor(backend, DataType::kInt32, count);
  world.wait(world.receive(tensor, from));
  if (count > 0) {
    backend.copy_out(tensor, elements);
  }
}

// Sends the length, then the bytes padded to whole elements.
void send_bytes(Communicator& world, Backend& backend, std::string bytes, int to) {
  const auto size = static_cast<std::uint64_t>(bytes.size());
  const Length length = {static_cast<std::int32_t>(static_cast<std::uint32_t>(size)),
                         static_cast<std::int32_t>(static_cast<std::uint32_t>(size >> 32U))};
  send_elements(world, backend, length.data(), 2, to);
  bytes.resize((bytes.size() + kElement - 1) / kElement * kElement);
  send_elements(world, backend, bytes.data(), static_cast<std::int64_t>(bytes.size() / kElement),
                to);
}

std::string receive_bytes(Communicator& world, Backend& backend, int from) {
  Length length{};
  receive_elements(world, backend, length.data(), 2, from);
  const std::uint64_t size = static_cast<std::uint32_t>(length[0]) |
                             std::uint64_t{static_cast<std::uint32_t>(length[1])} << 32U;
  const std::uint64_t elements = (size + kElement - 1) / kElement;
  std::string bytes(elements * kElement, '\0');
  receive_elements(world, backend, bytes.data(), static_cast<std::int64_t>(elements), from);
  bytes.resize(size);
  return bytes;
}

}  // namespace

std::vector<std::string> gather_bytes(Communicator& world, Backend& backend, std::string own,
                                      const std::function<void(int rank)>& waits_for) {
  if (world.rank() != 0) {
    send_bytes(world, backend, std::move(own), 0);
    return {};
  }
  std::vector<std::string> all = {std::move(own)};
  for (int rank = 1; rank < world.size(); ++rank) {
    if (waits_for) {
      waits_for(rank);
    }
    all.push_back(receive_bytes(world, backend, rank));
  }
  return all;
}

std::string broadcast_bytes(Communicator& world, Backend& backend, std::string from_first) {
  if (world.rank() != 0) {
    return receive_bytes(world, backend, 0);
  }
  for (int rank = 1; rank < world.size(); ++rank) {
    send_bytes(world, backend, from_first, rank);
  }
  return from_first;
}

}  // namespace ptdp
