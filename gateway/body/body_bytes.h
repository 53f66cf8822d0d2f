// The bytes of a request's body, in full or an error that the client can read. Errors of all: what
// the body's reader says of the body; IncompleteBody - it ends before the length it announced.
// Ownership: every reference outlives the awaits. Thread-safety: the connection's thread.
#pragma once
#include "gateway/s3/request.h"
#include "gateway/s3/s3_error.h"

namespace penstock {

// Reads 1 … buffer.size() bytes: for as long as more are due.
S3Task<std::size_t> read_some(BodyReader& body, MutBytes buffer);
// The same as BodyReader::receive().
S3Task<std::size_t> receive_some(BodyReader& body, Buffer buffer);
// Fills `buffer`; the second one by BodyReader::receive().
S3Task<> read_exactly(BodyReader& body, MutBytes buffer);
S3Task<> receive_exactly(BodyReader& body, Buffer buffer);
// Reads the verified end: until it is reached, nothing of the body may become visible.
S3Task<> read_end(BodyReader& body);
// Until md5() is known.
S3Task<> settle(BodyReader& body);
// Fills `buffer`, and reads the verified end.
S3Task<> read_whole(BodyReader& body, MutBytes buffer);

}  // namespace penstock
