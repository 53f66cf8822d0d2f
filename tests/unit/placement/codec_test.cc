#include "placement/codec.h"

#include <doctest/doctest.h>

#include <bit>
#include <fstream>
#include <random>
#include <sstream>

#include "penstock/limits.h"
#include "tests/fake/code_of.h"

namespace penstock {
namespace {

using Units = std::vector<std::vector<std::byte>>;

Units random_units(std::uint32_t count, std::size_t length, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Units units(count, std::vector<std::byte>(length));
  for (auto& unit : units) {
    for (auto& byte : unit) byte = static_cast<std::byte>(random());
  }
  return units;
}
std::vector<ConstBytes> views(const Units& units) { return {units.begin(), units.end()}; }
std::vector<MutBytes> targets(Units& units) { return {units.begin(), units.end()}; }

Codec codec_of(std::uint32_t k, std::uint32_t m, CodecEngine engine) {
  auto codec = Codec::make(k, m, engine);
  REQUIRE(codec.has_value());
  return std::move(codec).value();
}

// Data and parity of one stripe.
Units coded(const Codec& codec, std::size_t length, std::uint64_t seed) {
  Units data = random_units(codec.k(), length, seed);
  Units parity(codec.m(), std::vector<std::byte>(length));
  const auto from = views(data);
  const auto to = targets(parity);
  codec.encode(from, to);
  data.insert(data.end(), parity.begin(), parity.end());
  return data;
}

void check_loss(const Codec& codec, const Units& units, std::uint32_t lost_mask) {
  const std::size_t length = units[0].size();
  std::vector<std::uint32_t> present, wanted;
  std::vector<ConstBytes> bytes;
  for (std::uint32_t unit = 0; unit < units.size(); ++unit) {
    if ((lost_mask >> unit & 1) != 0) {
      wanted.push_back(unit);
    } else if (present.size() < codec.k()) {
      present.push_back(unit);
      bytes.emplace_back(units[unit]);
    }
  }
  Units out(wanted.size(), std::vector<std::byte>(length));
  const auto to = targets(out);
  REQUIRE(codec.rebuild(present, bytes, wanted, to).has_value());
  for (std::size_t i = 0; i < wanted.size(); ++i) REQUIRE(out[i] == units[wanted[i]]);
}

TEST_CASE("every loss pattern of 4+2 and 8+3 is rebuilt by both engines") {
  for (const auto& [k, m] : {std::pair{4u, 2u}, std::pair{8u, 3u}}) {
    for (const CodecEngine engine : {CodecEngine::isal, CodecEngine::jerasure}) {
      const Codec codec = codec_of(k, m, engine);
      const Units units = coded(codec, 1000 + k, k);
      int patterns = 0;
      for (std::uint32_t mask = 1; mask < 1u << (k + m); ++mask) {
        if (std::popcount(mask) > static_cast<int>(m)) continue;
        check_loss(codec, units, mask);
        ++patterns;
      }
      CHECK(patterns == (k == 4 ? 6 + 15 : 11 + 55 + 165));
    }
  }
}

TEST_CASE("every single and full loss of other shapes is rebuilt") {
  const std::pair<std::uint32_t, std::uint32_t> shapes[] = {
      {1, 1}, {1, 2}, {2, 1}, {2, 2}, {3, 2}, {8, 4}, {10, 4}, {5, 1}, {6, 3}, {12, 4}, {28, 4}};
  for (const auto& [k, m] : shapes) {
    const Codec codec = codec_of(k, m, CodecEngine::isal);
    const Units units = coded(codec, 333, k * 100 + m);
    for (std::uint32_t unit = 0; unit < k + m; ++unit) check_loss(codec, units, 1u << unit);
    check_loss(codec, units, (1u << m) - 1);
    check_loss(codec, units, ((1u << m) - 1) << k);
  }
}

TEST_CASE("both engines write the same parity for any length and alignment") {
  const std::pair<std::uint32_t, std::uint32_t> shapes[] = {{1, 2}, {2, 2}, {4, 2},
                                                            {8, 3}, {8, 4}, {10, 4}};
  for (const auto& [k, m] : shapes) {
    const Codec fast = codec_of(k, m, CodecEngine::isal);
    const Codec reference = codec_of(k, m, CodecEngine::jerasure);
    for (const std::size_t length : {1, 15, 16, 63, 64, 100, 4096, 16384, 65536, 65537, 150'001}) {
      Units data = random_units(k, length + k, length);
      std::vector<ConstBytes> from;  // each unit begins at another address modulo 16
      for (std::size_t i = 0; i < k; ++i) from.push_back(ConstBytes(data[i]).subspan(i, length));
      Units a(m, std::vector<std::byte>(length)), b = a;
      const auto to_a = targets(a);
      const auto to_b = targets(b);
      fast.encode(from, to_a);
      reference.encode(from, to_b);
      REQUIRE(a == b);
    }
  }
}

TEST_CASE("adding unit by unit in columns gives the parity of the whole") {
  for (const CodecEngine engine : {CodecEngine::isal, CodecEngine::jerasure}) {
    const Codec codec = codec_of(8, 3, engine);
    const std::size_t length = 200'000;
    const Units units = coded(codec, length, 99);
    Units parity(3, std::vector<std::byte>(length, std::byte{0x5a}));  // of before
    for (std::uint32_t unit = 0; unit < 8; ++unit) {
      for (std::size_t at = 0; at < length; at += limits::kColumnBytes) {
        const std::size_t step = std::min(limits::kColumnBytes, length - at);
        std::vector<MutBytes> columns;
        for (auto& bytes : parity) columns.push_back(MutBytes(bytes).subspan(at, step));
        codec.encode_add(unit, ConstBytes(units[unit]).subspan(at, step), columns);
      }
    }
    for (std::size_t j = 0; j < 3; ++j) REQUIRE(parity[j] == units[8 + j]);
  }
}

TEST_CASE("a range of columns is coded like the whole") {
  const Codec codec = codec_of(4, 2, CodecEngine::isal);
  const Units units = coded(codec, 100'000, 5);
  const std::size_t at = 12'345, length = 54'321;
  const std::vector<std::uint32_t> present = {5, 1, 4, 3}, wanted = {2, 0};
  std::vector<ConstBytes> bytes;
  for (const auto unit : present) bytes.push_back(ConstBytes(units[unit]).subspan(at, length));
  Units out(2, std::vector<std::byte>(length));
  const auto to = targets(out);
  REQUIRE(codec.rebuild(present, bytes, wanted, to).has_value());
  CHECK(std::equal(out[0].begin(), out[0].end(), units[2].begin() + at));
  CHECK(std::equal(out[1].begin(), out[1].end(), units[0].begin() + at));
}

TEST_CASE("replicas are copies") {
  const Units units = coded(codec_of(1, 3, CodecEngine::isal), 777, 3);
  for (const auto& unit : units) CHECK(unit == units[0]);
}

TEST_CASE("a code without parity encodes nothing and rebuilds what is there") {
  const Codec codec = codec_of(2, 0, CodecEngine::isal);
  const Units units = coded(codec, 10, 1);
  CHECK(units.size() == 2);
  check_loss(codec, units, 0);
}

TEST_CASE("shapes and rebuilds that make no sense are refused") {
  CHECK(code_of(Codec::make(0, 2)) == Errc::invalid);
  CHECK(code_of(Codec::make(30, 3)) == Errc::invalid);
  CHECK(code_of(Codec::make(4294967295u, 2)) == Errc::invalid);
  const Codec codec = codec_of(2, 1, CodecEngine::isal);
  Units units = random_units(3, 10, 1);
  Units out = random_units(1, 10, 2);
  const auto to = targets(out);
  const std::vector<ConstBytes> two = {units[0], units[1]};
  const std::vector<ConstBytes> one = {units[0]};
  using List = std::vector<std::uint32_t>;
  CHECK(code_of(codec.rebuild(List{0}, one, List{1}, to)) == Errc::invalid);
  CHECK(code_of(codec.rebuild(List{0, 1}, one, List{2}, to)) == Errc::invalid);
  CHECK(code_of(codec.rebuild(List{0, 0}, two, List{1}, to)) == Errc::invalid);
  CHECK(code_of(codec.rebuild(List{0, 3}, two, List{1}, to)) == Errc::invalid);
  CHECK(code_of(codec.rebuild(List{0, 1}, two, List{3}, to)) == Errc::invalid);
  CHECK(code_of(codec.rebuild(List{0, 1}, two, List{1, 2}, to)) == Errc::invalid);
  CHECK(codec.rebuild(List{0, 1}, two, List{2}, to).has_value());
}

// Parity of fixed data is on disk: it may never change. One line per shape: k m hex(parity).
TEST_CASE("parity is frozen") {
  std::ostringstream lines;
  const std::pair<std::uint32_t, std::uint32_t> shapes[] = {
      {1, 2}, {2, 1}, {2, 2}, {3, 2}, {4, 2}, {6, 2}, {7, 3}, {8, 3}, {8, 4}, {10, 4}};
  for (const auto& [k, m] : shapes) {
    Units data(k, std::vector<std::byte>(16));
    for (std::uint32_t i = 0; i < k; ++i) {
      for (std::uint32_t j = 0; j < 16; ++j) {
        data[i][j] = static_cast<std::byte>(i * 73 + j * 31 + 7);
      }
    }
    Units parity(m, std::vector<std::byte>(16));
    const auto from = views(data);
    const auto to = targets(parity);
    codec_of(k, m, CodecEngine::isal).encode(from, to);
    for (const auto& unit : parity) {
      lines << k << ' ' << m << ' ';
      for (const auto byte : unit) {
        lines << "0123456789abcdef"[std::to_integer<int>(byte) >> 4]
              << "0123456789abcdef"[std::to_integer<int>(byte) & 15];
      }
      lines << '\n';
    }
  }
  std::ifstream file(std::string(PENSTOCK_GOLDEN_DIR) + "/codec_parity_v1.txt");
  std::stringstream expected;
  expected << file.rdbuf();
  CHECK(lines.str() == expected.str());
}

TEST_CASE("the cache makes each codec once") {
  CodecCache cache;
  const auto first = cache.get(4, 2);
  const auto second = cache.get(4, 2);
  REQUIRE(first.has_value());
  CHECK(first->get() == second->get());
  CHECK(cache.get(8, 3).value().get() != first->get());
  CHECK(code_of(cache.get(0, 2)) == Errc::invalid);
  CHECK(code_of(cache.get(0, 2)) == Errc::invalid);
}

}  // namespace
}  // namespace penstock
