#include "server/map_source/map_source.h"

#include <utility>

#include "server/map_source/etcd_source.h"
#include "server/map_source/file_source.h"
#include "server/map_source/map_place.h"

namespace penstock {

Result<std::unique_ptr<MapSource>> open_map_source(std::string_view text, MapSourceParts parts) {
  TRY(place, parse_map_place(text, parts.cluster));
  if (place.file.empty()) {
    std::shared_ptr<EtcdTls> tls;
    if (place.tls) {
      TRY(loaded, EtcdTls::load(place.tls_files));
      tls = std::move(loaded);
    }
    return std::unique_ptr<MapSource>(
        std::make_unique<EtcdSource>(std::move(place), parts, std::move(tls)));
  }
  return std::unique_ptr<MapSource>(std::make_unique<FileSource>(std::move(place.file), parts));
}

}  // namespace penstock
