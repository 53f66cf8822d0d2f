#include "gateway/body/body_bytes.h"

namespace penstock {
namespace {
S3Error body_error(const BodyReader& body, const Error& error) {
  if (auto failure = body.failure()) return std::move(*failure);
  return to_s3(error);
}

S3Result<std::size_t> some(const BodyReader& body, const Result<std::size_t>& count) {
  if (!count) return body_error(body, count.error());
  if (*count == 0) return s3_error(S3Code::IncompleteBody);
  return *count;
}
}  // namespace

S3Task<std::size_t> read_some(BodyReader& body, MutBytes buffer) {
  const auto count = co_await body.read(buffer);
  co_return some(body, count);
}

S3Task<std::size_t> receive_some(BodyReader& body, Buffer buffer) {
  const auto count = co_await body.receive(std::move(buffer));
  co_return some(body, count);
}

S3Task<> read_exactly(BodyReader& body, MutBytes buffer) {
  while (!buffer.empty()) {
    CO_TRY(count, co_await read_some(body, buffer));
    buffer = buffer.subspan(count);
  }
  co_return S3Result<>{};
}

S3Task<> receive_exactly(BodyReader& body, Buffer buffer) {
  while (buffer.size() > 0) {
    CO_TRY(count, co_await receive_some(body, buffer));
    buffer = buffer.slice(count, buffer.size() - count);
  }
  co_return S3Result<>{};
}

S3Task<> settle(BodyReader& body) {
  const auto settled = co_await body.settle();
  if (!settled) co_return body_error(body, settled.error());
  co_return S3Result<>{};
}

S3Task<> read_end(BodyReader& body) {
  std::byte extra{};
  const auto count = co_await body.read(MutBytes(&extra, 1));
  if (!count) co_return body_error(body, count.error());
  if (*count != 0) co_return s3_error(S3Code::IncompleteBody);
  if (auto failure = body.failure()) co_return std::move(*failure);
  co_return S3Result<>{};
}

S3Task<> read_whole(BodyReader& body, MutBytes buffer) {
  CO_CHECK(co_await read_exactly(body, buffer));
  co_return co_await read_end(body);
}

}  // namespace penstock
