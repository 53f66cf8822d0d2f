// Files that were sound when they were checked, and cannot be read when they are sent.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>

#include "penstock/log.h"
#include "server/transport/tcp_stream.h"
#include "tests/fake/code_of.h"
#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

// A descriptor of a file of so many bytes; or of a directory, which gives none but an error.
class SomeFile {
 public:
  explicit SomeFile(std::size_t bytes) {
    char name[] = "/tmp/penstock-file-XXXXXX";
    fd_ = ::mkstemp(name);
    REQUIRE(fd_ >= 0);
    ::unlink(name);
    const std::string text(bytes, 'f');
    REQUIRE(::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(bytes));
  }
  SomeFile() : fd_(::open("/tmp", O_RDONLY | O_DIRECTORY)) { REQUIRE(fd_ >= 0); }
  ~SomeFile() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

constexpr std::size_t kPiece = 100'000;

OutFrame file_frame(int fd, std::vector<Error>& told) {
  wire::Header header;
  header.operation = wire::Operation::read_fragment;
  header.reply = true;
  header.block_checksums = true;
  Piece piece;
  piece.fd = fd;
  piece.length = kPiece;
  OutFrame frame = make_frame(header, "fields", piece);
  frame.file_failed = [&told](const Error& why) { told.push_back(why); };
  return frame;
}

Awaitable<void> send_all(FrameSender& sender) { (void)co_await sender.run(); }

struct Received {
  std::string payload;
  wire::Operation behind = wire::Operation::hello;
};
Awaitable<void> receive_two(FrameReader& reader, std::optional<Received>& received) {
  const FrameBounds bounds;
  Received both;
  const auto head = co_await reader.read_head(bounds);
  const auto payload = co_await reader.read_payload();
  if (!head || !payload) co_return;
  both.payload = as_text(payload->bytes());
  const auto next = co_await reader.read_head(bounds);
  if (next && *next) both.behind = (*next)->header.operation;
  received = both;
}

// Over these two ends, a file of which `there` bytes can be read and then a ping.
void check_stand_ins(boost::asio::io_context& io, ByteStream& from, ByteStream& to,
                     const SomeFile& file, std::size_t there) {
  BufferPool buffers(1 << 20);
  FrameSender sender(from);
  FrameReader reader(to, buffers);
  std::vector<Error> told;
  sender.push(file_frame(file.fd(), told));
  wire::Header ping;
  ping.operation = wire::Operation::ping;
  sender.push(make_frame(ping, ""));
  std::optional<Received> received;
  boost::asio::co_spawn(io, send_all(sender), boost::asio::detached);
  boost::asio::co_spawn(io, receive_two(reader, received), boost::asio::detached);
  while (!received && io.run_one_for(std::chrono::seconds(10)) > 0) continue;
  REQUIRE(received);
  CHECK(received->payload == std::string(there, 'f') + std::string(kPiece - there, '\0'));
  CHECK(received->behind == wire::Operation::ping);
  REQUIRE(told.size() == 1);
  CHECK(told.front().code == Errc::io);
  CHECK(sender.waiting_bytes() == 0);
  sender.close();
  io.run_for(std::chrono::milliseconds(10));
}

void check_over_tcp(const SomeFile& file, std::size_t there) {
  namespace asio = boost::asio;
  asio::io_context io;
  using Tcp = asio::ip::tcp;
  asio::basic_socket_acceptor<Tcp, Executor> acceptor(
      io.get_executor(), Tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  TcpStream::Socket one(io.get_executor());
  TcpStream::Socket other(io.get_executor());
  one.connect(acceptor.local_endpoint());
  acceptor.accept(other);
  TcpStream from(std::move(one));
  TcpStream to(std::move(other));
  check_stand_ins(io, from, to, file, there);
}

void check_in_memory(const SomeFile& file, std::size_t there) {
  boost::asio::io_context io;
  const FakeWire wire;
  const auto from = wire.server_end();
  const auto to = wire.client_end();
  check_stand_ins(io, *from, *to, file, there);
}

TEST_CASE("other bytes stand in for those that a file does not give, and the next frame is whole") {
  SUBCASE("a file that ends too early") {
    const SomeFile file(70'000);
    check_over_tcp(file, 70'000);
    check_in_memory(file, 70'000);
  }
  SUBCASE("a file that gives an error") {
    const SomeFile file;
    check_over_tcp(file, 0);
    check_in_memory(file, 0);
  }
}

std::string& log_lines() {
  static std::string lines;
  return lines;
}

constexpr std::size_t kBytes = 200'000;

Task<> write_fragment(RemoteVolume& volume, Deadline deadline) {
  const FragmentId id{};
  const Buffer data = Buffer::copy_of(as_bytes(std::string(kBytes, 'a')));
  std::vector<std::uint32_t> crcs;
  for (std::size_t at = 0; at < data.size(); at += limits::kBlockBytes) {
    const auto block = data.bytes().subspan(at, std::min(limits::kBlockBytes, data.size() - at));
    crcs.push_back(fragment_block_crc(id.write_id, id.slot, crcs.size(), block));
  }
  FragmentShape shape;
  shape.data_bytes = kBytes;
  CO_TRY(writer, co_await volume.write_fragment(id, shape, deadline));
  CO_CHECK(co_await writer->append(data, std::move(crcs), deadline));
  co_return co_await writer->commit(deadline);
}

TEST_CASE("a disk that does not give what is being sent fails that read alone, as its error") {
  TransportWorld world;
  world.connect();
  REQUIRE(world.run(write_fragment(*world.remote, world.soon())));
  FragmentReadRequest request;
  request.length = kBytes;
  REQUIRE(world.run(world.remote->read_fragment(request, world.soon())));
  const std::size_t wires = world.wires.size();
  const SomeFile directory;
  world.volume->fragments.faults.piece_file = directory.fd();
  log_lines().clear();
  set_log_sink([](LogLevel, std::string_view line) { log_lines() += line; });
  for (int i = 0; i < 3; ++i) {
    CHECK(code_of(world.run(world.remote->read_fragment(request, world.soon()))) == Errc::io);
  }
  set_log_sink(nullptr);
  CHECK(log_lines().find("call_failed") != std::string::npos);
  CHECK(log_lines().find("code=io") != std::string::npos);
  CHECK(log_lines().find("sending a file") != std::string::npos);
  CHECK(log_lines().find("block_changed_on_its_way") == std::string::npos);
  world.volume->fragments.faults.piece_file = -1;
  CHECK(world.run(world.remote->read_fragment(request, world.soon())));
  CHECK(world.wires.size() == wires);  // no connection was made again
  std::uint64_t errors = 0;
  for (const auto& connection : world.served) {
    CHECK(connection->calls_under_way() == 0);
    const auto counts = connection->counters().of(PeerRole::gateway).counts();
    errors += counts.errors[static_cast<std::size_t>(Errc::io)];
  }
  CHECK(errors == 3);
}

}  // namespace
}  // namespace penstock
