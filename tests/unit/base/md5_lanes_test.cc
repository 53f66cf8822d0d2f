#include "penstock/md5_lanes.h"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <random>

#include "penstock/md5_services.h"

namespace penstock {
namespace {

std::string random_body(std::mt19937_64& random, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

constexpr Md5Kernel kKernels[] = {Md5Kernel::scalar, Md5Kernel::avx2, Md5Kernel::avx512};

TEST_CASE("every kernel gives each lane the digest of its own stream") {
  std::mt19937_64 random(1);
  for (const Md5Kernel fastest : kKernels) {
    const Md5Kernel kernel = available_md5_kernel(fastest);
    for (std::size_t lanes = 1; lanes <= md5_lanes(kernel); ++lanes) {
      constexpr std::size_t kBlocks = 5;
      std::vector<std::string> texts;
      std::vector<Md5> streams(lanes);
      for (std::size_t i = 0; i < lanes; ++i) {
        texts.push_back(random_body(random, kBlocks * kMd5BlockBytes + 1));
      }
      std::vector<Md5Lane> lane_inputs;
      for (std::size_t i = 0; i < lanes; ++i) {
        lane_inputs.push_back({&streams[i].words(), as_bytes(texts[i]).data()});
      }
      md5_blocks_in_lanes(kernel, lane_inputs, kBlocks);
      for (std::size_t i = 0; i < lanes; ++i) {
        streams[i].skip(kBlocks * kMd5BlockBytes);
        streams[i].update(as_bytes(texts[i]).subspan(kBlocks * kMd5BlockBytes));
        CHECK(streams[i].digest() == md5(as_bytes(texts[i])));
      }
    }
  }
}

// Runs its jobs when the test says so.
class SteppedWorker final : public Worker {
 public:
  void submit(std::function<void()> job) override { jobs_.push_back(std::move(job)); }
  bool run_one() {
    if (jobs_.empty()) return false;
    auto job = std::move(jobs_.front());
    jobs_.erase(jobs_.begin());
    job();
    return true;
  }
  std::size_t size() const { return jobs_.size(); }

 private:
  std::vector<std::function<void()>> jobs_;
};

// Every other piece is left to be hashed later.
Task<> hash_in_pieces(Md5Service& service, std::string& text, std::vector<std::size_t> cuts,
                      Md5Digest& digest) {
  Md5Stream stream(&service);
  std::size_t at = 0, count = 0;
  for (const std::size_t cut : cuts) {
    const ConstBytes piece = as_bytes(text).subspan(at, cut - at);
    if (++count % 2 == 0) {
      CO_CHECK(co_await stream.add_later(Buffer::copy_of(piece)));
    } else {
      CO_CHECK(co_await stream.add(piece));
    }
    // The bytes are free again: a piece that is still read would spoil the digest.
    std::fill(text.begin() + static_cast<std::ptrdiff_t>(at),
              text.begin() + static_cast<std::ptrdiff_t>(cut), '\0');
    at = cut;
  }
  CO_CHECK(co_await stream.settle());
  digest = stream.digest();
  co_return Result<>{};
}

void no_exception(std::exception_ptr error, const Result<>& result) {
  CHECK(error == nullptr);
  CHECK(result);
}

// As far as it goes without the worker.
void start(boost::asio::io_context& io, Task<> task) {
  boost::asio::co_spawn(io.get_executor(), std::move(task), no_exception);
  io.restart();
  io.poll();
}

struct Body {
  std::string text;
  std::vector<std::size_t> cuts;
  Md5Digest expected{};
  Md5Digest digest{};
};

std::vector<Body> random_bodies(std::mt19937_64& random, std::size_t count) {
  std::vector<Body> bodies(count);
  for (Body& body : bodies) {
    body.text = random_body(random, random() % 400'000);
    body.expected = md5(as_bytes(body.text));
    std::size_t at = 0;
    while (at < body.text.size()) {
      const std::size_t step = random() % 3 == 0 ? random() % 100 : random() % 150'000;
      at = std::min(at + 1 + step, body.text.size());
      body.cuts.push_back(at);
    }
  }
  return bodies;
}

TEST_CASE("streams that are hashed together in any interleaving get their own digests") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    boost::asio::io_context io;
    SteppedWorker worker;
    Md5Service service(worker, 1 + seed % 3, kKernels[seed % 3]);
    std::vector<Body> bodies = random_bodies(random, 1 + random() % 40);
    for (Body& body : bodies) {
      boost::asio::co_spawn(io.get_executor(),
                            hash_in_pieces(service, body.text, body.cuts, body.digest),
                            no_exception);
    }
    do {
      while (random() % 4 != 0 && io.poll_one() != 0) {
      }
      io.restart();
    } while (worker.run_one() || io.poll_one() != 0);
    io.restart();
    while (io.poll_one() != 0 || worker.run_one()) io.restart();
    for (const Body& body : bodies) CHECK(body.digest == body.expected);
  }
}

TEST_CASE("threads share the streams and none is lost") {
  std::mt19937_64 random(7);
  boost::asio::io_context io;  // outlives the worker, which may still be in post()
  ThreadWorker worker("md5", 3);
  Md5Service service(worker, 3);
  std::vector<Body> bodies = random_bodies(random, 100);
  for (Body& body : bodies) {
    boost::asio::co_spawn(io.get_executor(),
                          hash_in_pieces(service, body.text, body.cuts, body.digest), no_exception);
  }
  io.run();
  for (const Body& body : bodies) CHECK(body.digest == body.expected);
}

TEST_CASE("Each thread keeps to one service, and the threads are spread over all of them") {
  CHECK(Md5Services(1).size() == 1);
  CHECK(Md5Services(8).size() == 1);
  CHECK(Md5Services(9).size() == 2);
  CHECK(Md5Services(0).size() == 1);
  Md5Services services(20);
  REQUIRE(services.size() == 3);
  std::map<Md5Service*, int> threads;
  for (int i = 0; i < 9; ++i) {
    std::jthread([&services, &threads] {
      Md5Service* const mine = &services.of_this_thread();
      CHECK(mine == &services.of_this_thread());
      ++threads[mine];
    }).join();
  }
  REQUIRE(threads.size() == 3);
  for (const auto& [service, count] : threads) CHECK(count == 3);
}

TEST_CASE("small pieces do not go to the worker, and a crowd shares few passes") {
  SteppedWorker worker;
  boost::asio::io_context io;
  Md5Service service(worker, 2);
  Body small{std::string(1000, 'a'), {1000}, {}, {}};
  small.expected = md5(as_bytes(small.text));
  boost::asio::co_spawn(io.get_executor(),
                        hash_in_pieces(service, small.text, small.cuts, small.digest),
                        no_exception);
  io.poll();
  CHECK(worker.size() == 0);
  CHECK(small.digest == small.expected);
  std::mt19937_64 random(9);
  std::vector<Body> bodies(64);
  for (Body& body : bodies) {
    body.text = random_body(random, 40'000);
    body.cuts = {body.text.size()};
    body.expected = md5(as_bytes(body.text));
    boost::asio::co_spawn(io.get_executor(),
                          hash_in_pieces(service, body.text, body.cuts, body.digest), no_exception);
  }
  io.restart();
  io.poll();
  CHECK(worker.size() <= 2);
  while (worker.run_one()) {
  }
  io.restart();
  io.poll();
  for (const Body& body : bodies) CHECK(body.digest == body.expected);
}

// Streams that were given a piece each, which nobody waits for.
struct Crowd {
  Crowd(boost::asio::io_context& io, Md5Service& service, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      streams.push_back(std::make_unique<Md5Stream>(&service));
      texts.push_back(std::string(40'000 + i, static_cast<char>('a' + i)));
    }
    for (std::size_t i = 0; i < count; ++i) add(io, i);
  }
  void add(boost::asio::io_context& io, std::size_t i) {
    const Buffer piece = Buffer::copy_of(as_bytes(texts[i]));
    start(io, streams[i]->add_later(piece));
  }
  bool is_settled(boost::asio::io_context& io, std::size_t i) {
    auto settled = std::make_shared<bool>(false);
    boost::asio::co_spawn(io.get_executor(), streams[i]->settle(),
                          [settled](std::exception_ptr, Result<>) { *settled = true; });
    io.restart();
    io.poll();
    return *settled;
  }
  std::vector<std::unique_ptr<Md5Stream>> streams;
  std::vector<std::string> texts;
};

TEST_CASE("a piece that nobody waits for is left until a set of lanes is full") {
  if (md5_lanes(available_md5_kernel()) < 8) return;
  SteppedWorker worker;
  boost::asio::io_context io;
  Md5Service service(worker, 1);
  Crowd seven(io, service, 7);
  CHECK(worker.size() == 0);
  Crowd eighth(io, service, 1);
  CHECK(worker.size() == 1);
  while (worker.run_one()) {
  }
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(seven.is_settled(io, i));
    CHECK(seven.streams[i]->digest() == md5(as_bytes(seven.texts[i])));
  }
}

TEST_CASE("a stream may be three pieces ahead; with the fourth it waits until one is hashed") {
  if (md5_lanes(available_md5_kernel()) < 8) return;
  SteppedWorker worker;
  boost::asio::io_context io;
  Md5Service service(worker, 1);
  Crowd crowd(io, service, 5);
  for (std::size_t ahead = 1; ahead < Md5Stream::kPiecesLater; ++ahead) {
    crowd.add(io, 3);
    CHECK(worker.size() == 0);
  }
  crowd.add(io, 3);
  CHECK(worker.size() == 1);
  while (worker.run_one()) {
  }
  (void)crowd.is_settled(io, 3);
  while (worker.run_one()) {
  }
  CHECK(crowd.is_settled(io, 3));
  std::string all;
  for (std::size_t i = 0; i <= Md5Stream::kPiecesLater; ++i) all += crowd.texts[3];
  CHECK(crowd.streams[3]->digest() == md5(as_bytes(all)));
}

TEST_CASE("who waits takes the others along") {
  SteppedWorker worker;
  boost::asio::io_context io;
  Md5Service service(worker, 1);
  Crowd crowd(io, service, 5);
  while (worker.run_one()) {  // of one lane: at once
  }
  (void)crowd.is_settled(io, 3);
  while (worker.run_one()) {
  }
  for (std::size_t i = 0; i < 5; ++i) CHECK(crowd.is_settled(io, i));
}

TEST_CASE("a long piece that nobody waits for leaves half hashed with who was waited for") {
  if (md5_lanes(available_md5_kernel()) < 8) return;
  SteppedWorker worker;
  boost::asio::io_context io;
  Md5Service service(worker, 1);
  Crowd crowd(io, service, 3);
  constexpr std::size_t kBytes = 512 << 10;
  BufferPool pool(1 << 20);
  Md5Stream slow(&service);
  {
    Buffer piece = pool.get(kBytes);
    std::fill_n(piece.data(), piece.size(), std::byte{7});
    start(io, slow.add_later(std::move(piece)));
  }
  while (worker.run_one()) {
  }
  (void)crowd.is_settled(io, 1);
  REQUIRE(worker.run_one());
  CHECK(crowd.is_settled(io, 1));
  CHECK(worker.size() == 0);
  CHECK(pool.idle_bytes() == 3 * kBytes);  // the rest of its huge page; its own is in use
  start(io, slow.settle());
  REQUIRE(worker.run_one());
  CHECK(slow.digest() == md5(as_bytes(std::string(kBytes, '\7'))));
}

TEST_CASE("two streams do not wait for each other, nor do those that are left when others end") {
  SteppedWorker worker;
  boost::asio::io_context io;
  Md5Service service(worker, 1);
  Crowd crowd(io, service, 2);
  CHECK(worker.size() == 1);
  while (worker.run_one()) {
  }
  Crowd more(io, service, 2);
  if (md5_lanes(available_md5_kernel()) >= 8) CHECK(worker.size() == 0);
  crowd.streams.clear();
  CHECK(worker.size() == 1);
  while (worker.run_one()) {
  }
  for (std::size_t i = 0; i < 2; ++i) CHECK(more.is_settled(io, i));
}

TEST_CASE("the piece of a stream that ends is forgotten") {
  SteppedWorker worker;
  boost::asio::io_context io;
  Md5Service service(worker, 1);
  Crowd others(io, service, 2);
  while (worker.run_one()) {
  }
  BufferPool pool(1 << 20);
  {
    Md5Stream stream(&service);
    start(io, stream.add_later(pool.get(1 << 18)));
  }
  CHECK(pool.idle_bytes() == 1 << 18);
}

TEST_CASE("the piece of a stream that ends while it is hashed is forgotten") {
  if (md5_lanes(available_md5_kernel()) < 8) return;
  SteppedWorker worker;
  boost::asio::io_context io;
  Md5Service service(worker, 1);
  Crowd others(io, service, 3);
  BufferPool pool(4 << 20);
  auto ends = std::make_unique<Md5Stream>(&service);
  start(io, ends->add_later(pool.get(512 << 10)));
  Md5Stream awaited(&service);
  {  // its piece takes the other stream along when it is hashed
    std::shared_ptr<const void> last(nullptr, [&ends](const void*) { ends.reset(); });
    Buffer piece = pool.get(1 << 16).keeping(std::move(last));
    start(io, awaited.add_later(std::move(piece)));
  }
  start(io, awaited.settle());
  REQUIRE(worker.run_one());
  CHECK(ends == nullptr);
  CHECK(pool.idle_bytes() == (2 << 20) + (1 << 16));
}

}  // namespace
}  // namespace penstock
