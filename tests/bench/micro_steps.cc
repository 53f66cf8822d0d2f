// The steps that requests consist of: hashes and codes of their bytes, and what each costs before
// its first byte.
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "gateway/auth/authenticator.h"
#include "gateway/bench/request_signer.h"
#include "gateway/http/http_guard.h"
#include "gateway/http/http_head.h"
#include "gateway/request_head.h"
#include "penstock/assert.h"
#include "penstock/checksum.h"
#include "penstock/md5_lanes.h"
#include "penstock/runtime.h"
#include "placement/codec.h"
#include "placement/ring.h"
#include "tests/bench/microbench.h"

namespace penstock {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;  // lies in the second cache, as a piece of a body
constexpr std::uint32_t kData = 4, kParity = 2;
constexpr std::size_t kSorted = 64;

// What a call gives, so that no compiler leaves it out.
volatile std::uint64_t kept_value = 0;
void keep(std::uint64_t value) { kept_value = value; }

using Bytes = std::vector<std::byte>;

Bytes noise(std::size_t bytes) {
  Bytes made(bytes);
  std::uint64_t state = 7;
  for (std::byte& one : made) {
    state = state * 6'364'136'223'846'793'005ULL + 1'442'695'040'888'963'407ULL;
    one = static_cast<std::byte>(state >> 56);
  }
  return made;
}

void add_sort(std::vector<MicroStep>& steps) {
  std::array<std::uint32_t, kSorted> numbers{};
  for (std::size_t i = 0; i < kSorted; ++i) {
    numbers[i] = static_cast<std::uint32_t>(mix_hash(i) >> 32);
  }
  steps.push_back({"sort", 0,
                   [numbers]() mutable {
                     auto copy = numbers;
                     std::sort(copy.begin(), copy.end());
                     keep(copy[kSorted / 2]);
                   },
                   ""});
}

void add_md5(std::vector<MicroStep>& steps) {
  auto bytes = std::make_shared<Bytes>(noise(kPieceBytes));
  steps.push_back({"openssl-md5", kPieceBytes,
                   [bytes] {
                     std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
                     unsigned count = 0;
                     EVP_Digest(bytes->data(), bytes->size(), digest.data(), &count, EVP_md5(),
                                nullptr);
                     keep(digest.front());
                   },
                   ""});
  const Md5Kernel kernel = available_md5_kernel();
  const std::size_t lanes = md5_lanes(kernel);
  auto words = std::make_shared<std::vector<Md5Words>>(lanes);
  steps.push_back({"md5-lanes", kPieceBytes * lanes,
                   [kernel, lanes, words, bytes] {
                     std::vector<Md5Lane> work(lanes);
                     for (std::size_t i = 0; i < lanes; ++i) {
                       work[i] = {&(*words)[i], bytes->data()};
                     }
                     md5_blocks_in_lanes(kernel, work, kPieceBytes / kMd5BlockBytes);
                     keep(words->front().front());
                   },
                   "openssl-md5"});
}

void add_checksums(std::vector<MicroStep>& steps) {
  auto bytes = std::make_shared<Bytes>(noise(kPieceBytes));
  steps.push_back({"crc32c", kPieceBytes, [bytes] { keep(crc32c(*bytes)); }, "openssl-md5"});
  steps.push_back({"crc64nvme", kPieceBytes, [bytes] { keep(crc64nvme(*bytes)); }, "openssl-md5"});
}

void add_parity(std::vector<MicroStep>& steps) {
  auto codec = std::make_shared<Codec>(Codec::make(kData, kParity).value());
  auto units = std::make_shared<std::vector<Bytes>>();
  for (std::uint32_t i = 0; i < kData + kParity; ++i) units->push_back(noise(kPieceBytes));
  steps.push_back({"parity-4+2", kPieceBytes * kData,
                   [codec, units] {
                     std::array<ConstBytes, kData> data;
                     std::array<MutBytes, kParity> parity;
                     for (std::uint32_t i = 0; i < kData; ++i) data[i] = (*units)[i];
                     for (std::uint32_t i = 0; i < kParity; ++i) parity[i] = (*units)[kData + i];
                     codec->encode(data, parity);
                     keep(static_cast<std::uint64_t>(parity.front().front()));
                   },
                   "openssl-md5"});
}

void add_ring(std::vector<MicroStep>& steps) {
  ClusterMap map;
  for (std::uint32_t i = 0; i < 96; ++i) {  // 24 hosts of 4 volumes in 3 zones
    MapVolume volume;
    volume.id = VolumeId{mix_hash(i + 1)};
    volume.name = "v" + std::to_string(i);
    volume.host = "h" + std::to_string(i / 4);
    volume.zone = "z" + std::to_string(i / 4 % 3);
    map.volumes.push_back(volume);
  }
  auto ring = std::make_shared<Ring>(Ring::build(map).value());
  steps.push_back(
      {"ring-lookup", 0,
       [ring, number = std::uint64_t{0}]() mutable {
         keep(ring->volumes_for(mix_hash(++number), kData + kParity, kParity, {}).size());
       },
       "sort"});
}

// A presigned GET of a range, as SDKs send it.
std::string signed_head() {
  SignerOptions options;
  options.access_key = "AKIDMICRO";
  options.secret_key = "a-secret-key-of-no-account";
  const RequestSigner signer(options, "127.0.0.1:9000", RealClock().wall());
  const SignedHead head = signer.sign("GET", "/bucket/shards/0000042.tar", "");
  return "GET " + head.target + " HTTP/1.1\r\n" + head.headers +
         "User-Agent: aws-sdk-cpp/1.11.0 Linux/6.1 x86_64\r\nAccept: */*\r\n"
         "Range: bytes=8388608-16777215\r\namz-sdk-invocation-id: 7f9c\r\n\r\n";
}

HttpHead parsed(std::string_view text) {
  HttpHead head;
  HeadScan scan;
  PENSTOCK_ASSERT(scan.look_at(text) == HeadScan::State::complete);
  const HeadCheck check = check_head(text);
  PENSTOCK_ASSERT(!check.refusal);
  PENSTOCK_ASSERT(parse_head(text, check.framing, head));
  return head;
}

void add_head(std::vector<MicroStep>& steps) {
  auto text = std::make_shared<std::string>(signed_head());
  steps.push_back({"http-head", 0, [text] { keep(parsed(*text).fields.size()); }, "sort"});
}

void add_signature(std::vector<MicroStep>& steps) {
  struct Gate {
    Gate() : credentials(CredentialStore::make({account()}).value()) {}
    static Account account() {
      Account one;
      one.access_key = "AKIDMICRO";
      one.secret_key = "a-secret-key-of-no-account";
      return one;
    }
    CredentialStore credentials;
    RealClock clock;
    Authenticator authenticator{credentials, clock, {}};
    std::string text = signed_head();
    S3Request request = make_s3_request(parsed(text), {}).value();
  };
  auto gate = std::make_shared<Gate>();
  PENSTOCK_ASSERT(gate->authenticator.authenticate(gate->request).has_value());
  steps.push_back({"sigv4-check", 0,
                   [gate] { keep(gate->authenticator.authenticate(gate->request).has_value()); },
                   "sort"});
}

}  // namespace

std::vector<MicroStep> all_steps() {
  std::vector<MicroStep> steps;
  add_sort(steps);
  add_md5(steps);
  add_checksums(steps);
  add_parity(steps);
  add_ring(steps);
  add_head(steps);
  add_signature(steps);
  return steps;
}

}  // namespace penstock
