#include "server/transport/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "penstock/assert.h"
#include "penstock/limits.h"
#include "server/transport/frame.h"
#include "server/transport/tcp_stream.h"

namespace penstock {
namespace {

constexpr std::size_t kGreetingBytes = 4 * limits::kKiB;  // received at a time, until it is over
constexpr std::size_t kInBytes = 64 * limits::kKiB;       // and then
constexpr std::size_t kRecordBytes = 16 * limits::kKiB;   // the most that one takes
constexpr std::size_t kBatchBytes = 128 * limits::kKiB;   // sent in one go
constexpr std::size_t kDrainBytes = 64 * limits::kKiB;    // that a peer sends after it was refused
constexpr std::byte kHandshakeRecord{22};
constexpr std::byte kAlertRecord{21};

// ---- what OpenSSL calls to read and write

TlsRecords& records_of(BIO* bio) { return *static_cast<TlsRecords*>(BIO_get_data(bio)); }

int read_record(BIO* bio, char* target, int size) {
  TlsRecords& records = records_of(bio);
  BIO_clear_retry_flags(bio);
  const std::size_t count = std::min(static_cast<std::size_t>(size), records.end - records.begin);
  if (count == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  std::memcpy(target, records.in.data() + records.begin, count);
  records.begin += count;
  return static_cast<int>(count);
}

int write_record(BIO* bio, const char* bytes, int size) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes);
  BIO_clear_retry_flags(bio);
  std::vector<std::byte>& out = records_of(bio).out;
  out.insert(out.end(), begin, begin + size);
  return size;
}

void add_to(std::vector<std::byte>& bytes, std::string_view text) {
  const ConstBytes added = as_bytes(text);
  bytes.insert(bytes.end(), added.begin(), added.end());
}

long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

struct FreeMethod {
  void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
};
const BIO_METHOD* record_method() {
  static const std::unique_ptr<BIO_METHOD, FreeMethod> method = [] {
    std::unique_ptr<BIO_METHOD, FreeMethod> made(
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "penstock records"));
    PENSTOCK_ASSERT(made);
    BIO_meth_set_read(made.get(), read_record);
    BIO_meth_set_write(made.get(), write_record);
    BIO_meth_set_ctrl(made.get(), control);
    return made;
  }();
  return method.get();
}

// As a hello is refused.
std::string refusal_of(const Error& reason) {
  wire::Header header;
  header.operation = wire::Operation::hello;
  header.reply = true;
  header.failed = true;
  return make_frame(header, wire::encode(wire::Failure{reason})).head;
}

}  // namespace

TlsStream::TlsStream(std::unique_ptr<ByteStream> below, TlsSession session, std::uint64_t key_bytes)
    : below_(std::move(below)), session_(std::move(session)), key_bytes_(key_bytes) {
  BIO* bio = BIO_new(record_method());
  PENSTOCK_ASSERT(bio != nullptr);
  BIO_set_data(bio, &records_);
  BIO_set_init(bio, 1);
  SSL_set_bio(session_.get(), bio, bio);  // owns it
}

TlsStream::~TlsStream() = default;

bool TlsStream::is_server() const { return SSL_is_server(session_.get()) == 1; }

Error TlsStream::broken(std::string_view what) {
  const TlsFailure failure = take_tls_failure(*session_);
  failed_ = fail(failure.is_refusal || !peer_ ? Errc::invalid : Errc::aborted,
                 "TLS: " + std::string(what) + failure.reason);
  return *failed_;
}

// ---- the handshake

Task<> TlsStream::handshake() {
  while (!failed_) {
    ERR_clear_error();
    const int done = SSL_do_handshake(session_.get());
    const bool waits = done != 1 && SSL_get_error(session_.get(), done) == SSL_ERROR_WANT_READ;
    if (done != 1 && !waits) {
      broken("");  // what it says to the peer is among the records
      break;
    }
    CO_CHECK(co_await flush());
    if (done == 1) break;
    CO_CHECK(co_await hear());
  }
  if (!failed_) meet();
  if (failed_) co_return co_await refuse();
  co_return Result<>{};
}

// The next bytes of the handshake. Whoever sends something else learns it in the clear.
Task<> TlsStream::hear() {
  CO_TRY(more, co_await fill());
  if (!more && heard_) {
    co_return fail(Errc::aborted, "TLS: the peer ended the connection in the handshake");
  }
  if (!more) {
    co_return fail(Errc::aborted,
                   "TLS: the peer ended the connection at once; perhaps it speaks no TLS");
  }
  const std::byte first = records_.in[0];
  if (std::exchange(heard_, true) || first == kHandshakeRecord || first == kAlertRecord) {
    co_return Result<>{};
  }
  failed_ = fail(Errc::invalid, is_server() ? "TLS: the peer does not speak it, this server does"
                                            : "TLS: the server does not speak it");
  if (is_server()) add_to(records_.out, refusal_of(*failed_));
  co_return Result<>{};
}

// After the handshake: who is it?
void TlsStream::meet() {
  const auto peer = peer_of(*session_);
  if (peer) {
    peer_ = *peer;
    return;
  }
  const Error why = fail(peer.error().code, "TLS: " + peer.error().context);
  if (is_server()) (void)put(as_bytes(refusal_of(why)));  // if it fails, it is not told
  failed_ = why;
}

// Tells the peer what there is to tell. A server then reads until the peer has ended its side:
// closing before would take back what is on its way. Whoever bounds the hello bounds this, too.
Task<> TlsStream::refuse() {
  const bool tells = !records_.out.empty();
  Result<> told = co_await flush();
  std::size_t left = kDrainBytes;
  while (tells && told && is_server() && left > 0) {
    const auto got = co_await below_->receive(records_.in);
    if (!got || *got == 0) break;
    left -= std::min(left, *got);
  }
  co_return *failed_;
}

// ---- bytes

Task<bool> TlsStream::fill() {
  PENSTOCK_ASSERT(records_.begin == records_.end);
  const std::size_t room = peer_ ? kInBytes : kGreetingBytes;
  if (records_.in.size() < room) records_.in.resize(room);
  records_.begin = records_.end = 0;
  CO_TRY(received, co_await below_->receive(records_.in));
  records_.end = received;
  co_return received > 0;
}

Task<> TlsStream::flush() {
  if (records_.out.empty()) co_return Result<>{};
  std::swap(leaving_, records_.out);  // a receive() beside this one may add to the other
  const std::array<ConstBytes, 1> parts{ConstBytes(leaving_)};
  const Result<> sent = co_await below_->send(parts);
  leaving_.clear();
  co_return sent;
}

// What has been received already; 0: nothing, or the peer has ended its side.
Result<std::size_t> TlsStream::take(MutBytes buffer) {
  if (failed_) return *failed_;
  std::size_t taken = 0;
  while (taken < buffer.size()) {
    ERR_clear_error();
    std::size_t got = 0;
    const int done =
        SSL_read_ex(session_.get(), buffer.data() + taken, buffer.size() - taken, &got);
    if (done == 1) {
      taken += got;
      continue;
    }
    const int why = SSL_get_error(session_.get(), done);
    if (why == SSL_ERROR_WANT_READ) break;
    if (why == SSL_ERROR_ZERO_RETURN) {
      ended_ = true;
      break;
    }
    const Error error = broken("");
    if (taken == 0) return error;
    break;
  }
  return taken;
}

Task<std::size_t> TlsStream::receive(MutBytes buffer) {
  if (!peer_) CO_CHECK(co_await handshake());
  while (true) {
    CO_TRY(taken, take(buffer));
    if (taken > 0 || ended_) co_return taken;
    CO_TRY(more, co_await fill());
    // Without a farewell: frames say themselves where they end, so that nothing can be cut off.
    if (!more) co_return std::size_t{0};
  }
}

Result<> TlsStream::put(ConstBytes bytes) {
  if (failed_) return *failed_;
  if (bytes.empty()) return {};
  ERR_clear_error();
  if (put_bytes_ >= key_bytes_) {
    put_bytes_ = 0;
    if (SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
      return broken("keys cannot be renewed: ");
    }
  }
  put_bytes_ += bytes.size();
  std::size_t written = 0;
  const int done = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &written);
  if (done != 1 || written != bytes.size()) return broken("");
  return {};
}

// Some of the part. Short ones are gathered in `small_`: a record has some cost of its own.
Result<> TlsStream::put_some(ConstBytes& part) {
  if (small_.empty() && part.size() >= kRecordBytes) {
    const std::size_t count = std::min(part.size() / kRecordBytes * kRecordBytes, kBatchBytes);
    CHECK_OK(put(part.first(count)));
    part = part.subspan(count);
    return {};
  }
  const std::size_t count = std::min(part.size(), kRecordBytes - small_.size());
  small_.insert(small_.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
  part = part.subspan(count);
  if (small_.size() < kRecordBytes) return {};
  return put_small();
}

Result<> TlsStream::put_small() {
  CHECK_OK(put(small_));
  small_.clear();
  return {};
}

Task<> TlsStream::send(std::span<const ConstBytes> parts) {
  if (!peer_) CO_CHECK(co_await handshake());
  for (ConstBytes part : parts) {
    while (!part.empty()) {
      CO_CHECK(put_some(part));
      if (records_.out.size() >= kBatchBytes) CO_CHECK(co_await flush());
    }
  }
  CO_CHECK(put_small());
  co_return co_await flush();
}

// ---- making one

Result<std::unique_ptr<ByteStream>> accept_tls(std::unique_ptr<ByteStream> below,
                                               const TlsContext& context) {
  TRY(session, context.begin(TlsContext::Side::server));
  return std::unique_ptr<ByteStream>(
      std::make_unique<TlsStream>(std::move(below), std::move(session)));
}

Task<std::unique_ptr<ByteStream>> dial_tls(std::string address, Clock& clock,
                                           std::shared_ptr<const TlsContext> context) {
  CO_TRY(session, context->begin(TlsContext::Side::client));
  CO_TRY(below, co_await dial_tcp(std::move(address), clock));
  co_return std::unique_ptr<ByteStream>(
      std::make_unique<TlsStream>(std::move(below), std::move(session)));
}

}  // namespace penstock
