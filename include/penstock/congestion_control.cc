#include "penstock/congestion_control.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string_view>

namespace penstock {

void choose_congestion_control(int fd) {
  for (const std::string_view name : {"cubic", "reno"}) {
    const auto length = static_cast<socklen_t>(name.size());
    if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), length) == 0) return;
  }
}

}  // namespace penstock
