// TCP between processes: a stream of bytes over a socket, how one is dialled, and what is set on
// every socket: no delay, a congestion control that does not pace, and an end when the peer's host
// is silent for limits::kPeerKeepAlive.
// Thread-safety: none; one executor.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "penstock/runtime.h"
#include "server/transport/byte_stream.h"

namespace penstock {

class TcpStream final : public ByteStream {
 public:
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Executor>;
  explicit TcpStream(Socket socket);

  Task<std::size_t> receive(MutBytes buffer) override;
  Task<> send(std::span<const ConstBytes> parts) override;
  Task<FileSent> send_file(FileRange range) override;
  void close() override;
  SendProgress progress() const override;

 private:
  Task<> wait(Socket::wait_type what);
  mutable Socket socket_;  // asking it changes nothing
  std::uint64_t sent_ = 0;
  mutable std::uint64_t taken_ = 0;  // as it was asked last
};

// "HOST:PORT" with a literal IPv4 address, an IPv6 one in brackets, or a name. Resolving a name
// blocks the thread: addresses of a map are literal. Errors: invalid.
struct PeerAddress {
  std::string host;
  std::uint16_t port = 0;
};
Result<PeerAddress> parse_peer_address(std::string_view text);
// Of a literal address: is it this machine's loopback?
bool is_loopback(std::string_view host);

// Is the other end of the connection its own? A dial to a port that nobody listens at succeeds if
// the kernel gives the socket that very port.
bool meets_itself(const TcpStream::Socket& socket);

// Connects within limits::kConnectTime, on the executor of the caller. Errors: invalid - not an
// address; unavailable - nobody listens there, or not in time.
Task<std::unique_ptr<ByteStream>> dial_tcp(std::string address, Clock& clock);

// On a listening socket, whose accepted ones have them, too, and on one that connects.
void set_peer_options(int fd);

}  // namespace penstock
