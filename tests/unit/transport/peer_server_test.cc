#include "server/transport/peer_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <thread>

#include "penstock/wait_on.h"
#include "server/transport/remote_volume.h"
#include "server/transport/tcp_stream.h"
#include "tests/fake/code_of.h"
#include "tests/fake/volume_without_upkeep.h"
#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

// Bytes that can be read at their place, in memory and from a file.
class FileInMemory {
 public:
  static constexpr std::size_t kBytes = 4 * limits::kMiB;
  static char byte_at(std::uint64_t at) { return static_cast<char>('a' + at % 25); }
  FileInMemory() : bytes_(kBytes, 'a'), fd_(::memfd_create("content", MFD_CLOEXEC)) {
    for (std::size_t at = 0; at < kBytes; ++at) bytes_[at] = byte_at(at);
    REQUIRE(::write(fd_, bytes_.data(), kBytes) == static_cast<ssize_t>(kBytes));
  }
  FileInMemory(const FileInMemory&) = delete;
  FileInMemory& operator=(const FileInMemory&) = delete;
  ~FileInMemory() { ::close(fd_); }
  ConstBytes bytes() const { return as_bytes(bytes_); }
  int descriptor() const { return fd_; }

 private:
  std::string bytes_;
  const int fd_;
};

// One whose reads of fragments come from any thread at once.
class ManyThreadsVolume final : public VolumeWithoutUpkeep {
 public:
  VolumeId id() const override { return VolumeId{3}; }
  VolumeStatus status() const override {
    VolumeStatus status;
    status.state = VolumeStatus::State::open;
    return status;
  }
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest>, Deadline) override {
    co_return PrepareReply{};
  }
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest>, Deadline) override {
    co_return AcceptReply{};
  }
  Task<Accepted> read(std::shared_ptr<const ReadRequest>, Deadline) override {
    co_return Accepted{};
  }
  std::optional<Result<Accepted>> read_now(const ReadRequest&) override { return std::nullopt; }
  bool holds_now(const ReadRequest&, const Ballot&) override { return false; }
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest>, Deadline) override {
    co_return ScanReply{};
  }
  Task<> drop(std::shared_ptr<const DropRequest>, Deadline) override { co_return Result<>{}; }
  Task<std::unique_ptr<FragmentWriter>> write_fragment(FragmentId, FragmentShape,
                                                       Deadline) override {
    co_return fail(Errc::full, "takes nothing");
  }
  Task<Piece> read_fragment(FragmentReadRequest request, Deadline) override {
    if (!request.with_checksums || !request.file_allowed) {
      co_return fail(Errc::invalid, "a server asks for blocks, in a file if need be");
    }
    Piece piece;
    const std::uint64_t from = request.offset - request.offset % limits::kBlockBytes;
    piece.length = request.offset + request.length - from;
    const auto bytes = content_.bytes().subspan(from, piece.length);
    if (piece.length % 2 == 0) {
      piece.fd = content_.descriptor();
      piece.file_offset = from;
    } else {
      piece.memory = Buffer::copy_of(bytes);
    }
    for (std::size_t at = 0; at < piece.length; at += limits::kBlockBytes) {
      const auto block = bytes.subspan(at, std::min(limits::kBlockBytes, bytes.size() - at));
      piece.block_crcs.push_back(fragment_block_crc(request.id.write_id, request.id.slot,
                                                    (from + at) / limits::kBlockBytes, block));
    }
    co_return piece;
  }
  std::optional<Result<Piece>> read_fragment_now(const FragmentReadRequest&) override {
    return std::nullopt;
  }
  Task<std::vector<FragmentId>> pin(std::vector<FragmentId>, Deadline) override {
    co_return std::vector<FragmentId>{};
  }
  Task<> remove_fragment(FragmentId, Deadline) override { co_return Result<>{}; }
  Task<> probe(Deadline) override { co_return Result<>{}; }

 private:
  const FileInMemory content_;
};

// Two I/O threads, as a process has them.
class Threads {
 public:
  Threads() {
    for (auto& context : contexts_) {
      guards_.push_back(boost::asio::make_work_guard(context));
      threads_.emplace_back([&context] { context.run(); });
    }
  }
  ~Threads() { join(); }
  void join() {
    for (auto& context : contexts_) context.stop();
    for (auto& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  std::vector<boost::asio::io_context*> all() { return {&contexts_[0], &contexts_[1]}; }
  boost::asio::io_context& at(std::size_t index) { return contexts_[index]; }

 private:
  std::array<boost::asio::io_context, 2> contexts_;
  std::vector<boost::asio::executor_work_guard<Executor>> guards_;
  std::vector<std::thread> threads_;
};

struct TcpWorld {
  explicit TcpWorld(std::string_view server_key = "key", std::string_view client_key = "key") {
    service = std::make_shared<ServiceParts>(ServiceParts{
        clock, random, buffers, make_terms(PeerRole::server, server_key), {}, {}, {}, {}});
    service->volumes = [this] { return std::vector<std::shared_ptr<VolumeClient>>{volume}; };
    service->find = [this](VolumeId) { return volume; };
    service->describe = [] { return std::string("{\"zone\":\"z\"}"); };
    server = std::make_unique<PeerServer>(server_threads.all(), service);
    REQUIRE(server->listen("127.0.0.1", 0));
    links = std::make_shared<LinkParts>(
        LinkParts{clock, random, buffers, {}, make_terms(PeerRole::gateway, client_key), {}, {}});
    links->stamp = [] {
      MapStamp stamp;
      stamp.epoch = Epoch{5};
      return stamp;
    };
    links->dial = [this](std::string address) { return dial_tcp(std::move(address), clock); };
    const std::string address = "127.0.0.1:" + std::to_string(server->port());
    remote_server = std::make_shared<RemoteServer>(client_threads.all(), links, address);
    remote = std::make_unique<RemoteVolume>(volume->id(), remote_server, clock);
    remote_server->start();
  }
  ~TcpWorld() {
    // A context that ends before the links have would keep them for ever: each waits for itself.
    std::vector<std::weak_ptr<ServerLink>> links_left;
    for (auto* context : client_threads.all()) {
      links_left.push_back(remote_server->link(context->get_executor()).weak_from_this());
    }
    remote_server->stop();
    remote.reset();
    remote_server.reset();
    CHECK(eventually([&links_left] {
      return std::all_of(links_left.begin(), links_left.end(),
                         [](const auto& link) { return link.expired(); });
    }));
    wait_on(server_threads.at(0), server->stop(std::chrono::seconds(5)), "stop");
    client_threads.join();
    server_threads.join();
  }
  // Polls: connections are made on other threads.
  // On the thread of this context, which owns what `done` looks at.
  template <class Done>
  bool eventually(Done done, std::size_t context = 0) {
    const BootTime until = clock.boot() + Duration(std::chrono::seconds(20));
    auto look = [](Clock& c, Done is_done, BootTime end) -> Task<bool> {
      while (!is_done() && c.boot() < end) {
        co_await c.sleep_until(c.boot() + Duration(std::chrono::milliseconds(5)));
      }
      co_return is_done();
    };
    return wait_on(client_threads.at(context), look(clock, done, until), "look").value();
  }
  bool is_open() const { return remote->status().state == VolumeStatus::State::open; }
  Deadline soon() const { return clock.boot() + Duration(std::chrono::seconds(20)); }

  RealClock clock;
  SystemRandom random;
  BufferPool buffers{1 << 20};
  std::shared_ptr<VolumeClient> volume = std::make_shared<ManyThreadsVolume>();
  std::shared_ptr<ServiceParts> service;
  std::shared_ptr<LinkParts> links;
  Threads server_threads;
  Threads client_threads;
  std::unique_ptr<PeerServer> server;
  std::shared_ptr<RemoteServer> remote_server;
  std::unique_ptr<RemoteVolume> remote;
};

FragmentReadRequest a_read(std::uint64_t offset, std::uint64_t length) {
  FragmentReadRequest request;
  request.id = FragmentId{WriteId{1, 2}, 0, Generation{1}};
  request.offset = offset;
  request.length = length;
  return request;
}

Task<std::uint64_t> read_many(RemoteVolume& volume, Clock& clock, std::uint64_t count) {
  std::uint64_t good = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t offset = i * 7'919;
    const std::uint64_t length = 1 + (i * 104'729) % limits::kPieceBytes;
    const Deadline until = clock.boot() + Duration(std::chrono::seconds(20));
    CO_TRY(piece, co_await volume.read_fragment(a_read(offset, length), until));
    const std::string_view text = as_text(piece.bytes());
    const bool ends = text.size() == length && text.front() == FileInMemory::byte_at(offset) &&
                      text.back() == FileInMemory::byte_at(offset + length - 1);
    if (ends) ++good;
  }
  co_return good;
}

TEST_CASE("calls from several threads over TCP, small ones and large ones") {
  TcpWorld world;
  REQUIRE(world.eventually([&] { return world.is_open(); }));
  std::array<Result<std::uint64_t>, 2> good{std::uint64_t{0}, std::uint64_t{0}};
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < good.size(); ++i) {
    const auto connected = [&world, i] {
      const auto here = world.client_threads.at(i).get_executor();
      return world.remote_server->link(here).for_bytes() != nullptr;
    };
    REQUIRE(world.eventually(connected, i));
    callers.emplace_back([&world, &good, i] {
      good[i] =
          wait_on(world.client_threads.at(i), read_many(*world.remote, world.clock, 100), "reads");
    });
  }
  for (auto& caller : callers) caller.join();
  for (const auto& count : good) {
    REQUIRE(count);
    CHECK(*count == 100);
  }
  // The last one may still be on its way.
  constexpr std::size_t kAll = 2 * (1 + limits::kByteConnections);
  CHECK(world.eventually([&] { return world.server->connection_count() == kAll; }));
}

TEST_CASE("a process without the key gets nowhere, and the reason can be read") {
  TcpWorld world("key", "other");
  REQUIRE(world.eventually(
      [&] { return world.remote->status().reason.find("cluster key") != std::string::npos; }));
  CHECK_FALSE(world.is_open());
}

// A socket of a peer that keeps to no rule.
int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const timeval patience{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

TEST_CASE("a peer that greets wrongly, or not at all, is cut off, and others are served") {
  TcpWorld world;
  REQUIRE(world.eventually([&] { return world.is_open(); }));
  const std::size_t usual = 2 * (1 + limits::kByteConnections);
  REQUIRE(world.eventually([&] { return world.server->connection_count() == usual; }));
  const int silent = connect_to(world.server->port());
  const int garbage = connect_to(world.server->port());
  const std::string bytes(100'000, 'x');
  CHECK(::send(garbage, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
  char byte = 0;
  CHECK(::recv(garbage, &byte, 1, 0) <= 0);
  CHECK(::recv(silent, &byte, 1, 0) == 0);  // after the time of a hello
  ::close(silent);
  ::close(garbage);
  REQUIRE(world.eventually([&] { return world.server->connection_count() == usual; }));
  CHECK(world.is_open());
}

TEST_CASE("without a cluster key only this machine is listened to") {
  RealClock clock;
  SystemRandom random;
  BufferPool buffers{1 << 20};
  Threads threads;
  auto service = std::make_shared<ServiceParts>(
      ServiceParts{clock, random, buffers, make_terms(PeerRole::server), {}, {}, {}, {}});
  PeerServer server(threads.all(), service);
  const auto listened = server.listen("0.0.0.0", 0);
  CHECK(code_of(listened) == Errc::invalid);
  CHECK(code_of(server.listen("nowhere", 0)) == Errc::invalid);
  threads.join();
}

TEST_CASE("nobody listens: unavailable, soon") {
  Threads threads;
  RealClock clock;
  const auto dialled = wait_on(threads.at(0), dial_tcp("127.0.0.1:1", clock), "dial");
  CHECK(code_of(dialled) == Errc::unavailable);
  CHECK(code_of(wait_on(threads.at(0), dial_tcp("nowhere", clock), "dial")) == Errc::invalid);
}

TEST_CASE("addresses of servers") {
  CHECK(parse_peer_address("127.0.0.1:9200")->port == 9200);
  CHECK(parse_peer_address("[::1]:9200")->host == "::1");
  CHECK(parse_peer_address("localhost:1")->host == "127.0.0.1");
  for (const char* wrong : {"", ":", "a", "a:", ":1", "a:b", "a:99999", "::1:80", "a:-1", "a:1x"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_peer_address(wrong));
  }
  CHECK(is_loopback("127.0.0.9"));
  CHECK(is_loopback("::1"));
  CHECK_FALSE(is_loopback("10.0.0.1"));
  CHECK_FALSE(is_loopback("name"));
}

TEST_CASE("a server that is asked says what it says of itself") {
  TcpWorld world;
  REQUIRE(world.eventually([&] { return world.is_open(); }));
  const auto told =
      wait_on(world.client_threads.at(0), world.remote_server->describe(world.soon()), "describe");
  REQUIRE(told);
  CHECK(*told == "{\"zone\":\"z\"}");
}

TEST_CASE("a server knows who is connected, and at which map") {
  TcpWorld world;
  constexpr std::size_t kAll = 2 * (1 + limits::kByteConnections);
  const auto whole = [&] {
    const auto peers = world.server->peers();
    return peers.size() == 1 && peers[0].connections == kAll && peers[0].map_epoch == Epoch{5};
  };
  REQUIRE(world.eventually(whole));
  const auto peer = world.server->peers().front();
  CHECK(peer.role == PeerRole::gateway);
  CHECK(peer.name == "g1");
  CHECK(peer.address == "127.0.0.1");
  CHECK(peer.connected_for > Duration{});
  world.remote_server->stop();
  CHECK(world.eventually([&] { return world.server->peers().empty(); }));
}

TEST_CASE("a socket that is connected to itself is told from one that met somebody") {
  boost::asio::io_context io;
  TcpStream::Socket socket(io.get_executor());
  const boost::asio::ip::tcp::endpoint any(boost::asio::ip::make_address("127.0.0.1"), 0);
  socket.open(any.protocol());
  socket.bind(any);
  socket.connect(socket.local_endpoint());
  CHECK(meets_itself(socket));

  boost::asio::ip::tcp::acceptor acceptor(io, any);
  TcpStream::Socket other(io.get_executor());
  other.connect(acceptor.local_endpoint());
  CHECK_FALSE(meets_itself(other));
}

TEST_CASE("a server takes no more connections than it was given descriptors for") {
  TcpWorld world;
  Threads threads;
  PeerServer few(threads.all(), world.service, 1);
  REQUIRE(few.listen("127.0.0.1", 0));
  boost::asio::io_context io;
  std::vector<TcpStream::Socket> sockets;
  const boost::asio::ip::tcp::endpoint there(boost::asio::ip::make_address("127.0.0.1"),
                                             few.port());
  for (int i = 0; i < 3; ++i) {
    sockets.emplace_back(io.get_executor());
    sockets.back().connect(there);
  }
  // Nobody has said who he is: the last one stays, the others read an end.
  for (int i = 0; i < 2; ++i) {
    char byte = 0;
    boost::system::error_code error;
    (void)sockets[static_cast<std::size_t>(i)].read_some(boost::asio::buffer(&byte, 1), error);
    CHECK(error);
  }
  CHECK(world.eventually([&] { return few.connection_count() == 1; }));
  threads.join();
}

TEST_CASE("strangers keep no peer out, and take a quarter of the places") {
  TcpWorld world;
  constexpr std::size_t kUsual = 2 * (1 + limits::kByteConnections);
  REQUIRE(world.eventually([&] { return world.server->connection_count() == kUsual; }));
  Threads threads;
  PeerServer few(threads.all(), world.service, 2 * kUsual);
  REQUIRE(few.listen("127.0.0.1", 0));
  std::vector<int> strangers;
  const auto flood = [&] {
    for (std::size_t i = 0; i < 4 * kUsual; ++i) strangers.push_back(connect_to(few.port()));
  };
  flood();
  CHECK(world.eventually([&] { return few.connection_count() <= kUsual / 2; }));
  auto peer = std::make_shared<RemoteServer>(world.client_threads.all(), world.links,
                                             "127.0.0.1:" + std::to_string(few.port()));
  peer->start();
  CHECK(world.eventually([&] { return peer->volumes().has_value(); }));
  CHECK(world.eventually([&] { return few.connection_count() >= kUsual; }));
  flood();
  CHECK(peer->volumes().has_value());
  peer->stop();
  for (const int fd : strangers) ::close(fd);
  CHECK(world.eventually([&] { return few.connection_count() == 0; }));
  threads.join();
}

// Throws once when it is told to.
class ThrowingClock final : public Clock {
 public:
  WallTime wall() const override { return real_.wall(); }
  BootTime boot() const override {
    if (throws.exchange(false)) throw std::bad_alloc();
    return real_.boot();
  }
  Awaitable<void> sleep_until(BootTime when) override { return real_.sleep_until(when); }
  mutable std::atomic<bool> throws{false};

 private:
  RealClock real_;
};

TEST_CASE("an exception while a connection is accepted ends that one alone") {
  ThrowingClock clock;
  SystemRandom random;
  BufferPool buffers{1 << 20};
  Threads threads;
  auto service = std::make_shared<ServiceParts>(
      ServiceParts{clock, random, buffers, make_terms(PeerRole::server), {}, {}, {}, {}});
  service->volumes = [] { return std::vector<std::shared_ptr<VolumeClient>>{}; };
  PeerServer server(threads.all(), service, 1);
  REQUIRE(server.listen("127.0.0.1", 0));
  const int first = connect_to(server.port());
  while (server.connection_count() == 0) std::this_thread::yield();
  clock.throws = true;  // there is no room, which is to be logged
  const int second = connect_to(server.port());
  char byte = 0;
  CHECK(::recv(second, &byte, 1, 0) == 0);
  CHECK_FALSE(clock.throws);
  const int third = connect_to(server.port());
  CHECK(::recv(third, &byte, 1, 0) == 0);  // it was accepted, and does not greet
  for (const int fd : {first, second, third}) ::close(fd);
  wait_on(threads.at(0), server.stop(std::chrono::seconds(5)), "stop");
  threads.join();
}

}  // namespace
}  // namespace penstock
