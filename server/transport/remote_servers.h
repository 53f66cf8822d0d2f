// The servers that this process calls, by address, and the volumes on them, by id.
// Thread-safety: any thread.
#pragma once
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <mutex>
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

  // The volume, served at this address as far as is known; one that was known moves there. Begins
  // to connect.
  std::shared_ptr<RemoteVolume> volume(VolumeId id, const std::string& address);
  // Begins to connect to a server of which nothing else is known.
  std::shared_ptr<RemoteServer> server(const std::string& address);

  // Breaks all connections; calls under way end soon.
  void stop();

 private:
  std::shared_ptr<RemoteServer> find_server(const std::string& address);

  const std::vector<boost::asio::io_context*> contexts_;
  const std::shared_ptr<const LinkParts> parts_;
  std::mutex mutex_;  // guards the next two
  std::map<std::string, std::shared_ptr<RemoteServer>> servers_;
  std::map<VolumeId, std::shared_ptr<RemoteVolume>> volumes_;
};

}  // namespace penstock
