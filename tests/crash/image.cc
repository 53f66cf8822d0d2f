#include "tests/crash/image.h"

#include <algorithm>

namespace penstock::crash {
namespace {

constexpr std::size_t kLossesSurvived = 2;

const char* word_for(Keep keep) {
  return keep == Keep::none ? "none" : keep == Keep::all ? "all" : "some";
}

std::string list(const std::set<std::size_t>& numbers) {
  std::string text;
  for (const std::size_t number : numbers)
    text += (text.empty() ? "v" : " v") + std::to_string(number);
  return text.empty() ? "none" : text;
}

std::size_t below(sim::SimRandom& random, std::size_t bound) {
  return static_cast<std::size_t>(random.bits() % bound);
}

// Bytes past holes are written, holes are not: a reserved segment stays sparse.
Result<> copy_file(Disk& from, const std::string& name, Disk& to) {
  TRY(source, from.open(name, OpenMode::read));
  TRY(target, to.open(name, OpenMode::write_new));
  TRY(size, source->size());
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  TRY(got, source->read_at(0, bytes));
  bytes.resize(got);
  constexpr std::size_t kStep = 4096;
  const auto is_hole = [&](std::size_t at) {
    const std::size_t end = std::min(bytes.size(), at + kStep);
    return std::all_of(bytes.data() + at, bytes.data() + end,
                       [](std::byte b) { return b == std::byte{0}; });
  };
  CHECK_OK(target->truncate(size));
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t end = at;
    while (end < bytes.size() && !is_hole(end)) end = std::min(bytes.size(), end + kStep);
    if (end > at) CHECK_OK(target->write_at(at, ConstBytes(bytes).subspan(at, end - at)));
    at = std::max(end, at + kStep);
  }
  return {};
}

Result<> copy_directory(Disk& from, const std::string& directory, Disk& to) {
  TRY(names, from.list(directory));
  for (const std::string& name : names) {
    const std::string path = directory.empty() ? name : directory + "/" + name;
    if (from.list(path)) {
      CHECK_OK(to.make_directory(path));
      CHECK_OK(copy_directory(from, path, to));
    } else {
      CHECK_OK(copy_file(from, path, to));
    }
  }
  return {};
}

}  // namespace

Cut draw_cut(sim::SimRandom& random, std::size_t volumes) {
  Cut cut;
  const auto whom = random.between(0, 9);
  if (whom < 5) {
    for (std::size_t i = 0; i < volumes; ++i) cut.hit.insert(i);
  } else if (whom < 8) {
    cut.hit.insert(below(random, volumes));
  } else {
    for (std::size_t i = 0; i < volumes; ++i) {
      if (random.chance(0.5)) cut.hit.insert(i);
    }
  }
  constexpr Keep kKeeps[] = {Keep::none, Keep::all, Keep::some, Keep::some, Keep::some};
  cut.data = kKeeps[below(random, 5)];
  cut.names = kKeeps[below(random, 5)];
  if (random.chance(0.2)) cut.again_at = 1 + below(random, 30);
  std::vector<std::size_t> spared;
  for (std::size_t i = 0; i < volumes; ++i) {
    if (!cut.hit.contains(i)) spared.push_back(i);
  }
  while (cut.left_out.size() < kLossesSurvived) {
    const bool enough = spared.size() > cut.left_out.size();
    cut.left_out.insert(enough ? spared[below(random, spared.size())] : below(random, volumes));
  }
  return cut;
}

std::string to_string(const Cut& cut) {
  std::string text = "power cut of " + list(cut.hit) +
                     ", kept of unsynced data: " + word_for(cut.data) +
                     ", of unsynced names: " + word_for(cut.names);
  if (cut.again_at != 0)
    text += ", again at change " + std::to_string(cut.again_at) + " of the start";
  return text + "; read first without " + list(cut.left_out);
}

void strike(const Cut& cut, sim::SimRandom& random, const Disks& disks) {
  for (std::size_t i = 0; i < disks.size(); ++i) {
    const bool hit = cut.hit.contains(i);
    disks[i]->crash(random, hit ? cut.data : Keep::all, hit ? cut.names : Keep::all);
  }
}

Result<> write_out(Disk& disk, const std::string& path) {
  TRY(target, make_posix_disk(path));
  return copy_directory(disk, "", *target);
}

}  // namespace penstock::crash
