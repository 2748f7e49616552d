// Messages between processes, and the memory in which they travel.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/data_type.h"

namespace ptdp {

/// What the first bytes of a message say of it. Hosts of a job have the same byte order.
struct PacketHeader {
  enum class Kind : std::uint8_t {
    kElements,
    kAbort,    ///< Ends a world; without elements.
    kLost,     ///< A process is gone: ends all worlds; without elements.
    kGoodbye,  ///< The sender finished; without elements.
    kText,     ///< What processes that meet, call or watch each other say.
  };

  /// Begins every message: what strangers send over TCP begins otherwise. Ends with the version of
  /// all that processes tell each other.
  static constexpr std::uint64_t kMark = 0x70746470'74637002;

  std::uint64_t mark = kMark;
  std::uint64_t group = 0;  ///< Of a group and a kind of traffic.
  std::int64_t size = 0;    ///< Elements.
  std::uint32_t world = 0;
  std::int32_t status = 0;  ///< What the job is to end with: of kAbort.
  Kind kind = Kind::kElements;
  DataType type = DataType::kFloat32;
};

/// A message as it travels: a header, then elements, in whole blocks of 64 bytes. So the elements
/// are aligned to 64 bytes, and MPI's counts of 31 bits suffice for 128 GiB.
class Packet {
 public:
  static constexpr std::int64_t kBlockBytes = 64;
  static_assert(sizeof(PacketHeader) <= kBlockBytes && std::is_trivially_copyable_v<PacketHeader>);

  Packet() = default;
  /// Uninitialised but for the first block, a default header.
  explicit Packet(std::int64_t blocks)
      : memory_(static_cast<std::byte*>(::operator new (
            static_cast<std::size_t>(blocks* kBlockBytes), std::align_val_t{kBlockBytes}))),
        capacity_(blocks) {
    std::memset(memory_.get(), 0, kBlockBytes);  // all of it travels
    new (memory_.get()) PacketHeader;
  }

  [[nodiscard]] static std::int64_t blocks_for(std::int64_t bytes) {
    return 1 + (bytes + kBlockBytes - 1) / kBlockBytes;
  }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }  ///< In blocks.
  [[nodiscard]] void* memory() const { return memory_.get(); }
  [[nodiscard]] PacketHeader& header() const {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): made there by the constructor
    return *std::launder(reinterpret_cast<PacketHeader*>(memory_.get()));
  }
  [[nodiscard]] Buffer elements() const {
    return {memory_.get() + kBlockBytes, header().size, header().type};
  }

 private:
  struct Release {
    void operator()(std::byte* memory) const noexcept {
      ::operator delete (memory, std::align_val_t{kBlockBytes});
    }
  };

  std::unique_ptr<std::byte, Release> memory_;
  std::int64_t capacity_ = 0;
};

/// Keeps the memory of packets for the next: fresh memory costs as much as the copy. Of any thread.
class PacketPool {
 public:
  /// Of at least so many blocks.
  [[nodiscard]] Packet take(std::int64_t blocks) {
    const std::size_t place = place_of(blocks);
    {
      const std::lock_guard lock(mutex_);
      std::vector<Packet>& spares = spares_[place];
      if (!spares.empty()) {
        Packet packet = std::move(spares.back());
        spares.pop_back();
        kept_ -= packet.capacity();
        return packet;
      }
    }
    return Packet(std::int64_t{1} << place);
  }
  void give_back(Packet packet) {
    const std::lock_guard lock(mutex_);
    if (kept_ + packet.capacity() <= kMostKept) {
      kept_ += packet.capacity();
      spares_[place_of(packet.capacity())].push_back(std::move(packet));
    }
  }

 private:
  static constexpr std::int64_t kMostKept = (std::int64_t{64} << 20) / Packet::kBlockBytes;

  /// The power of two that is not below.
  [[nodiscard]] static std::size_t place_of(std::int64_t blocks) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(blocks - 1)));
  }

  std::mutex mutex_;
  std::array<std::vector<Packet>, 64> spares_;  ///< By log2 of their blocks.
  std::int64_t kept_ = 0;                       ///< Blocks.
};

}  // namespace ptdp
