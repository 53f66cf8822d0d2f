#include "server/node/server_start.h"

#include <algorithm>
#include <set>
#include <utility>

#include "penstock/log.h"
#include "server/node/first_format.h"
#include "server/node/mounts.h"
#include "server/node/side_by_side.h"
#include "server/node/volume_notes.h"
#include "server/volume/volume_format.h"

namespace penstock {

namespace {

constexpr const char* kWhatToDo =
    ". Mend it and start the server again; a disk that is lost joins as a new volume, when its "
    "directory is empty and the server is started with --format";

// Is a volume there, even if its disk or its files keep it closed? Then the server stays and says
// so, where its other servers and people ask it. A directory that is missing, empty or another
// process's is another matter: the next start, with the disk mounted or the process gone, has it.
bool is_held(const std::shared_ptr<VolumeSlot>& slot) {
  return slot->volume != nullptr ||
         (slot->refused.state == VolumeStatus::State::closed && !slot->in_use);
}

}  // namespace

Result<> ServerStart::format(const std::string& path) {
  TRY(disk, make_volume_directory(path));
  if (is_volume(*disk) && !is_formatting(*disk)) return {};
  const VolumeIdentity identity{parts_.options.cluster, VolumeId{parts_.random.next()}};
  ThreadWorker worker("format", 1);
  const auto made = format_volume(*disk, parts_.clock, parts_.random, worker, identity, "");
  if (!made) return fail(made.error().code, path + ": " + made.error().context);
  log_event(LogLevel::info, "volume_format",
            {{"volume", hex_name(identity.volume.value)}, {"path", path}});
  ++formatted_;
  return {};
}

Result<> ServerStart::format_empty() {
  std::vector<std::string> answering = parts_.options.directories;
  const std::set<std::string>& hung = parts_.opener.hung_paths();
  std::erase_if(answering, [&hung](const std::string& path) { return hung.contains(path); });
  std::vector<std::string> mounted;
  for (const std::string& path : answering) {
    if (auto why = looks_unmounted(path, answering)) {
      unmounted_[path] = *why + " Mount it, or give a directory on a disk of its own";
    } else {
      mounted.push_back(path);
    }
  }
  const auto format_one = [this, &mounted](std::size_t i) { return format(mounted[i]); };
  return run_side_by_side(mounted.size(), kFormatsAtOnce, format_one);
}

Result<std::shared_ptr<VolumeSlot>> ServerStart::open(const std::string& path) {
  FoundVolume found = parts_.opener.open(path);
  auto slot = std::make_shared<VolumeSlot>();
  slot->path = path;
  slot->hung = found.hung;
  slot->entry.name = path;
  if (found.volume == nullptr) {
    const Errc code = found.error.code;
    if (code == Errc::invalid || code == Errc::overloaded) {
      return fail(code, path + ": " + found.error.context);
    }
    const bool missing = code == Errc::not_found;
    slot->in_use = code == Errc::busy;
    const auto unmounted = unmounted_.find(path);
    const std::string& why =
        unmounted == unmounted_.end() ? found.error.context : unmounted->second;
    slot->refused = refusal(missing ? VolumeStatus::State::missing : VolumeStatus::State::closed,
                            why + (missing || slot->in_use ? "" : kWhatToDo));
    tell_lost(path, slot->refused);
    return slot;
  }
  slot->volume = std::move(found.volume);
  slot->entry.id = slot->volume->id();
  return slot;
}

Result<> ServerStart::open_all(VolumeSlots& slots) {
  for (const std::string& path : parts_.options.directories) {
    TRY(slot, open(path));
    slots.push_back(slot);
    if (slot->volume && slot->volume->cluster() != parts_.options.cluster) {
      return fail(Errc::invalid, path + " belongs to another cluster than the key");
    }
  }
  return {};
}

Result<> ServerStart::run() {
  parts_.opener.find_hung(parts_.options.directories);
  if (parts_.options.format) CHECK_OK(format_empty());
  VolumeSlots slots;
  if (const auto opened = open_all(slots); !opened) {
    std::vector<std::shared_ptr<Volume>> unplaced;
    for (const auto& slot : slots) {
      if (slot->volume) unplaced.push_back(slot->volume);
    }
    parts_.volumes.keep_to_close(std::move(unplaced));
    return opened;
  }
  parts_.volumes.place(nullptr, slots);
  const bool any = std::any_of(slots.begin(), slots.end(), is_held);
  if (!any) {
    std::string why = "no volume is there";
    for (const auto& slot : slots) why += "; " + slot->path + ": " + slot->refused.reason;
    return fail(Errc::not_found, why + ". New volumes are made of empty directories, by --format");
  }
  parts_.volumes.begin_stall_watch();
  return {};
}

}  // namespace penstock
