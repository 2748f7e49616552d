// Packets, in which messages travel between processes, and the pool of their memory.
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

/// The first bytes of a packet, which describe its contents. Hosts of a job have the same byte
/// order.
struct PacketHeader {
  /// What a packet carries.
  enum class Kind : std::uint8_t {
    kElements,  ///< Elements of a message.
    kAbort,     ///< Ends one world; has no elements.
    kLost,      ///< A process is gone, which ends all worlds; has no elements.
    kGoodbye,   ///< The sender came to finish(); has no elements.
    kText,      ///< Text that processes exchange when they meet, call or watch each other.
  };

  /// The mark that begins every packet, and that no stranger's bytes over TCP begin with. Its
  /// lowest byte is the version of everything that processes tell each other.
  static constexpr std::uint64_t kMark = 0x70746470'74637002;

  std::uint64_t mark = kMark;
  std::uint64_t group = 0;  ///< Channel: a hash of a group and a kind of traffic.
  std::int64_t size = 0;    ///< Number of elements.
  std::uint32_t world = 0;  ///< Number of the world.
  std::int32_t status = 0;  ///< The exit status of the job, in a kAbort.
  Kind kind = Kind::kElements;
  DataType type = DataType::kFloat32;
};

/// A message as it travels: a header, then elements, in whole blocks of 64 bytes. The elements are
/// thus aligned to 64 bytes, and MPI's 31-bit counts suffice for 128 GiB.
class Packet {
 public:
  static constexpr std::int64_t kBlockBytes = 64;
  static_assert(sizeof(PacketHeader) <= kBlockBytes && std::is_trivially_copyable_v<PacketHeader>);

  Packet() = default;
  /// Allocates `blocks` blocks. Only the first block is initialized, with zeros and a default
  /// header.
  explicit Packet(std::int64_t blocks)
      : memory_(static_cast<std::byte*>(::operator new (
            static_cast<std::size_t>(blocks* kBlockBytes), std::align_val_t{kBlockBytes}))),
        capacity_(blocks) {
    std::memset(memory_.get(), 0, kBlockBytes);  // All of the block travels.
    new (memory_.get()) PacketHeader;
  }

  /// Returns the number of blocks of a packet with `bytes` bytes of elements.
  [[nodiscard]] static std::int64_t blocks_for(std::int64_t bytes) {
    return 1 + (bytes + kBlockBytes - 1) / kBlockBytes;
  }
  /// Returns the size of the memory [blocks].
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  /// Returns the first byte of the packet, which its header begins.
  [[nodiscard]] void* memory() const { return memory_.get(); }
  [[nodiscard]] PacketHeader& header() const {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): made there by the constructor
    return *std::launder(reinterpret_cast<PacketHeader*>(memory_.get()));
  }
  /// Returns the elements that the header describes, behind the first block.
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

/// A pool that keeps the memory of packets for later ones, because fresh memory costs as much as
/// the copy. Any thread may use it.
class PacketPool {
 public:
  /// Returns a packet of at least `blocks` blocks, whose header is unspecified.
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
  /// Keeps the memory of `packet` for a later take(), unless the pool then exceeds 64 MiB.
  void give_back(Packet packet) {
    const std::lock_guard lock(mutex_);
    if (kept_ + packet.capacity() <= kMostKept) {
      kept_ += packet.capacity();
      spares_[place_of(packet.capacity())].push_back(std::move(packet));
    }
  }

 private:
  /// The most memory that the pool keeps [blocks].
  static constexpr std::int64_t kMostKept = (std::int64_t{64} << 20) / Packet::kBlockBytes;

  /// Returns log2 of the smallest power of two that is at least `blocks`.
  [[nodiscard]] static std::size_t place_of(std::int64_t blocks) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(blocks - 1)));
  }

  std::mutex mutex_;
  /// Packets kept, by log2 of their capacity [blocks].
  std::array<std::vector<Packet>, 64> spares_;
  std::int64_t kept_ = 0;  ///< Total capacity of the packets kept [blocks].
};

}  // namespace ptdp
