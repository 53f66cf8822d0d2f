// An object's bytes on their way to a client or into a copy: verified pieces of its blobs, the next
// fetched while one is used. A read that takes minutes pins its fragments, so that an overwrite
// does not take them away.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "gateway/operations/operations.h"

namespace penstock {

class ObjectBody final : public BodySource {
 public:
  // `request` outlives the source's construction only. `file_pieces`: pieces may be pinned pages,
  // which can only be sent.
  ObjectBody(Gateway& gateway, const S3Request& request, std::vector<BlobRange> ranges,
             bool file_pieces);
  // Fetches the first piece, so that what cannot be read at all is an error and not a broken
  // answer.
  // Errors: as BlobReader::next().
  Task<> start();
  Task<Piece> next() override;
  void put_back(std::uint64_t count) override { reader_.put_back(count); }
  Task<Duration> keep() override;

 private:
  Task<Piece> first();
  Task<Piece> pin_and_next();
  void pin(const Executor& executor);

  // For the next step, on behalf of the request.
  Deadline fresh_deadline() const {
    return {gateway_.clock.boot() + limits::kOperationDeadline, trace_};
  }

  Gateway& gateway_;
  const Trace trace_;
  BootTime pin_due_;
  BlobReader reader_;
  Piece first_;
};

}  // namespace penstock
