// What the connections of one I/O thread share: deadlines, the date, the service, and who is there.
//
// Thread-safety: its thread only, but for the counters.
#pragma once
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/http_deadlines.h"
#include "gateway/http_exchange.h"
#include "gateway/http_options.h"
#include "gateway/http_refusals.h"
#include "penstock/runtime.h"

namespace penstock {

// Shared by all loops of a server.
struct HttpShared {
  Service& service;
  Clock& clock;
  Random& random;
  HttpOptions options;
  std::string host_id;
  std::atomic<std::size_t> open_connections{0};
  std::atomic<bool> stopping{false};
  HttpRefusals refusals;

  HttpShared(Service& the_service, Clock& the_clock, Random& the_random, HttpOptions the_options);
};

// The id of one request, from a random number.
void write_request_id(std::uint64_t number, std::string& id);

// Ownership: shared by the server and by every coroutine that it spawned on this thread, because a
// thread may be ended with connections still open.
class HttpLoop {
 public:
  // A connection, as far as the loop knows it. Leaves the loop when it is destroyed.
  class Member : public boost::intrusive::list_base_hook<
                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    virtual ~Member() = default;
    // Ends the connection after the request in work, or `at_once`.
    virtual void stop(bool at_once) = 0;
  };

  HttpLoop(boost::asio::io_context& context, std::shared_ptr<HttpShared> shared);

  Executor executor() { return context_.get_executor(); }
  HttpShared& shared() { return *shared_; }
  DeadlineWheel& wheel() { return wheel_; }
  std::string_view date() const { return date_; }
  std::string_view host_id() const { return shared_->host_id; }

  void join(Member& member) { members_.push_back(member); }
  void stop_members(bool at_once);
  // Moves time on until the server stops and the last member is gone.
  static Awaitable<void> keep_time(std::shared_ptr<HttpLoop> self);

 private:
  void advance();

  boost::asio::io_context& context_;
  std::shared_ptr<HttpShared> shared_;
  DeadlineWheel wheel_;
  boost::intrusive::list<Member, boost::intrusive::constant_time_size<false>> members_;
  std::string date_;
  std::int64_t date_second_ = 0;
};

}  // namespace penstock
