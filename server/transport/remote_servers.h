// The servers that this process calls, by address, and the volumes on them, by id.
//
// An address is a hint, whether a map says it or a server of itself (announcements, which servers
// pass on with their status). A volume is where a server says that it has it: if the one that it
// was found at does not, or not open, and another one does, it moves there. So a server that has
// moved is found as soon as one process that it announced itself to is asked; one with other
// volumes at an old address is never taken for it. Of volumes that were not asked for the places
// are kept, and nobody is called there.
// Thread-safety: any thread.
#pragma once
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "server/transport/remote_volume.h"

namespace penstock {

class RemoteServers {
 public:
  // Ownership: borrows the contexts, each of which is run by one thread, and what `parts` does.
  RemoteServers(std::vector<boost::asio::io_context*> contexts,
                std::shared_ptr<const LinkParts> parts);
  ~RemoteServers();  // stop()

  // The volume, which a map says to be served at this address; found elsewhere if it is there.
  // Begins to connect.
  std::shared_ptr<RemoteVolume> volume(VolumeId id, const std::string& address);
  // Begins to connect to a server of which nothing else is known; it is kept.
  std::shared_ptr<RemoteServer> server(const std::string& address);

  // A map was adopted: only its volumes are called from now on, and only servers that it, a place
  // of one of its volumes or server() names. Calls under way end where they are.
  void keep_only(const std::vector<VolumeId>& volumes);

  // All that were asked for, by address.
  std::vector<std::shared_ptr<RemoteServer>> servers() const;
  // Servers say where volumes are; what is newer than what was known is looked at soon.
  void hear(const std::vector<wire::Place>& places);
  // All that was heard and holds.
  std::vector<wire::Place> places() const;
  std::size_t server_count() const;
  // Of all connections to all servers. It may be kept longer than this object.
  std::shared_ptr<const ConnectionChanges> connection_changes() const;

  // Breaks all connections; calls under way end soon.
  void stop();
  // Until no coroutine of them is left, at most so long. Blocks. Pre: stop() was called; the
  // contexts run.
  void wait_ended(Duration patience) const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace penstock
