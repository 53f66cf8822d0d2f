#include "gateway/operations/stored_bytes.h"

#include <cstring>

#include "gateway/body/body_bytes.h"
#include "gateway/body/checksum_headers.h"
#include "gateway/operations/object_body.h"
#include "gateway/s3/conditional.h"
#include "gateway/s3/request_times.h"
#include "penstock/checksum.h"
#include "penstock/limits.h"
#include "penstock/log.h"
#include "penstock/planted.h"
#include "penstock/volume_note.h"

namespace penstock {
namespace {

// Bytes that a record names and that are not there make no object absent.
constexpr S3Code kBytesGone = S3Code::InternalError;

// A document grows by doubling as its bytes arrive.
constexpr std::size_t kFirstDocumentBytes = 16 * limits::kKiB;
constexpr std::size_t kDocumentCopies = 2;  // the text, and what is read out of it

S3Task<> fill_from_body(BlobWriter& writer, BodyReader& body, std::uint64_t left) {
  while (left > 0) {
    auto space = co_await writer.space();
    if (!space) co_return to_s3(space.error());
    CO_TRY(count, co_await receive_some(body, std::move(*space)));
    const auto filled = co_await writer.filled(count);
    if (!filled) co_return to_s3(filled.error());
    left -= count;
  }
  co_return co_await read_end(body);
}

S3Task<> append(BlobWriter& writer, ConstBytes bytes) {
  while (!bytes.empty()) {
    const auto space = co_await writer.space();
    if (!space) co_return to_s3(space.error());
    const std::size_t count = std::min(space->size(), bytes.size());
    std::memcpy(space->data(), bytes.data(), count);
    const auto filled = co_await writer.filled(count);
    if (!filled) co_return to_s3(filled.error());
    bytes = bytes.subspan(count);
  }
  co_return S3Result<>{};
}

struct Hashes {
  explicit Hashes(WantedHashes wanted) : with_md5(wanted.md5), checksum(wanted.checksum) {}
  void update(ConstBytes bytes) {
    if (with_md5) md5.update(bytes);
    checksum.update(bytes);
  }
  bool with_md5;
  Md5 md5;
  Checksummer checksum;
};

S3Task<> fill_from_object(BlobWriter& writer, ObjectBody& source, Hashes& hashes) {
  while (true) {
    const auto piece = co_await source.next();
    if (!piece) co_return to_s3(piece.error(), kBytesGone);
    if (piece->length == 0) co_return S3Result<>{};
    hashes.update(piece->bytes());
    CO_CHECK(co_await append(writer, piece->bytes()));
  }
}

// Makes the blob durable if it was filled, else forgets it.
S3Task<StoredBytes> finish(Gateway& gateway, const S3Request& request, StoredBytes stored,
                           S3Result<> filled) {
  if (filled) {
    auto blob = co_await stored.writer->commit(fresh_deadline(gateway, request));
    if (blob) {
      stored.blob = std::move(*blob);
      co_return std::move(stored);
    }
    filled = to_s3(blob.error());
  }
  co_await stored.writer->discard();
  co_return filled.error();
}

S3Task<StoredBytes> open_writer(Gateway& gateway, const S3Request& request, FragmentOwner owner,
                                std::uint64_t size_bytes) {
  StoredBytes stored;
  stored.size_bytes = size_bytes;
  auto writer = co_await gateway.blobs.write(std::move(owner), size_bytes,
                                             fresh_deadline(gateway, request), request.memory);
  if (!writer) co_return to_s3(writer.error());
  stored.writer = std::move(*writer);
  co_return std::move(stored);
}

// The first bytes of an upload. Until they are there it was only announced, and takes nothing else:
// no pieces, no stripe, no space on the disks.
struct FirstBytes {
  MemoryBudget::Lease memory;
  Buffer bytes;
};
S3Task<FirstBytes> read_first(Gateway& gateway, const S3Request& request, BodyReader& body) {
  const std::size_t count = std::min<std::uint64_t>(body.length(), limits::kSmallPieceBytes);
  CO_TRY(memory, co_await take_memory(gateway, request, MemoryUse::writes, count));
  FirstBytes first{std::move(memory), gateway.buffers.get(count)};
  CO_CHECK(co_await receive_exactly(body, first.bytes));
  co_return std::move(first);
}

S3Task<MemoryBudget::Lease> lease_inline(Gateway& gateway, const S3Request& request,
                                         std::uint64_t size) {
  if (size == 0) co_return MemoryBudget::Lease();
  co_return co_await take_memory(gateway, request, MemoryUse::writes, limits::kInlineUploadBytes);
}

// All bytes that `source` gives; for small ones.
S3Task<std::string> read_all(ObjectBody& source) {
  std::string bytes;
  while (true) {
    const auto piece = co_await source.next();
    if (!piece) co_return to_s3(piece.error(), kBytesGone);
    if (piece->length == 0) co_return bytes;
    bytes += as_text(piece->bytes());
  }
}

StoredBytes store_inline(std::string bytes) {
  StoredBytes stored;
  stored.size_bytes = bytes.size();
  if (!bytes.empty()) stored.inline_bytes = std::make_shared<const std::string>(std::move(bytes));
  return stored;
}

S3Task<StoredBytes> read_inline(Gateway& gateway, const S3Request& request, BodyReader& body) {
  const std::uint64_t size = body.length();
  CO_TRY(memory, co_await lease_inline(gateway, request, size));
  std::string bytes(size, '\0');
  const MutBytes buffer(reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
  CO_CHECK(co_await read_whole(body, buffer));
  StoredBytes stored = store_inline(std::move(bytes));
  stored.memory = std::move(memory);
  co_return std::move(stored);
}

S3Task<StoredBytes> write_body(Gateway& gateway, const S3Request& request, BodyReader& body,
                               FragmentOwner owner) {
  const std::uint64_t size = body.length();
  const auto could_write = gateway.blobs.could_write(size);
  if (!could_write) co_return to_s3(could_write.error());
  CO_TRY(first, co_await read_first(gateway, request, body));
  CO_TRY(stored, co_await open_writer(gateway, request, std::move(owner), size));
  auto filled = co_await append(*stored.writer, first.bytes.bytes());
  const std::uint64_t left = size - first.bytes.size();
  first = FirstBytes();
  if (filled) filled = co_await fill_from_body(*stored.writer, body, left);
  co_return co_await finish(gateway, request, std::move(stored), std::move(filled));
}

S3Task<StoredBytes> copy_range(Gateway& gateway, const S3Request& request, const ObjectRead& source,
                               ByteRange range, FragmentOwner owner, std::uint64_t inline_max,
                               Hashes& hashes) {
  if (range.length == 0) co_return store_inline({});
  const bool to_inline = range.length <= inline_max;
  if (source.inline_bytes) {
    const auto bytes = std::string_view(*source.inline_bytes).substr(range.first, range.length);
    hashes.update(as_bytes(bytes));
    if (to_inline) co_return store_inline(std::string(bytes));
    CO_TRY(stored, co_await open_writer(gateway, request, std::move(owner), range.length));
    auto filled = co_await append(*stored.writer, as_bytes(bytes));
    co_return co_await finish(gateway, request, std::move(stored), std::move(filled));
  }
  auto ranges = co_await gateway.objects.ranges(source.record, range.first, range.length,
                                                fresh_deadline(gateway, request));
  if (!ranges) co_return to_s3(ranges.error(), kBytesGone);
  ObjectBody body(gateway, request, std::move(*ranges), false);
  if (to_inline) {
    CO_TRY(bytes, co_await read_all(body));
    hashes.update(as_bytes(bytes));
    co_return store_inline(std::move(bytes));
  }
  CO_TRY(stored, co_await open_writer(gateway, request, std::move(owner), range.length));
  auto filled = co_await fill_from_object(*stored.writer, body, hashes);
  co_return co_await finish(gateway, request, std::move(stored), std::move(filled));
}

}  // namespace

S3Task<RequestDocument> read_document(Gateway& gateway, const S3Request& request,
                                      BodyReader& body) {
  if (body.length() > limits::kXmlBytesMax) co_return s3_error(S3Code::MalformedXML);
  const auto length = static_cast<std::size_t>(body.length());
  RequestDocument document;
  std::size_t filled = 0;
  while (filled < length) {
    const std::size_t room = std::min(length, std::max(2 * filled, kFirstDocumentBytes));
    CO_TRY(memory, co_await take_memory(gateway, request, MemoryUse::documents,
                                        kDocumentCopies * (room - filled)));
    document.memory.push_back(std::move(memory));
    document.text.resize(room);
    const MutBytes all(reinterpret_cast<std::byte*>(document.text.data()), room);
    CO_CHECK(co_await read_exactly(body, all.subspan(filled)));
    filled = room;
  }
  CO_CHECK(co_await read_end(body));
  co_return std::move(document);
}

S3Task<StoredBytes> store_body(Gateway& gateway, const S3Request& request, BodyReader& body,
                               FragmentOwner owner, std::uint64_t inline_max) {
  const PhaseTimer timer(request.times, gateway.clock, Phase::data);
  StoredBytes stored;
  if (body.length() <= inline_max || body.length() == 0) {
    CO_TRY(small, co_await read_inline(gateway, request, body));
    stored = std::move(small);
  } else {
    CO_TRY(large, co_await write_body(gateway, request, body, std::move(owner)));
    stored = std::move(large);
    if (const auto settled = co_await settle(body); !settled) {
      co_await stored.writer->discard();
      co_return settled.error();
    }
  }
  stored.md5 = body.md5();
  stored.checksum = body_checksum(body);
  co_return std::move(stored);
}

S3Task<StoredBytes> store_copy(Gateway& gateway, const S3Request& request, const ObjectRead& source,
                               ByteRange range, FragmentOwner owner, std::uint64_t inline_max,
                               WantedHashes wanted) {
  const PhaseTimer timer(request.times, gateway.clock, Phase::data);
  Hashes hashes(wanted);
  CO_TRY(stored, co_await copy_range(gateway, request, source, range, std::move(owner), inline_max,
                                     hashes));
  if (wanted.md5) stored.md5 = hashes.md5.digest();
  if (wanted.checksum != ChecksumAlgorithm::none) {
    stored.checksum = {wanted.checksum, ChecksumType::full_object, hashes.checksum.raw()};
  }
  co_return std::move(stored);
}

std::unique_ptr<LeaseKeeper> leases_of(const StoredBytes& stored) {
  if (!stored.blob) return nullptr;
  return std::make_unique<WriterLease>(*stored.writer, *stored.blob);
}

PartInfo make_part(const StoredBytes& stored, std::uint16_t number) {
  PartInfo part;
  part.number = number;
  part.size_bytes = stored.size_bytes;
  part.md5 = stored.md5;
  part.blob = stored.blob;
  return part;
}

S3Task<> check_fast(Gateway& gateway, const S3Request& request, const Bucket& bucket,
                    Condition condition) {
  if (condition.empty()) co_return S3Result<>{};
  const auto checked = co_await gateway.objects.fast_check(bucket, request.key, condition);
  if (!checked) co_return write_failure(checked.error(), condition);
  co_return S3Result<>{};
}

S3Task<ObjectRecord> put_stored(Gateway& gateway, const S3Request& request, BucketPtr bucket,
                                ObjectRecord record, const StoredBytes& stored,
                                Condition condition) {
  const auto leases = leases_of(stored);
  auto put =
      co_await gateway.objects.put(*bucket, request.key, record, stored.inline_bytes, condition,
                                   fresh_deadline(gateway, request), leases.get());
  if (!put && put.error().code == Errc::stale_bucket) {
    // Nothing was written. If the bucket is still the same one, it may have the bytes; fragments
    // belong to a bucket's id, so another one of that name may not.
    gateway.index.forget_bucket(bucket->name);
    CO_TRY(again, co_await open_bucket(gateway, request));
    if (stored.blob && again->record.id != bucket->record.id) {
      co_return s3_error(S3Code::SlowDown);
    }
    bucket = std::move(again);
    put = co_await gateway.objects.put(*bucket, request.key, std::move(record), stored.inline_bytes,
                                       condition, fresh_deadline(gateway, request), leases.get());
  }
  // An accept may be under way: from here on only the sweep removes fragments.
  if (!put && !holds(Rule::kept_after_accept) && stored.writer) co_await stored.writer->discard();
  if (!put) co_return write_failure(put.error(), condition);
  co_return std::move(*put);
}

}  // namespace penstock
