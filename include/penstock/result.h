// Result<T>: a value or an Error; Task<T>: a coroutine that yields one. No exception crosses a
// function of ours.
//
// Three kinds of failure. Expected ones (missing, late, full, corrupt) are values of Result. Our
// own bugs are asserts, on in every build, never reachable by bytes from network or disk. A process
// that cannot start says why and exits with 1. `timeout` means the outcome is unknown; therefore
// every remote operation is idempotent.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/result.hpp>
#include <cstdint>
#include <iosfwd>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace penstock {

enum class Errc : std::uint8_t {
  invalid,          // the request is wrong; repeating it will not help
  not_found,        // known to be absent
  corrupt,          // bytes that fail their checksum or their format
  io,               // a system call failed; the volume that sees it closes for good
  unavailable,      // no quorum, volume closed, not connected: it was not done
  timeout,          // no answer in time: the outcome is unknown
  refused,          // an acceptor has promised or accepted a higher ballot
  stale_epoch,      // the volume is at a newer group epoch, or at this one with another digest
  stale_bucket,     // the bucket's number is at or below the volume's fence
  upload_not_open,  // no such upload, or not open any more: a part row needs one beside it
  upload_missing,   // ... and that row is missing here; send it first
  full,             // no space on the volume (or all volumes)
  overloaded,       // a queue, budget or connection bound is reached: SlowDown
  unknown_outcome,  // an accept was sent and its fate cannot be told: 503, never 409
  busy,             // a state that passes by itself, e.g. a bucket being deleted
  aborted,          // the peer or the process stopped this operation
  precondition,     // a condition of an update failed on a chosen value: 412
  shutting_down,
  epoch_behind,  // the volume has not learned the round's group epoch yet; others may have
};
std::string_view to_string(Errc code);

struct Error {
  Errc code = Errc::invalid;
  std::string context;  // a phrase with the ids, added once, where they are known
  bool thrown = false;  // it comes of an exception (caught.h), not of a disk or a peer
};

// Taking the value of an error is a bug of ours: says where, and aborts.
[[noreturn]] void throw_exception_from_error(const Error& error,
                                             const boost::source_location& where);

template <class T = void>
class [[nodiscard]] Result : public boost::system::result<T, Error> {
 public:
  using boost::system::result<T, Error>::result;
};

// For test messages: "ok" or the error.
std::ostream& print_result(std::ostream& out, const Error* error);
template <class T>
std::ostream& operator<<(std::ostream& out, const Result<T>& result) {
  if (result) return print_result(out, nullptr);
  const Error error = result.error();
  return print_result(out, &error);
}

using Executor = boost::asio::io_context::executor_type;  // every coroutine of ours runs on one
                                                          // io_context's thread
template <class T>
using Awaitable = boost::asio::awaitable<T, Executor>;
template <class T = void>
using Task = Awaitable<Result<T>>;
inline constexpr boost::asio::use_awaitable_t<Executor> use_task{};

inline Error fail(Errc code, std::string context) { return Error{code, std::move(context)}; }

}  // namespace penstock

// The only macros of ours. All are statements, never the body of a brace-less `if`. TRY/CHECK in
// functions, CO_TRY/CO_CHECK in coroutines: `CO_TRY(record, co_await proposer.read(key));` declares
// `record` or returns the error.
#define PENSTOCK_CAT_(a, b) a##b
#define PENSTOCK_CAT(a, b) PENSTOCK_CAT_(a, b)
#define PENSTOCK_TRY_(tmp, ret, var, ...) \
  auto tmp = (__VA_ARGS__);               \
  if (!tmp) ret std::move(tmp).error();   \
  auto var = std::move(tmp).value()
#define PENSTOCK_CHECK_(ret, ...)                                                  \
  do {                                                                             \
    if (auto checked_ = (__VA_ARGS__); !checked_) ret std::move(checked_).error(); \
  } while (false)
#define TRY(var, ...) PENSTOCK_TRY_(PENSTOCK_CAT(try_, __LINE__), return, var, __VA_ARGS__)
#define CO_TRY(var, ...) PENSTOCK_TRY_(PENSTOCK_CAT(try_, __LINE__), co_return, var, __VA_ARGS__)
#define CHECK_OK(...) PENSTOCK_CHECK_(return, __VA_ARGS__)
#define CO_CHECK(...) PENSTOCK_CHECK_(co_return, __VA_ARGS__)
