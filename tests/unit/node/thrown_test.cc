#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <filesystem>
#include <future>
#include <stdexcept>

#include "server/node/control_socket.h"
#include "server/node/io_threads.h"
#include "server/node/volume_notes.h"

namespace penstock {
namespace {

TEST_CASE("What a handler throws does not end its I/O thread") {
  IoThreads io(1);
  boost::asio::post(io.at(0), [] { throw std::runtime_error("planted"); });
  std::promise<int> promise;
  boost::asio::post(io.at(0), [&promise] { promise.set_value(7); });
  CHECK(promise.get_future().get() == 7);
}

std::string ask_socket(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::send(fd, "{}\n", 3, MSG_NOSIGNAL) == 3);
  std::string answer;
  char bytes[64];
  for (ssize_t got = 1; got > 0;) {
    got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got > 0) answer.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(fd);
  return answer;
}

TEST_CASE("A question whose answer throws ends its connection, and others are answered") {
  std::string directory = (std::filesystem::temp_directory_path() / "control-XXXXXX").string();
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  {
    int asked = 0;
    ControlSocket control([&asked](const std::string&) -> std::string {
      if (++asked == 1) throw std::filesystem::filesystem_error("planted", std::error_code());
      return "fine";
    });
    REQUIRE(control.start({directory}));
    CHECK(ask_socket(directory + "/control.sock").empty());
    CHECK(ask_socket(directory + "/control.sock") == "fine\n");
  }
  std::filesystem::remove_all(directory);
}

TEST_CASE("A note that is no number is none, and throws nothing") {
  CHECK(noted_starts("18446744073709551615") == 18446744073709551615u);
  CHECK(noted_starts("0") == 0u);
  for (const std::string_view text : {"", "x", "-1", " 1", "1 ", "18446744073709551616"}) {
    CHECK_FALSE(noted_starts(text));
  }
}

}  // namespace
}  // namespace penstock
