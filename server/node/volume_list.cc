#include "server/node/volume_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "penstock/buffer.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr const char* kListFile = "volumes";
constexpr const char* kNewListFile = "volumes.tmp";

}  // namespace

Result<std::vector<std::string>> read_volume_list(Disk& above) {
  std::vector<std::string> paths;
  if (!above.exists(kListFile)) return paths;
  TRY(file, above.open(kListFile, OpenMode::read));
  TRY(size, file->size());
  std::string text(size, '\0');
  TRY(got, file->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(got);
  const Json json = Json::parse(text, nullptr, false);
  const bool good = json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& path) {
                      return path.is_string();
                    });
  if (!good) return fail(Errc::corrupt, above.path(kListFile) + " is not a list of paths");
  for (const Json& path : json) paths.push_back(path.get<std::string>());
  return paths;
}

Result<> add_to_volume_list(Disk& above, const std::vector<std::string>& paths) {
  TRY(list, read_volume_list(above));
  const std::size_t before = list.size();
  for (const std::string& path : paths) {
    if (std::find(list.begin(), list.end(), path) == list.end()) list.push_back(path);
  }
  if (list.size() == before) return {};
  const std::string text = Json(list).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  {
    TRY(file, above.open(kNewListFile, OpenMode::write_new));
    CHECK_OK(file->write_at(0, as_bytes(text)));
    CHECK_OK(file->sync());
  }
  CHECK_OK(above.rename(kNewListFile, kListFile));
  return above.sync_directory("");
}

}  // namespace penstock
