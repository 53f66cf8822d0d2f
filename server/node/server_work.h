// What a process does with its volumes of itself, beside what it is asked for: background work, the
// replacement of volumes, and the control socket by which people ask for one.
//
//   ServerWork(parts) → begin() → listen() … stop_listening() → finish()
//
// It belongs to who owns the volumes: their hints, fragments and uploads are looked after, whoever
// wrote them. It works through an ObjectStack, its own or that of the gateway in the same process.
// Order of destruction: after stop_listening() and finish(), or after the I/O threads were stopped;
// before what it borrows.
// Thread-safety: the calls from one thread, which is none of the I/O threads; ring() from any.
#pragma once
#include <string>
#include <vector>

#include "penstock/metrics.h"
#include "server/background/background.h"
#include "server/background/replacement/volume_replacement.h"
#include "server/node/control_socket.h"
#include "server/node/ring_control.h"
#include "server/objects/object_stack.h"

namespace penstock {

// Ownership: borrows all but the options.
struct ServerWorkParts {
  VolumeSet& volumes;
  NewVolume& new_volume;
  ObjectStack& objects;
  IoThreads& io;
  RemovalOptions background;
};

class ServerWork {
 public:
  // Begins nothing.
  explicit ServerWork(ServerWorkParts parts);

  // Of the ring and of background work.
  void add_collectors(Metrics& metrics) const;
  const RingControl& ring() const { return ring_; }

  // Background work, and whatever replacement the map says is under way.
  void begin();
  // The control socket, in these directories. Errors: io - none of them takes one.
  Result<> listen(const std::vector<std::string>& directories);
  // After the answer that is under way, which may need the I/O threads. Again: nothing.
  void stop_listening();
  // Ends what begin() began, after the steps under way. Blocks. Pre: the I/O threads run.
  void finish();

 private:
  Awaitable<void> end();

  IoThreads& io_;
  // Each uses those above it.
  BackgroundWork background_;
  VolumeReplacement replacement_;
  RingControl ring_;
  ControlSocket socket_;
};

}  // namespace penstock
