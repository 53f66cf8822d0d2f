#include "penstock/md5_service.h"

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <mutex>
#include <optional>
#include <vector>

#include "penstock/assert.h"
#include "penstock/async.h"
#include "penstock/caught.h"

namespace penstock {
namespace {

// Between two of these, lanes that ran dry are given to other streams.
constexpr std::size_t kQuantumBytes = 32 * 1024;
// A pass costs hardly less with fewer.
constexpr std::size_t kLanesWorthAPass = 8;

}  // namespace

struct Md5Stream::State {
  struct Piece {
    ConstBytes bytes;  // what a lane has not hashed yet, when it leaves one half-way
    Buffer kept;       // what they are in, if the caller does not keep it
  };
  // ---- the lane's while it is in one, else its caller's
  Md5 md5;
  ConstBytes left;  // of the first piece
  // ---- guarded by the service's mutex
  using Pieces = boost::container::static_vector<Piece, kPiecesLater>;
  Pieces pieces;  // not hashed yet; with the first it is in the queue or in a lane
  bool in_lane = false;
  bool forgotten = false;  // its caller is gone
  std::optional<Error> failed;
  std::optional<Completion<void>> waiter;
  std::size_t waits_for = 0;  // the waiter: until no more pieces than these are left

  bool is_settled(std::size_t pieces_left) const { return pieces.size() <= pieces_left; }
  bool is_awaited() const { return waiter.has_value(); }
};

struct Md5Service::State {
  using Stream = std::shared_ptr<Md5Stream::State>;
  using Lanes = boost::container::static_vector<Stream, 16>;
  State(Worker& w, unsigned t, Md5Kernel k) : worker(w), threads(t), kernel(k) {}
  Worker& worker;
  const unsigned threads;
  const Md5Kernel kernel;
  const std::size_t full = std::min(kLanesWorthAPass, md5_lanes(kernel));  // worth a pass
  std::mutex mutex;                                                        // guards what follows
  std::vector<Stream> queue;  // with room for all streams: a pass must not fail there
  std::size_t streams = 0;    // that live
  std::size_t awaited = 0;    // of the queue
  unsigned passes = 0;        // running or submitted

  // ---- Pre: the mutex is held.
  // With `lanes` streams in its lanes, too.
  bool is_worth_a_pass(std::size_t lanes = 0) const {
    const std::size_t there = queue.size() + lanes;
    return awaited > 0 || there >= full || (streams <= kStreamsAtOnce && there > 0);
  }
  // True: the caller is to submit a pass when it has let go of the mutex.
  bool begins_pass() {
    const std::size_t lanes = md5_lanes(kernel);
    const std::size_t wanted = (queue.size() + lanes - 1) / lanes;
    if (!is_worth_a_pass() || passes >= threads || wanted <= passes) return false;
    ++passes;
    return true;
  }
  void put(const Stream& stream) {
    queue.push_back(stream);
    if (stream->is_awaited()) ++awaited;
  }
  Stream take(std::vector<Stream>::iterator at) {
    Stream stream = std::move(*at);
    queue.erase(at);
    stream->in_lane = true;
    stream->left = stream->pieces.front().bytes;
    if (stream->is_awaited()) --awaited;
    return stream;
  }

  // ---- without it
  static void submit(const std::shared_ptr<State>& self) {
    try {
      self->worker.submit([self] { self->run_pass(); });
    } catch (...) {
      const std::lock_guard lock(self->mutex);
      --self->passes;
      throw;
    }
  }
  void run_pass();
  // One set of lanes, as long as there is something in them.
  void run_lanes(Lanes& lanes);
  bool fill(Lanes& lanes);
  void refill(Lanes& lanes);
  std::size_t free_lanes(const Lanes& lanes) const { return md5_lanes(kernel) - lanes.size(); }
  // Moves those for which `goes` is true from their lanes into `left`, half hashed. Pre: the mutex
  // is held.
  template <class Goes>
  void leave(Lanes& lanes, Lanes& left, Goes goes);
  void join(Lanes& lanes, std::size_t lanes_max);
  void hash_quantum(Lanes& lanes);
  // The first piece of `stream` has left its lane.
  void end(const Stream& stream, std::optional<Error> failed);
};

// False: there is nothing worth a pass, and this one has ended.
bool Md5Service::State::fill(Lanes& lanes) {
  const std::lock_guard lock(mutex);
  if (!is_worth_a_pass()) {
    --passes;
    return false;
  }
  join(lanes, md5_lanes(kernel));
  return true;
}

template <class Goes>
void Md5Service::State::leave(Lanes& lanes, Lanes& left, Goes goes) {
  std::size_t front = 0;  // of the queue: they go on first
  for (std::size_t i = 0; i < lanes.size();) {
    if (!goes(lanes[i])) {
      ++i;
      continue;
    }
    Stream stream = std::move(lanes[i]);
    lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(i));
    stream->in_lane = false;
    stream->pieces.front().bytes = stream->left;
    if (!stream->forgotten) queue.insert(queue.begin() + front++, stream);
    left.push_back(std::move(stream));
  }
}

// Pre: the mutex is held. Those that somebody waits for come first.
void Md5Service::State::join(Lanes& lanes, std::size_t lanes_max) {
  while (awaited > 0 && lanes.size() < md5_lanes(kernel)) {
    const auto at = std::find_if(queue.begin(), queue.end(),
                                 [](const Stream& stream) { return stream->is_awaited(); });
    PENSTOCK_ASSERT(at != queue.end());
    lanes.push_back(take(at));
  }
  while (!queue.empty() && lanes.size() < lanes_max) lanes.push_back(take(queue.begin()));
}

// Lanes that would be idle cost little: whom nobody waits for comes along, and leaves half hashed
// when a lane is wanted for another, or when only such streams are left, too few for a pass.
void Md5Service::State::refill(Lanes& lanes) {
  Lanes left;  // what nobody will ask for goes without the mutex
  const std::lock_guard lock(mutex);
  leave(lanes, left, [](const Stream& stream) { return stream->forgotten; });
  std::size_t wanted = std::min(awaited, md5_lanes(kernel)) - std::min(awaited, free_lanes(lanes));
  leave(lanes, left, [&](const Stream& stream) {
    const bool goes = wanted > 0 && !stream->is_awaited();
    if (goes) --wanted;
    return goes;
  });
  join(lanes, full);
  const bool goes_on = std::any_of(lanes.begin(), lanes.end(),
                                   [](const Stream& stream) { return stream->is_awaited(); });
  if (goes_on || is_worth_a_pass(lanes.size())) return;
  leave(lanes, left, [](const Stream&) { return true; });
}

void Md5Service::State::end(const Stream& stream, std::optional<Error> failed) {
  std::optional<Completion<void>> waiter;
  Md5Stream::State::Pieces gone;  // they go without the mutex
  {
    const std::lock_guard lock(mutex);
    stream->in_lane = false;
    if (failed) {
      stream->failed = std::move(failed);
      gone.swap(stream->pieces);
    } else {
      gone.push_back(std::move(stream->pieces.front()));
      stream->pieces.erase(stream->pieces.begin());
    }
    if (stream->is_settled(stream->waits_for)) waiter.swap(stream->waiter);
    if (!stream->pieces.empty()) put(stream);
  }
  if (waiter) (*waiter)(Result<>{});
}

// One step of all lanes, as far as the shortest of them goes. What is done leaves its lane.
void Md5Service::State::hash_quantum(Lanes& lanes) {
  std::size_t bytes = kQuantumBytes;
  std::array<Md5Lane, 16> inputs;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    bytes = std::min(bytes, lanes[i]->left.size());
    inputs[i] = {&lanes[i]->md5.words(), lanes[i]->left.data()};
  }
  const std::size_t blocks = bytes / kMd5BlockBytes;
  if (blocks > 0) md5_blocks_in_lanes(kernel, std::span(inputs).first(lanes.size()), blocks);
  const auto goes_on = [blocks](const Stream& stream) {
    stream->md5.skip(blocks * kMd5BlockBytes);
    stream->left = stream->left.subspan(blocks * kMd5BlockBytes);
    return stream->left.size() >= kMd5BlockBytes;
  };
  const auto done = std::partition(lanes.begin(), lanes.end(), goes_on);
  while (lanes.end() != done) {  // one that ends is in no lane, should this throw
    const Stream stream = std::move(lanes.back());
    lanes.pop_back();
    stream->md5.update(stream->left);
    end(stream, std::nullopt);
  }
}

void Md5Service::State::run_lanes(Lanes& lanes) {
  while (!lanes.empty()) {
    for (const Stream& stream : lanes) stream->left = stream->md5.fill_block(stream->left);
    hash_quantum(lanes);
    if (!lanes.empty()) refill(lanes);
  }
}

void Md5Service::State::run_pass() {
  Lanes lanes;
  while (fill(lanes)) {
    try {
      run_lanes(lanes);
    } catch (...) {  // streams that are half hashed fail; the pass goes on with others
      const Error error = error_of_exception("MD5");
      for (const Stream& stream : lanes) end(stream, error);
      lanes.clear();
    }
  }
}

Md5Service::Md5Service(Worker& worker, unsigned threads, Md5Kernel fastest)
    : state_(std::make_shared<State>(worker, threads, available_md5_kernel(fastest))) {
  PENSTOCK_ASSERT(threads > 0);
}

Md5Stream::Md5Stream(Md5Service* service) : state_(std::make_shared<State>()) {
  if (service == nullptr) return;
  service_ = service->state_;
  const std::lock_guard lock(service_->mutex);
  const std::size_t streams = service_->streams + 1;
  if (service_->queue.capacity() < streams) service_->queue.reserve(2 * streams);
  service_->streams = streams;
}

// What is in a lane leaves it at the next step; what still waits is forgotten.
Md5Stream::~Md5Stream() {
  if (!service_) return;
  bool submits = false;
  {
    const std::lock_guard lock(service_->mutex);
    --service_->streams;
    if (state_->in_lane) {
      state_->forgotten = true;
      state_->pieces.resize(1);
    } else if (!state_->pieces.empty()) {
      if (state_->is_awaited()) --service_->awaited;
      std::erase(service_->queue, state_);
    }
    submits = service_->begins_pass();  // fewer streams wait for each other now
  }
  try {
    if (submits) Md5Service::State::submit(service_);
  } catch (...) {
    (void)error_of_exception("MD5");  // told; who waits submits it again
  }
}

Task<> Md5Stream::settle(std::size_t pieces_left) {
  if (!service_) co_return Result<>{};
  auto start = [this, pieces_left](Completion<void> done) {
    bool submits = false, is_settled = false;
    {
      const std::lock_guard lock(service_->mutex);
      is_settled = state_->is_settled(pieces_left);
      if (!is_settled) {
        if (!state_->in_lane) ++service_->awaited;
        state_->waiter.emplace(done);
        state_->waits_for = pieces_left;
        submits = service_->begins_pass();
      }
    }
    if (is_settled) done(Result<>{});
    if (submits) Md5Service::State::submit(service_);
  };
  CO_CHECK(co_await await_completion<void>(std::move(start)));
  const std::lock_guard lock(service_->mutex);
  if (state_->failed) co_return *state_->failed;
  co_return Result<>{};
}

// Pre: no more than kPiecesLater - 1 are there.
void Md5Stream::put(ConstBytes bytes, Buffer kept) {
  bool submits = false;
  {
    const std::lock_guard lock(service_->mutex);
    state_->pieces.push_back({bytes, std::move(kept)});
    if (state_->pieces.size() == 1) service_->put(state_);
    submits = service_->begins_pass();
  }
  if (submits) Md5Service::State::submit(service_);
}

Task<> Md5Stream::add_later(Buffer piece) {
  if (!service_ || piece.size() < Md5Service::kInlineBytesMax)
    co_return co_await add(piece.bytes());
  CO_CHECK(co_await settle(kPiecesLater - 1));
  const ConstBytes bytes = piece.bytes();
  put(bytes, std::move(piece));
  co_return Result<>{};
}

Task<> Md5Stream::add(ConstBytes bytes) {
  CO_CHECK(co_await settle());
  if (!service_ || bytes.size() < Md5Service::kInlineBytesMax) {
    state_->md5.update(bytes);
    co_return Result<>{};
  }
  put(bytes, Buffer());
  co_return co_await settle();
}

Md5Digest Md5Stream::digest() const { return state_->md5.digest(); }

}  // namespace penstock
