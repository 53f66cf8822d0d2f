#include "server/volume/fragments/fragment_big_files.h"

#include <fmt/format.h>

#include "server/volume/fragments/fragment_format.h"

namespace penstock {
namespace {

const std::string kBigFilesDirectory = "files";
constexpr std::string_view kTemporarySuffix = ".tmp";

// A failed change of the disk is final, whatever the system called it.
Error final_big_error(const Error& error) {
  if (error.code == Errc::overloaded) return error;  // the disk was not even asked
  return fail(Errc::io, error.context);
}

std::string directory_of(const FragmentId& id) {
  return kBigFilesDirectory + "/" + fmt::format("{:02x}", id.write_id.low & 0xff);
}

}  // namespace

std::string BigFiles::name_of(const FragmentId& id) {
  return directory_of(id) + "/" + to_string(id);
}

Result<> BigFiles::open(const std::function<bool(const FragmentId&)>& has_row) {
  if (!disk_.exists(kBigFilesDirectory)) {
    CHECK_OK(disk_.make_directory(kBigFilesDirectory));
    CHECK_OK(disk_.sync_directory(""));
  }
  TRY(directories, disk_.list(kBigFilesDirectory));
  for (const std::string& directory : directories) {
    if (directory.size() != 2) continue;  // what does not look like ours is left alone
    const std::string path = kBigFilesDirectory + "/" + directory;
    TRY(names, disk_.list(path));
    for (const std::string& name : names) {
      const auto id = parse_fragment_id(name);
      const bool is_temporary = name.ends_with(kTemporarySuffix);
      if (!is_temporary && (!id || has_row(*id))) continue;
      CHECK_OK(disk_.remove(path + "/" + name));
    }
  }
  return {};
}

Result<> BigFiles::make_directory_of(const FragmentId& id) {
  const std::string directory = directory_of(id);
  {
    std::lock_guard lock(mutex_);
    if (directories_.contains(directory)) return {};
  }
  CHECK_OK(disk_.make_directory(directory));
  CHECK_OK(disk_.sync_directory(kBigFilesDirectory));
  std::lock_guard lock(mutex_);
  directories_.insert(directory);
  return {};
}

Result<BigFiles::Temporary> BigFiles::create(const FragmentId& id, std::uint64_t bytes) {
  Temporary temporary;
  {
    std::lock_guard lock(mutex_);
    temporary.name = fmt::format("{}.{}{}", name_of(id), ++temporaries_, kTemporarySuffix);
  }
  CHECK_OK(room_.grow(bytes, [&]() -> Result<> {
    if (auto made = make_directory_of(id); !made) return final_big_error(made.error());
    auto made = disk_.open(temporary.name, OpenMode::write_new);
    if (!made) return final_big_error(made.error());
    if (auto done = (*made)->allocate(0, bytes); !done) return final_big_error(done.error());
    return {};
  }));
  auto opened = disk_.open(temporary.name, OpenMode::direct);
  if (!opened) return final_big_error(opened.error());
  temporary.file = std::make_shared<FragmentFile>(std::move(*opened));
  return temporary;
}

Result<> BigFiles::publish(const FragmentId& id, const Temporary& temporary) {
  CHECK_OK(temporary.file->file().sync());
  CHECK_OK(disk_.rename(temporary.name, name_of(id)));
  return disk_.sync_directory(directory_of(id));
}

Result<std::shared_ptr<FragmentFile>> BigFiles::open_for_reading(const FragmentId& id) {
  TRY(opened, disk_.open(name_of(id), OpenMode::read));
  return std::make_shared<FragmentFile>(std::move(opened));
}

Result<> BigFiles::remove(const std::string& name) {
  // The latch of the disk takes any failed removal as final: ask first.
  if (!disk_.exists(name)) return {};
  return disk_.remove(name);
}

}  // namespace penstock
