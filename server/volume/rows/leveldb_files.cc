#include "server/volume/rows/leveldb_files.h"

#include <atomic>

#include "penstock/byte_codec.h"
#include "penstock/checksum.h"
#include "penstock/log.h"
#include "server/volume/log/log_frames.h"
#include "server/volume/rows/read_ahead.h"

namespace penstock {
namespace {

using leveldb::Slice;
using leveldb::Status;

constexpr std::string_view kTableMagic = "PNSTKTAB";
constexpr std::size_t kTableSealBytes = 36;

Status read_into(File& file, std::uint64_t offset, std::size_t bytes, Slice* result,
                 char* scratch) {
  auto got = file.read_at(offset, std::as_writable_bytes(std::span(scratch, bytes)));
  *result = Slice(scratch, got ? got.value() : 0);
  return to_status(got);
}

class SequentialFile final : public leveldb::SequentialFile {
 public:
  explicit SequentialFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  Status Read(std::size_t bytes, Slice* result, char* scratch) override {
    const Status status = read_into(*file_, offset_, bytes, result, scratch);
    offset_ += result->size();
    return status;
  }
  Status Skip(std::uint64_t bytes) override {
    offset_ += bytes;
    return Status::OK();
  }

 private:
  std::unique_ptr<File> file_;
  std::uint64_t offset_ = 0;
};

class FrameReader final : public leveldb::SequentialFile {
 public:
  FrameReader(std::unique_ptr<File> file, std::uint64_t marker, std::uint64_t whole_bytes)
      : file_(std::move(file)), marker_(marker), whole_bytes_(whole_bytes) {}
  // LevelDB takes fewer bytes than it asked for as the end: so this goes over frames.
  Status Read(std::size_t bytes, Slice* result, char* scratch) override {
    std::size_t done = 0;
    *result = Slice(scratch, 0);
    while (done < bytes) {
      const Status begun = begin_frame();
      if (!begun.ok()) return begun;
      if (left_ == 0) break;
      const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, left_));
      Slice piece;
      const Status status = read_into(*file_, offset_, step, &piece, scratch + done);
      if (!status.ok()) return status;
      if (piece.size() < step) return Status::Corruption("a log became shorter");
      done += step;
      offset_ += step;
      left_ -= step;
    }
    *result = Slice(scratch, done);
    return Status::OK();
  }
  Status Skip(std::uint64_t) override { return Status::NotSupported("logs are read from 0"); }

 private:
  // Goes to the next frame that has bytes; left_ stays 0 at the end.
  Status begin_frame() {
    while (left_ == 0 && offset_ < whole_bytes_) {
      char memory[kFrameHeadBytes];
      Slice bytes;
      const Status status = read_into(*file_, offset_, sizeof memory, &bytes, memory);
      if (!status.ok()) return status;
      const auto head = read_frame_head({bytes.data(), bytes.size()}, marker_);
      if (!head) return Status::Corruption("a frame changed while it was read");
      offset_ += kFrameHeadBytes;
      left_ = head->length;
    }
    return Status::OK();
  }

  std::unique_ptr<File> file_;
  const std::uint64_t marker_;
  const std::uint64_t whole_bytes_;
  std::uint64_t offset_ = 0;
  std::uint64_t left_ = 0;  // of the frame at offset_
};

class RandomAccessFile final : public leveldb::RandomAccessFile {
 public:
  RandomAccessFile(std::unique_ptr<File> file, const Patience& patience, LeftFiles& left)
      : file_(std::move(file)), patience_(patience), left_(left) {}
  ~RandomAccessFile() override { left_.add(std::move(file_)); }
  Status Read(std::uint64_t offset, std::size_t bytes, Slice* result,
              char* scratch) const override {
    const auto buffer = std::as_writable_bytes(std::span(scratch, bytes));
    if (ReadAtOnce::active()) {
      const auto now = file_->read_now(offset, buffer);
      *result = Slice(scratch, now && *now ? now->value() : 0);
      return now ? to_status(*now) : Status::IOError("it would wait for the disk");
    }
    ReadAhead* const ahead = ReadAhead::of_this_thread();
    if (ahead != nullptr && ahead->read(number_, *file_, offset, buffer)) {
      *result = Slice(scratch, bytes);
      return Status::OK();
    }
    const auto got = patience_.in_background([&] { return file_->read_at(offset, buffer); });
    *result = Slice(scratch, got ? got.value() : 0);
    return to_status(got);
  }

 private:
  static std::atomic<std::uint64_t> files_;

  std::unique_ptr<File> file_;
  const std::uint64_t number_ = ++files_;  // of those that this process has opened
  const Patience& patience_;
  LeftFiles& left_;
};
std::atomic<std::uint64_t> RandomAccessFile::files_{0};

// Collects appends until a sync, the close or a full buffer. LevelDB also flushes after each block
// of a table; but every table is synced before it counts, so the bytes may wait for that: one
// system call instead of many.
class WritableFile : public leveldb::WritableFile {
 public:
  WritableFile(std::unique_ptr<File> file, const Patience& patience, LeftFiles& left)
      : file_(std::move(file)), patience_(patience), left_(left) {}
  ~WritableFile() override { left_.add(std::move(file_)); }
  Status Append(const Slice& data) override {
    pending_.append(data.data(), data.size());
    return pending_.size() < kPendingBytesMax ? Status::OK() : write_pending();
  }
  Status Flush() override { return Status::OK(); }
  Status Sync() override {
    const Status written = write_pending();
    return written.ok() ? to_status(file_->sync()) : written;
  }
  Status Close() override {
    const Status written = write_pending();
    file_.reset();
    return written;
  }

 protected:
  std::uint64_t appended() const { return offset_ + pending_.size(); }

 private:
  Status write_pending() {
    if (pending_.empty()) return Status::OK();
    // The same bytes to the same place: they may be repeated.
    const auto written =
        patience_.always([&] { return file_->write_at(offset_, as_bytes(pending_)); });
    offset_ += pending_.size();  // after a failure the disk refuses everything: no second chance
    pending_.clear();
    return to_status(written);
  }

  static constexpr std::size_t kPendingBytesMax = 64 * 1024;
  std::unique_ptr<File> file_;
  const Patience& patience_;
  LeftFiles& left_;
  std::uint64_t offset_ = 0;
  std::string pending_;
};

class TableWriter final : public WritableFile {
 public:
  TableWriter(std::unique_ptr<File> file, std::uint64_t marker, std::uint64_t number,
              const Patience& patience, LeftFiles& left)
      : WritableFile(std::move(file), patience, left), marker_(marker), number_(number) {}
  Status Append(const Slice& data) override {
    if (sealed_) return Status::IOError("a table ends with its sync");
    return WritableFile::Append(data);
  }
  Status Sync() override {
    if (!sealed_) {
      std::string seal(kTableMagic);
      ByteWriter writer(seal);
      writer.number(marker_);
      writer.number(number_);
      writer.number(appended());
      writer.number(crc32c(as_bytes(seal)));
      const Status added = Append(seal);
      if (!added.ok()) return added;
      sealed_ = true;
    }
    return WritableFile::Sync();
  }

 private:
  const std::uint64_t marker_;
  const std::uint64_t number_;
  bool sealed_ = false;
};

class Sink final : public leveldb::WritableFile {
 public:
  Status Append(const Slice&) override { return Status::OK(); }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }
};

class FrameWriter final : public leveldb::WritableFile {
 public:
  FrameWriter(std::unique_ptr<File> file, WitnessedLog log, const Patience& patience,
              LeftFiles& left)
      : file_(std::move(file)),
        log_(std::move(log)),
        patience_(patience),
        left_(left),
        frame_(kFrameHeadBytes, '\0') {}
  ~FrameWriter() override { left_.add(std::move(file_)); }
  Status Append(const Slice& data) override {
    frame_.append(data.data(), data.size());
    return Status::OK();
  }
  Status Flush() override { return Status::OK(); }
  Status Sync() override {
    const Status written = write_frame();
    if (!written.ok()) return written;
    const Status synced = to_status(file_->sync());
    if (synced.ok()) log_.frames->store(frames_);
    return synced;
  }
  Status Close() override {
    const Status written = write_frame();
    file_.reset();
    return written;
  }

 private:
  Status write_frame() {
    if (frame_.size() == kFrameHeadBytes) return Status::OK();
    LogFrameHead head;
    head.marker = log_.marker;
    head.number = frames_++;
    head.length = static_cast<std::uint32_t>(frame_.size() - kFrameHeadBytes);
    head.crc = crc32c(as_bytes(std::string_view(frame_).substr(kFrameHeadBytes)));
    write_frame_head(head, frame_.data());
    const auto written =
        patience_.always([&] { return file_->write_at(offset_, as_bytes(frame_)); });
    offset_ += frame_.size();  // after a failure the disk refuses everything: no second chance
    frame_.resize(kFrameHeadBytes);
    return to_status(written);
  }

  std::unique_ptr<File> file_;
  const WitnessedLog log_;
  const Patience& patience_;
  LeftFiles& left_;
  std::string frame_;  // room for its head, then what was appended
  std::uint32_t frames_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace

thread_local bool Patience::background_ = false;
thread_local bool ReadAtOnce::active_ = false;

void LeftFiles::add(std::unique_ptr<File> file) {
  if (!file) return;
  std::lock_guard lock(mutex_);
  files_.push_back(std::move(file));
  some_.store(true);
}

void LeftFiles::close() {
  if (!some_.load()) return;
  std::vector<std::unique_ptr<File>> files;
  std::lock_guard lock(mutex_);
  files.swap(files_);
  some_.store(false);
}

void Patience::tell(const Error& error) const {
  log_event(LogLevel::warn, "database_waits", {{"volume", where_}, {"reason", error.context}});
}

Status to_status(const Error& error) {
  if (error.code == Errc::overloaded) {
    return Status::IOError(Slice(kScarce.data(), kScarce.size()), error.context);
  }
  if (error.code == Errc::not_found) return Status::NotFound(error.context);
  if (error.code == Errc::corrupt) return Status::Corruption(error.context);
  return Status::IOError(error.context);
}

std::unique_ptr<leveldb::SequentialFile> make_sequential_file(std::unique_ptr<File> file) {
  return std::make_unique<SequentialFile>(std::move(file));
}
std::unique_ptr<leveldb::RandomAccessFile> make_random_access_file(std::unique_ptr<File> file,
                                                                   const Patience& patience,
                                                                   LeftFiles& left) {
  return std::make_unique<RandomAccessFile>(std::move(file), patience, left);
}
std::unique_ptr<leveldb::WritableFile> make_writable_file(std::unique_ptr<File> file,
                                                          const Patience& patience,
                                                          LeftFiles& left) {
  return std::make_unique<WritableFile>(std::move(file), patience, left);
}
std::unique_ptr<leveldb::WritableFile> make_sink() { return std::make_unique<Sink>(); }
std::unique_ptr<leveldb::WritableFile> make_frame_writer(std::unique_ptr<File> file,
                                                         WitnessedLog log, const Patience& patience,
                                                         LeftFiles& left) {
  return std::make_unique<FrameWriter>(std::move(file), std::move(log), patience, left);
}
std::unique_ptr<leveldb::SequentialFile> make_frame_reader(std::unique_ptr<File> file,
                                                           std::uint64_t marker,
                                                           std::uint64_t whole_bytes) {
  return std::make_unique<FrameReader>(std::move(file), marker, whole_bytes);
}
std::unique_ptr<leveldb::WritableFile> make_table_writer(std::unique_ptr<File> file,
                                                         std::uint64_t marker, std::uint64_t number,
                                                         const Patience& patience,
                                                         LeftFiles& left) {
  return std::make_unique<TableWriter>(std::move(file), marker, number, patience, left);
}

Result<> check_table_seal(File& file, std::uint64_t marker, std::uint64_t number) {
  TRY(size, file.size());
  std::string seal(kTableSealBytes, '\0');
  if (size < seal.size()) return fail(Errc::corrupt, "it is too short for a table");
  const std::uint64_t table_bytes = size - seal.size();
  TRY(got, file.read_at(table_bytes, std::as_writable_bytes(std::span(seal))));
  ByteReader reader(std::string_view(seal).substr(0, got));
  const auto magic = reader.bytes(kTableMagic.size());
  const auto found_marker = reader.number<std::uint64_t>();
  const auto found_number = reader.number<std::uint64_t>();
  const auto found_bytes = reader.number<std::uint64_t>();
  const auto crc = reader.number<std::uint32_t>();
  const auto checked = std::string_view(seal).substr(0, seal.size() - sizeof crc);
  if (!reader.ok() || magic != kTableMagic || crc != crc32c(as_bytes(checked))) {
    return fail(Errc::corrupt, "its end is missing or damaged");
  }
  if (found_marker != marker || found_number != number) {
    return fail(Errc::corrupt, "it is a table of another volume or number");
  }
  if (found_bytes != table_bytes) return fail(Errc::corrupt, "it has lost bytes");
  return {};
}

}  // namespace penstock
