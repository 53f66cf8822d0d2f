// Which congestion control our sockets use. Thread-safety: any thread.
#pragma once

namespace penstock {

// A pacing one (bbr) more than halves what a loopback or a LAN gives. Sockets that a listening one
// accepts inherit it.
void choose_congestion_control(int fd);

}  // namespace penstock
