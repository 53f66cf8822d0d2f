// One S3 request after HTTP and before S3: what operations see. No socket, no Beast: the simulator
// builds the same structs.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/s3/s3_error.h"
#include "penstock/checksum.h"
#include "penstock/result.h"
#include "penstock/types.h"
#include "penstock/volume_client.h"

namespace penstock {

// Who is asking: the one outcome of every way to authenticate. Handlers cannot run without one.
struct Principal {
  std::string account_id;  // owner of what it makes
  std::string display_name;
  std::string access_key;
};

// The request's body as decoded, verified bytes. All checks (payload hash, chunk signatures,
// Content-MD5, checksums, lengths) are done by the time it reports its end; until then nothing may
// become visible.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // Bytes of the payload, known from Content-Length or x-amz-decoded-content-length.
  virtual std::uint64_t length() const = 0;
  // Sends "100 Continue" if the client waits for it; the first read() does so by itself.
  virtual Task<> accept() = 0;
  // Reads 1 … buffer.size() payload bytes straight into `buffer`; 0 at the verified end.
  // Errors: S3 failures of the body are remembered and told by failure(); the Error is then
  // `invalid`.
  virtual Task<std::size_t> read(MutBytes buffer) = 0;
  // The same into memory that others may read and nobody writes again: what was read may be hashed
  // later, beside other bodies, and a reference to it is kept so long.
  virtual Task<std::size_t> receive(Buffer buffer) { return read(buffer.mutable_bytes()); }
  virtual std::optional<S3Error> failure() const = 0;
  // After the end: returns when md5() is known. What receive() returned last may still be hashed
  // then, unless the client sent a Content-MD5: so an upload makes its bytes durable meanwhile.
  // Errors: io - there is none; nothing of the body may become visible.
  virtual Task<> settle() { co_return Result<>{}; }
  // After the end, and after settle() if receive() was called: hex MD5 is the ETag.
  virtual std::array<std::uint8_t, 16> md5() const = 0;
  // Before the first read: also compute this checksum, unless the client named one. A reader of
  // bytes that nobody checks may pass it over.
  virtual void compute(ChecksumAlgorithm) {}
  struct Checksum {
    std::string algorithm;  // "crc32" …, lower case; empty = none
    std::string raw;
  };
  // After the end: the checksum the client sent or named, verified; none if there was none.
  virtual Checksum checksum() const = 0;
};

struct RequestTimes;

struct S3Request {
  std::string request_id;
  std::string method;
  std::string path;    // as sent, before decoding
  std::string bucket;  // decoded; empty for ListBuckets
  std::string key;     // decoded exactly once; empty for bucket operations
  // Decoded, in order; a name without "=" has an empty value.
  std::vector<std::pair<std::string, std::string>> query;
  // Names in lower case, values trimmed, in order.
  std::vector<std::pair<std::string, std::string>> headers;
  Principal principal;
  Deadline deadline{};            // of metadata work; bodies have their own rates
  RequestTimes* times = nullptr;  // where its time goes, if the client wants to know
  bool file_pieces = false;       // the response body may hold pinned pages
  MemoryAccount memory;           // of the principal's account

  const std::string* header(std::string_view name) const;  // first of that name; null if absent
  const std::string* query_value(std::string_view name) const;
  bool has_query(std::string_view name) const { return query_value(name) != nullptr; }
};

// Bytes of a response on their way out. A client may stop reading for minutes: then what was
// fetched for it is put back, and it costs no memory until it reads on.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // An empty piece at the end. An error after the first byte closes the connection: never a short
  // body on keep-alive.
  virtual Task<Piece> next() = 0;
  // The last `count` bytes of the piece that next() gave were not sent and the piece is gone: they
  // come again. Frees all memory.
  virtual void put_back(std::uint64_t count) = 0;
  // Keeps what is still to be sent from being removed. Called while the client does not read, not
  // later than the time that the call before it returned.
  virtual Task<Duration> keep() = 0;
};

struct S3Response {
  int status = 200;
  // Without Content-Length, Date, Server and the request ids.
  std::vector<std::pair<std::string, std::string>> headers;
  std::uint64_t content_length = 0;  // also for HEAD: the length that GET would have
  std::variant<std::monostate, std::string, std::unique_ptr<BodySource>> body;
  MemoryBudget::Lease memory;  // of a body that is a long text, or of a long list of parts
  void set(std::string name, std::string value) {
    headers.emplace_back(std::move(name), std::move(value));
  }
  void set_xml(std::string xml);  // body, length, Content-Type: application/xml
};

}  // namespace penstock
