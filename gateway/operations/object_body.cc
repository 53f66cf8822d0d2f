#include "gateway/operations/object_body.h"

#include "gateway/operations/stored_bytes.h"

namespace penstock {

ObjectBody::ObjectBody(Gateway& gateway, const S3Request& request, std::vector<BlobRange> ranges)
    : gateway_(gateway),
      reader_(gateway.objects.blobs(), std::move(ranges), request.file_pieces,
              damage_log(request)) {}

Task<> ObjectBody::start() {
  CO_TRY(piece, co_await reader_.next(fresh_deadline(gateway_)));
  first_ = std::move(piece);
  co_return Result<>{};
}

Task<Piece> ObjectBody::next() {
  if (first_.length > 0) return first();
  return reader_.next(fresh_deadline(gateway_));
}

Task<Piece> ObjectBody::first() { co_return std::exchange(first_, Piece{}); }

}  // namespace penstock
