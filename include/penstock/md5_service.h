// Hashes the bodies of many connections at once. MD5 is serial within one stream, so one core does
// 0.7 GB/s of it; in the lanes of vector registers it does eight or sixteen streams in the time of
// about two. So a piece that nobody waits for is left until others can be hashed with it, and is
// left half hashed when they are done before it.
#pragma once
#include <memory>

#include "penstock/buffer.h"
#include "penstock/md5.h"
#include "penstock/md5_lanes.h"
#include "penstock/result.h"
#include "penstock/runtime.h"

namespace penstock {

// The queue is as long as there are streams at most. The worker must end before the executors of
// those who wait. Thread-safety: streams may be made, used and destroyed on any thread.
// Ownership: borrows the worker, and outlives its streams.
class Md5Service {
 public:
  // Below this the way to another thread and back costs more than it saves.
  static constexpr std::size_t kInlineBytesMax = 32 * 1024;
  // More streams than these wait for each other.
  static constexpr std::size_t kStreamsAtOnce = 2;

  // `threads`: how many of the worker's threads may hash at the same time.
  Md5Service(Worker& worker, unsigned threads, Md5Kernel fastest = Md5Kernel::avx512);

 private:
  friend class Md5Stream;
  struct State;
  std::shared_ptr<State> state_;  // shared: a thread leaves it after the last caller has its answer
};

// The MD5 of one body that comes in pieces. Some may be left to be hashed later: when a full set of
// lanes has come together, or when a caller of any stream waits for its own.
// Thread-safety: one call at a time. Destroying it is safe between two calls.
class Md5Stream {
 public:
  // So many pieces may be left to be hashed later, 2 MiB. With half of that, the fastest of eight
  // bodies waits for it before the others have theirs, and three lanes of eight stay empty; with
  // twice as much, bodies become so different in speed that the slowest of eight takes twice as
  // long.
  static constexpr std::size_t kPiecesLater = 4;

  // Null: all is hashed on the caller's thread.
  explicit Md5Stream(Md5Service* service);
  ~Md5Stream();
  Md5Stream(const Md5Stream&) = delete;
  Md5Stream& operator=(const Md5Stream&) = delete;

  // Adds `bytes`, which the caller leaves alone until it returns: they are hashed then.
  // Errors: io - the service threw; the digest is lost.
  Task<> add(ConstBytes bytes);
  // Adds `piece`, which stays as it is: a reference is kept until it is hashed, which may be later.
  // Waits while kPiecesLater others are left. Errors: the same, of an earlier piece, too.
  Task<> add_later(Buffer piece);
  // Returns when all is hashed. Errors: the same.
  Task<> settle() { return settle(0); }
  // Of all that was added. Pre: the last call was add() or settle().
  Md5Digest digest() const;

 private:
  friend class Md5Service;
  struct State;
  Task<> settle(std::size_t pieces_left);
  void put(ConstBytes bytes, Buffer kept);
  std::shared_ptr<Md5Service::State> service_;  // null: none
  std::shared_ptr<State> state_;
};

}  // namespace penstock
