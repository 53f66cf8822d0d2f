#include "gateway/operations/object_body.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>

#include "gateway/operations/stored_bytes.h"

namespace penstock {

ObjectBody::ObjectBody(Gateway& gateway, const S3Request& request, std::vector<BlobRange> ranges,
                       bool file_pieces)
    : gateway_(gateway),
      trace_(request.deadline.trace()),
      pin_due_(gateway.clock.boot() + gateway.blobs.reader_pin_every()),
      reader_(gateway.blobs.read(std::move(ranges), file_pieces,
                                 gateway.damage.of_request(request.request_id), request.memory)) {}

Task<> ObjectBody::start() {
  CO_TRY(piece, co_await reader_.next(fresh_deadline()));
  first_ = std::move(piece);
  co_return Result<>{};
}

Task<Piece> ObjectBody::next() {
  if (first_.length > 0) return first();
  if (gateway_.clock.boot() >= pin_due_) return pin_and_next();
  return reader_.next(fresh_deadline());
}

// The pins are not waited for: the bytes are there now.
void ObjectBody::pin(const Executor& executor) {
  const BootTime now = gateway_.clock.boot();
  pin_due_ = now + gateway_.blobs.reader_pin_every();
  const Deadline until = fresh_deadline();
  std::vector<BlobRef> blobs;
  for (const BlobRange& range : reader_.ranges()) blobs.push_back(range.blob);
  boost::asio::co_spawn(executor, gateway_.blobs.pin_for_reader(std::move(blobs), until),
                        boost::asio::detached);
}

Task<Piece> ObjectBody::pin_and_next() {
  const Executor executor = co_await boost::asio::this_coro::executor;
  pin(executor);
  co_return co_await reader_.next(fresh_deadline());
}

Task<Duration> ObjectBody::keep() {
  const Executor executor = co_await boost::asio::this_coro::executor;
  if (gateway_.clock.boot() >= pin_due_) pin(executor);
  co_return pin_due_ - gateway_.clock.boot();
}

Task<Piece> ObjectBody::first() { co_return std::exchange(first_, Piece{}); }

}  // namespace penstock
