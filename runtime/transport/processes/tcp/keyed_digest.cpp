// SHA-256 and HMAC, written out so that no cryptography library is needed.
#include "runtime/transport/processes/tcp/keyed_digest.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>

namespace ptdp {
namespace {

constexpr std::size_t kBlock = 64;  // [B]

/// Round constants: the first 32 bits of the fractions of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
/// First state: the first 32 bits of the fractions of the square roots of the first 8 primes.
constexpr std::array<std::uint32_t, 8> kFirstState = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

using DigestState = std::array<std::uint32_t, 8>;

/// Adds one block of 64 bytes to the state of a SHA-256. Source: FIPS 180-4, section 6.2.2.
void add_block(DigestState& state, std::string_view block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) {
    for (std::size_t byte = 0; byte < 4; ++byte) {
      w[t] = (w[t] << 8U) | static_cast<unsigned char>(block[4 * t + byte]);
    }
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t low =
        std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3U);
    const std::uint32_t high =
        std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10U);
    w[t] = high + w[t - 7] + low + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                             ((e & f) ^ (~e & g)) + kRoundConstants[t] + w[t];
    const std::uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const DigestState added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) {
    state[i] += added[i];
  }
}

/// Returns the SHA-256 of `message`, 32 bytes.
std::string sha256(std::string message) {
  const std::uint64_t bits = 8 * message.size();
  message += '\x80';
  message.resize((message.size() + 8 + kBlock - 1) / kBlock * kBlock - 8, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) {
    message += static_cast<char>(bits >> static_cast<unsigned>(shift));
  }
  DigestState state = kFirstState;
  for (std::size_t at = 0; at < message.size(); at += kBlock) {
    add_block(state, std::string_view(message).substr(at, kBlock));
  }
  std::string digest;
  for (const std::uint32_t word : state) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      digest += static_cast<char>(word >> static_cast<unsigned>(shift));
    }
  }
  return digest;
}

}  // namespace

std::string keyed_digest(std::string_view key, std::string_view message) {
  std::string inner(key.size() > kBlock ? sha256(std::string(key)) : std::string(key));
  inner.resize(kBlock, '\0');
  std::string outer = inner;
  for (std::size_t i = 0; i < kBlock; ++i) {
    inner[i] = static_cast<char>(inner[i] ^ 0x36);
    outer[i] = static_cast<char>(outer[i] ^ 0x5c);
  }
  std::string digits;
  for (const char byte : sha256(outer + sha256(inner.append(message)))) {
    digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return digits;
}

std::string random_digits() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

bool are_equal_digests(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace ptdp
