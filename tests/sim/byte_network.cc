#include "tests/sim/byte_network.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "penstock/limits.h"
#include "penstock/wakeup.h"

namespace penstock::sim {
namespace {

constexpr SimMicros kKeepAlive = 10 * kSecond;  // after which a silent break is found out
constexpr std::size_t kPiecesMax = 4;           // of one send that is split
constexpr std::size_t kCrumbMax = 100;

struct Piece {
  std::string bytes;
  SimMicros arrives = 0;
  bool end = false;  // the sender has closed
};

// One way of a connection.
struct Flow {
  Place from = 0, to = 0;
  std::deque<Piece> under_way;
  std::uint64_t turn = 0;  // of the events that let pieces arrive: earlier ones do nothing
  bool held = false;       // by a cut
  std::deque<Piece> arrived;
  std::size_t taken = 0;     // of the first of these
  std::size_t standing = 0;  // bytes that were sent and not received
  SimMicros busy_until = 0;  // its line
  SimMicros last_arrival = 0;
  bool into_nothing = false;  // what is sent from now on
  Wakeup readable, writable;
};

// Of one process.
struct Side {
  std::weak_ptr<NetworkProcess::State> process;
  bool closed = false;  // by its process, or with it
  bool missed = false;  // the news of a break
  bool broken = false;  // it has heard so
};

Error broken_stream() { return fail(Errc::aborted, "connection: broken"); }

}  // namespace

struct Connection {
  std::array<Flow, 2> flows;  // by who sends
  std::array<Side, 2> sides;
  bool over = false;  // broken, whoever has heard of it
};
using ConnectionPtr = std::shared_ptr<Connection>;

struct ByteNetwork::Core : std::enable_shared_from_this<ByteNetwork::Core> {
  Core(SimTime& t, std::uint64_t seed) : time(t), random(seed) {}

  SimMicros delay(Place from, Place to) {
    const auto slow = slowness.find({from, to});
    const SimMicros more = slow == slowness.end() ? 0 : slow->second;
    if (random.chance(faults.slow)) {
      return more + random.between(faults.delay_max, std::max(faults.delay_max, faults.slow_max));
    }
    return more + random.between(1, faults.delay_max);
  }
  bool is_cut(Place from, Place to) const { return cuts.contains({from, to}); }

  // ---- bytes under way
  void send(const ConnectionPtr& connection, std::size_t side, std::string bytes);
  void arrive_at(const ConnectionPtr& connection, std::size_t from, SimMicros when);
  void arrive(const ConnectionPtr& connection, std::size_t from);
  void let_go(Place from, Place to);
  // Of what is under way from `side` a part arrives, now or much later. When the last of it does.
  SimMicros cut_short(const ConnectionPtr& connection, std::size_t side, bool late);

  // ---- ends
  void close(const ConnectionPtr& connection, std::size_t side);
  void break_off(const ConnectionPtr& connection);
  void hear_of_break(const ConnectionPtr& connection, std::size_t side);
  void lose_side(const ConnectionPtr& connection, std::size_t side, NetworkProcess::End end);
  SimMicros heard_after(SimMicros last);

  ConnectionPtr connect(const std::shared_ptr<NetworkProcess::State>& from,
                        const std::shared_ptr<NetworkProcess::State>& to);
  Awaitable<void> sleep(SimMicros time_long);

  SimTime& time;
  SimRandom random;
  bool over = false;  // the network is gone, and the time with it; streams may be left
  StreamFaults faults;
  Place places = 0;
  std::set<std::pair<Place, Place>> cuts;
  std::map<std::pair<Place, Place>, SimMicros> slowness;
  std::vector<std::weak_ptr<Connection>> connections;
  std::map<std::string, std::weak_ptr<NetworkProcess::State>> listeners;
};

struct NetworkProcess::State {
  std::shared_ptr<ByteNetwork::Core> core;
  Place place = 0;
  bool alive = true;
  Accept accept;
};

namespace {

class SimStream final : public ByteStream {
 public:
  SimStream(std::shared_ptr<ByteNetwork::Core> core, ConnectionPtr connection, std::size_t side)
      : core_(std::move(core)), connection_(std::move(connection)), side_(side) {}
  ~SimStream() override { close(); }

  Task<std::size_t> receive(MutBytes buffer) override;
  Task<> send(std::span<const ConstBytes> parts) override;
  void close() override { core_->close(connection_, side_); }

 private:
  bool gone() const {
    const Side& own = connection_->sides[side_];
    return own.closed || own.broken;
  }
  const std::shared_ptr<ByteNetwork::Core> core_;
  const ConnectionPtr connection_;
  const std::size_t side_;
};

Task<std::size_t> SimStream::receive(MutBytes buffer) {
  const auto core = core_;
  const auto connection = connection_;
  const Side& own = connection->sides[side_];
  Flow& flow = connection->flows[1 - side_];
  while (!own.closed) {
    if (!flow.arrived.empty()) {
      const Piece& first = flow.arrived.front();
      if (first.end) co_return std::size_t{0};
      std::size_t count = std::min(buffer.size(), first.bytes.size() - flow.taken);
      if (core->random.chance(core->faults.crumbs)) {
        count = std::min(count, 1 + core->random.below(kCrumbMax));
      }
      const auto from = as_bytes(first.bytes).subspan(flow.taken, count);
      std::copy(from.begin(), from.end(), buffer.begin());
      flow.taken += count;
      flow.standing -= count;
      if (flow.taken == first.bytes.size()) {
        flow.arrived.pop_front();
        flow.taken = 0;
      }
      flow.writable.notify();
      co_return count;
    }
    if (own.broken) break;
    co_await flow.readable.wait();
  }
  co_return broken_stream();
}

Task<> SimStream::send(std::span<const ConstBytes> parts) {
  const auto core = core_;
  const auto connection = connection_;
  std::string all;
  for (const ConstBytes part : parts) all += as_text(part);
  Flow& flow = connection->flows[side_];
  const std::size_t pieces =
      core->random.chance(core->faults.split) ? 1 + core->random.below(kPiecesMax) : 1;
  const std::size_t most = std::max<std::size_t>(all.size() / pieces, 1);
  for (std::size_t at = 0; at < all.size();) {
    if (gone()) co_return broken_stream();
    const std::size_t room =
        ByteNetwork::kWindowBytes - std::min(ByteNetwork::kWindowBytes, flow.standing);
    if (room == 0) {
      co_await flow.writable.wait();
      continue;
    }
    std::size_t count = std::min({room, all.size() - at, most});
    if (pieces > 1) count = std::min(count, 1 + core->random.below(most));
    core->send(connection, side_, all.substr(at, count));
    at += count;
  }
  if (gone()) co_return broken_stream();
  co_return Result<>{};
}

}  // namespace

void ByteNetwork::Core::send(const ConnectionPtr& connection, std::size_t side, std::string bytes) {
  Flow& flow = connection->flows[side];
  flow.standing += bytes.size();
  if (flow.into_nothing) return;
  if (random.chance(faults.flips)) bytes[random.below(bytes.size())] ^= 1;
  const auto took = faults.bytes_per_ms == 0
                        ? 0
                        : static_cast<SimMicros>(bytes.size()) * 1000 / faults.bytes_per_ms;
  flow.busy_until = std::max(flow.busy_until, time.now()) + took;
  flow.last_arrival = std::max(flow.last_arrival, flow.busy_until + delay(flow.from, flow.to));
  flow.under_way.push_back(Piece{std::move(bytes), flow.last_arrival});
  arrive_at(connection, side, flow.last_arrival);
  if (random.chance(faults.breaks)) break_off(connection);
}

void ByteNetwork::Core::arrive_at(const ConnectionPtr& connection, std::size_t from,
                                  SimMicros when) {
  const std::uint64_t turn = connection->flows[from].turn;
  time.at(when, [self = shared_from_this(), connection, from, turn] {
    if (connection->flows[from].turn == turn) self->arrive(connection, from);
  });
}

void ByteNetwork::Core::arrive(const ConnectionPtr& connection, std::size_t from) {
  Flow& flow = connection->flows[from];
  if (is_cut(flow.from, flow.to)) flow.held = true;
  if (flow.held) return;
  while (!flow.under_way.empty() && flow.under_way.front().arrives <= time.now()) {
    flow.arrived.push_back(std::move(flow.under_way.front()));
    flow.under_way.pop_front();
  }
  if (connection->sides[1 - from].closed) flow.arrived.clear();
  flow.readable.notify();
}

void ByteNetwork::Core::let_go(Place from, Place to) {
  for (const auto& weak : connections) {
    const auto connection = weak.lock();
    if (!connection) continue;
    for (std::size_t side = 0; side < 2; ++side) {
      Flow& flow = connection->flows[side];
      if (flow.from != from || flow.to != to || !std::exchange(flow.held, false)) continue;
      arrive(connection, side);
    }
  }
}

SimMicros ByteNetwork::Core::cut_short(const ConnectionPtr& connection, std::size_t side,
                                       bool late) {
  Flow& flow = connection->flows[side];
  flow.into_nothing = true;
  ++flow.turn;
  std::size_t kept =
      random.chance(0.4) ? flow.under_way.size() : random.below(flow.under_way.size() + 1);
  const bool torn = kept < flow.under_way.size() && !flow.under_way[kept].bytes.empty();
  if (torn) {
    std::string& bytes = flow.under_way[kept].bytes;
    bytes.resize(random.below(bytes.size()));
    if (!bytes.empty()) ++kept;
  }
  flow.under_way.resize(kept);
  const SimMicros by = late ? random.between(0, faults.late_max) : 0;
  SimMicros last = time.now();
  for (Piece& piece : flow.under_way) {
    piece.arrives = std::max(piece.arrives, time.now()) + by;
    last = std::max(last, piece.arrives);
    arrive_at(connection, side, piece.arrives);
  }
  return last;
}

void ByteNetwork::Core::close(const ConnectionPtr& connection, std::size_t side) {
  Side& own = connection->sides[side];
  if (std::exchange(own.closed, true) || over) return;
  Flow& out = connection->flows[side];
  Flow& in = connection->flows[1 - side];
  in.into_nothing = true;
  in.arrived.clear();
  in.readable.notify();
  out.writable.notify();
  if (connection->over || out.into_nothing) return;
  // Bytes that nobody has read make it a reset, which may overtake what was sent.
  if (in.standing > 0 && faults.breaks > 0 && random.chance(0.5)) return break_off(connection);
  out.last_arrival = std::max(out.last_arrival, time.now() + delay(out.from, out.to));
  Piece end;
  end.arrives = out.last_arrival;
  end.end = true;
  out.under_way.push_back(std::move(end));
  arrive_at(connection, side, out.last_arrival);
}

SimMicros ByteNetwork::Core::heard_after(SimMicros last) {
  const SimMicros found_out = time.now() + random.between(kKeepAlive, 2 * kKeepAlive);
  return random.chance(faults.half_open) ? found_out : last + random.between(1, faults.delay_max);
}

void ByteNetwork::Core::break_off(const ConnectionPtr& connection) {
  if (std::exchange(connection->over, true)) return;
  for (std::size_t side = 0; side < 2; ++side) {
    const bool late = random.chance(faults.late);
    const SimMicros last = cut_short(connection, side, late);
    time.at(heard_after(last), [self = shared_from_this(), connection, other = 1 - side] {
      self->hear_of_break(connection, other);
    });
  }
}

// What says so is not sent again: behind a cut it is found out in the end.
void ByteNetwork::Core::hear_of_break(const ConnectionPtr& connection, std::size_t side) {
  const Flow& in = connection->flows[1 - side];
  if (is_cut(in.from, in.to) && !std::exchange(connection->sides[side].missed, true)) {
    time.after(
        random.between(kKeepAlive, 2 * kKeepAlive),
        [self = shared_from_this(), connection, side] { self->hear_of_break(connection, side); });
    return;
  }
  connection->sides[side].broken = true;
  connection->flows[1 - side].readable.notify();
  connection->flows[side].writable.notify();
}

// Its process has died.
void ByteNetwork::Core::lose_side(const ConnectionPtr& connection, std::size_t side,
                                  NetworkProcess::End end) {
  Side& own = connection->sides[side];
  if (std::exchange(own.closed, true)) return;
  connection->flows[1 - side].into_nothing = true;
  connection->flows[1 - side].arrived.clear();
  connection->flows[1 - side].readable.notify();
  connection->flows[side].writable.notify();
  if (std::exchange(connection->over, true)) return;
  const SimMicros last = cut_short(connection, side, random.chance(faults.late));
  SimMicros heard = last + random.between(1, faults.delay_max);
  if (end == NetworkProcess::End::without_power) {
    heard = random.chance(0.5) ? last + random.between(1, kSecond) : heard_after(last);
  }
  time.at(heard, [self = shared_from_this(), connection, other = 1 - side] {
    self->hear_of_break(connection, other);
  });
}

ConnectionPtr ByteNetwork::Core::connect(const std::shared_ptr<NetworkProcess::State>& from,
                                         const std::shared_ptr<NetworkProcess::State>& to) {
  const auto connection = std::make_shared<Connection>();
  connection->flows[0].from = connection->flows[1].to = from->place;
  connection->flows[0].to = connection->flows[1].from = to->place;
  connection->sides[0].process = from;
  connection->sides[1].process = to;
  std::erase_if(connections, [](const auto& known) { return known.expired(); });
  connections.push_back(connection);
  return connection;
}

Awaitable<void> ByteNetwork::Core::sleep(SimMicros time_long) {
  auto start = [this, time_long](Completion<void> done) {
    time.after(time_long, [done] { done(Result<>{}); });
  };
  const Result<> woken = co_await await_completion<void>(std::move(start));
  (void)woken;
}

ByteNetwork::ByteNetwork(SimTime& time, std::uint64_t seed)
    : core_(std::make_shared<Core>(time, seed)) {}
ByteNetwork::~ByteNetwork() { core_->over = true; }

Place ByteNetwork::add_place() { return core_->places++; }
StreamFaults& ByteNetwork::faults() { return core_->faults; }

void ByteNetwork::cut(Place from, Place to, bool cut) {
  if (cut) {
    core_->cuts.insert({from, to});
  } else if (core_->cuts.erase({from, to}) > 0) {
    core_->let_go(from, to);
  }
}

void ByteNetwork::break_between(Place one, Place other) {
  const auto known = core_->connections;  // breaking them changes the list no more
  for (const auto& weak : known) {
    const auto connection = weak.lock();
    if (!connection) continue;
    const Flow& flow = connection->flows[0];
    const bool theirs =
        (flow.from == one && flow.to == other) || (flow.from == other && flow.to == one);
    if (theirs) core_->break_off(connection);
  }
}

void ByteNetwork::slow_down(Place one, Place other, SimMicros by) {
  core_->slowness[{one, other}] = by;
  core_->slowness[{other, one}] = by;
}

void ByteNetwork::heal() {
  core_->slowness.clear();
  const auto cuts = std::exchange(core_->cuts, {});
  for (const auto& [from, to] : cuts) core_->let_go(from, to);
  const auto known = core_->connections;
  for (const auto& weak : known) {
    const auto connection = weak.lock();
    if (!connection || !connection->over) continue;
    for (const std::size_t side : {0, 1}) core_->hear_of_break(connection, side);
  }
}

NetworkProcess::NetworkProcess(ByteNetwork& network, Place place)
    : state_(std::make_shared<State>(State{network.core_, place, true, nullptr})) {}
NetworkProcess::~NetworkProcess() { die(End::killed); }

bool NetworkProcess::alive() const { return state_->alive; }
Place NetworkProcess::place() const { return state_->place; }

void NetworkProcess::listen(const std::string& address, Accept accept) {
  state_->accept = std::move(accept);
  state_->core->listeners[address] = state_;
}

void NetworkProcess::die(End end) {
  if (!std::exchange(state_->alive, false)) return;
  state_->accept = nullptr;
  const auto known = state_->core->connections;
  for (const auto& weak : known) {
    const auto connection = weak.lock();
    if (!connection) continue;
    for (std::size_t side = 0; side < 2; ++side) {
      if (connection->sides[side].process.lock() != state_) continue;
      state_->core->lose_side(connection, side, end);
    }
  }
}

Task<std::unique_ptr<ByteStream>> NetworkProcess::dial(std::string address) {
  const auto own = state_;
  const auto core = own->core;
  constexpr SimMicros kPatience = std::chrono::microseconds(limits::kConnectTime).count();
  const SimMicros until = core->time.now() + kPatience;
  const auto known = core->listeners.find(address);
  const auto target = known == core->listeners.end() ? nullptr : known->second.lock();
  const Place place = target ? target->place : own->place;
  co_await core->sleep(core->delay(own->place, place));
  const bool heard = !core->is_cut(own->place, place);
  const bool there = target && target->alive && target->accept;
  const bool refused =
      (!there && core->random.chance(0.5)) || core->random.chance(core->faults.refuses);
  if (heard && refused) co_return fail(Errc::unavailable, "connection: refused");
  ConnectionPtr connection;
  if (heard && there && own->alive) {
    connection = core->connect(own, target);
    target->accept(std::make_unique<SimStream>(core, connection, 1));
  }
  if (connection) co_await core->sleep(core->delay(place, own->place));
  const bool answered = connection && !core->is_cut(place, own->place);
  if (!answered || core->time.now() > until || !own->alive) {
    // The other side knows of a connection that this one never had.
    if (connection) core->break_off(connection);
    if (core->time.now() < until) co_await core->sleep(until - core->time.now());
    co_return fail(Errc::unavailable, "connection: timed out");
  }
  co_return std::unique_ptr<ByteStream>(std::make_unique<SimStream>(core, connection, 0));
}

}  // namespace penstock::sim
