// What the connections of one I/O thread share: deadlines, the date, the service, the list of
// connections, and the order in which they may be closed for new ones.
//
// At the bound of connections, the one that has rested longest is closed for a new one: first those
// that wait for a request or for the rest of its head, then readers that took nothing for a while.
// A connection that moves is never closed for a new one.
//
// Thread-safety: its thread only, but for the counters.
#pragma once
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/http_deadlines.h"
#include "gateway/http/http_exchange.h"
#include "gateway/http/http_options.h"
#include "gateway/http/http_refusals.h"
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
  std::atomic<std::size_t> turned_away{0};  // that still linger
  std::atomic<std::size_t> lingering{0};
  // Open connections by the hash of the peer's address.
  std::array<std::atomic<std::uint32_t>, limits::kPeerAddresses> of_address{};
  std::atomic<bool> stopping{false};
  HttpRefusals refusals;

  HttpShared(Service& the_service, Clock& the_clock, Random& the_random, HttpOptions the_options);
};

// Ownership: shared by the server and by every coroutine that it spawned on this thread, because a
// thread may be ended with connections still open.
class HttpLoop {
  using RestLink = boost::intrusive::link_mode<boost::intrusive::auto_unlink>;
  using RestHook = boost::intrusive::list_member_hook<RestLink>;

 public:
  enum class Rest : std::uint8_t { idle, paused };
  // A connection, as far as the loop knows it. Leaves the loop when it is destroyed.
  class Member : public boost::intrusive::list_base_hook<
                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    virtual ~Member() = default;
    // Ends the connection after the request in work, or `at_once`.
    virtual void stop(bool at_once) = 0;
    // Ends the connection, whose place another needs. False: something has come for it meanwhile,
    // so it stays.
    virtual bool give_way(Rest kind) = 0;

   private:
    friend class HttpLoop;  // one class in two halves
    RestHook rest_hook_;
    RestHook address_hook_;
    BootTime rests_since_;
    std::uint32_t address_ = 0;
  };

  // While there is one, time moves on: deadlines fire, and the date is that of now. Without,
  // nothing wakes the thread. On the loop's thread.
  class Use {
   public:
    explicit Use(std::shared_ptr<HttpLoop> loop);
    ~Use() { --loop_->uses_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const std::shared_ptr<HttpLoop> loop_;
  };

  HttpLoop(boost::asio::io_context& context, std::shared_ptr<HttpShared> shared);

  Executor executor() { return context_.get_executor(); }
  HttpShared& shared() { return *shared_; }
  DeadlineWheel& wheel() { return wheel_; }
  std::string_view date() const { return date_; }
  std::string_view host_id() const { return shared_->host_id; }

  // `address`: the place of its peer in HttpShared::of_address.
  void join(Member& member, std::uint32_t address) {
    member.address_ = address;
    members_.push_back(member);
  }
  // From now on it may go; until wake(), which must come before its end.
  void rest(Member& member, Rest kind);
  void wake(Member& member);
  // Ends the member that rests longest, if one rests since `latest` or longer; of `address` only,
  // if given. Passes over at most limits::kEvictionLook that do not give way. False: none goes.
  bool evict(Rest kind, BootTime latest, std::optional<std::uint32_t> address);
  // Since when the member that may go next rests; max: there is none. Thread-safety: any thread.
  BootTime rests_since(Rest kind) const;
  void stop_members(bool at_once);

 private:
  using RestList =
      boost::intrusive::list<Member,
                             boost::intrusive::member_hook<Member, RestHook, &Member::rest_hook_>,
                             boost::intrusive::constant_time_size<false>>;
  using AddressList = boost::intrusive::list<
      Member, boost::intrusive::member_hook<Member, RestHook, &Member::address_hook_>,
      boost::intrusive::constant_time_size<false>>;

  template <class List>
  static Member* who_goes(List& list, Rest kind, BootTime latest);
  void advance();
  void publish();
  // Moves time on until nobody uses the loop.
  static Awaitable<void> keep_time(std::shared_ptr<HttpLoop> self);

  boost::asio::io_context& context_;
  std::shared_ptr<HttpShared> shared_;
  DeadlineWheel wheel_;
  std::size_t uses_ = 0;
  bool keeps_time_ = false;
  boost::intrusive::list<Member, boost::intrusive::constant_time_size<false>> members_;
  std::array<RestList, 2> resting_;  // by Rest, in the order in which they began
  std::array<std::vector<AddressList>, 2> resting_of_address_;  // the same, by the peers' places
  std::array<std::atomic<Duration::rep>, 2> rests_since_;
  std::string date_;
  std::int64_t date_second_ = 0;
};

}  // namespace penstock
