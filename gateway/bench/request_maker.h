// Makes the requests of S3 that workloads consist of: heads that are signed, bodies by their place
// in the content.
// Thread-safety: const from any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/bench/content.h"
#include "gateway/bench/load_source.h"
#include "gateway/bench/request_signer.h"

namespace penstock {

class RequestMaker {
 public:
  // Ownership: borrows both.
  RequestMaker(const RequestSigner& signer, const Content& content, const std::string& bucket)
      : signer_(signer), content_(content), root_("/" + bucket) {}

  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  // GET or HEAD of an object that is known to have `bytes`.
  void read(LoadRequest& request, std::string_view method, const std::string& key,
            std::uint64_t bytes, std::optional<Range> range = std::nullopt) const;
  void put(LoadRequest& request, const std::string& key, std::uint64_t bytes) const;
  void remove(LoadRequest& request, const std::string& key) const;

  // A part of the object `key`, that begins at `offset` of it.
  struct Part {
    std::string upload_id;
    std::uint32_t number = 1;
    Range range;
  };
  void put_part(LoadRequest& request, const std::string& key, const Part& part) const;
  // The same with the SHA-256 of its content, in hex, in the signature.
  void put_signed_part(LoadRequest& request, const std::string& key, const Part& part,
                       std::string_view sha256_hex) const;
  // The same, framed in one chunk with a trailer that has its CRC-64/NVME.
  void put_part_with_trailer(LoadRequest& request, const std::string& key, const Part& part,
                             std::uint64_t crc64nvme) const;

  // A small call: `body` is sent, the answer's is kept. An empty key: of the bucket.
  void call(LoadRequest& request, std::string_view method, const std::string& key,
            std::string_view query, std::string_view body = {}) const;

 private:
  void begin(LoadRequest& request, std::string_view method, std::string_view key,
             std::string_view query, std::string_view payload_hash, SignedFields more = {}) const;
  void add_content(LoadRequest& request, const std::string& key, Range range) const;

  const RequestSigner& signer_;
  const Content& content_;
  const std::string root_;
};

}  // namespace penstock
