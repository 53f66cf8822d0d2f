// Where volumes are served, as their servers have said themselves. A hint: who is met there says
// which volumes it has. In memory only.
// Thread-safety: none.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/transport/wire.h"

namespace penstock {

class Places {
 public:
  // Keeps a place if it is newer than the one that is known of its volume (wire::Place). False: it
  // is not, makes no sense, or limits::kPlacesMax volumes are known already.
  bool take(const wire::Place& place);
  std::optional<wire::Place> find(VolumeId volume) const;
  std::vector<wire::Place> all() const;
  // Does any of them name this address?
  bool names(const std::string& address) const;

 private:
  std::map<VolumeId, wire::Place> places_;
};

}  // namespace penstock
