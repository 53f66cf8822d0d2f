// A volume's log on a fake disk, with a model of the database that is filled from it.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/byte_codec.h"
#include "server/volume/log/volume_log.h"
#include "tests/fake/disk_files.h"
#include "tests/fake/seeded_random.h"

namespace penstock {

// Rows as the database would hold them: a key names a body and its length.
struct ModelRow {
  OpId op_id;
  BodyPlace place;
  std::uint32_t bytes = 0;
  bool operator==(const ModelRow&) const = default;
};
struct ModelTables {
  std::uint64_t applied = 0;
  std::map<std::string, ModelRow> rows;
  std::map<std::uint64_t, std::uint64_t> live;
};

class LogFixture {
 public:
  explicit LogFixture(std::uint64_t seed = 1) : random(seed) {
    VolumeLog made(disk, *fresh_witness(), options());
    REQUIRE(witness->create());
    REQUIRE(made.create());
  }
  static VolumeLogOptions options(bool same_boot = true) {
    VolumeLogOptions wanted;
    wanted.file_bytes_min = 32 * limits::kKiB;
    wanted.file_bytes_max = 64 * limits::kKiB;
    wanted.handles_max = 2;
    wanted.same_boot = same_boot;
    return wanted;
  }
  LogWitness* fresh_witness() {
    view = disk.share();
    witness = std::make_unique<LogWitness>(*view, random);
    return witness.get();
  }
  // Opens what is there on what the tables have, and puts the rest into `now`.
  Result<> open(bool same_boot = true) {
    log.reset();
    fresh_witness();
    CHECK_OK(witness->load());
    VolumeLogOptions wanted = options(same_boot);
    wanted.make_room = make_room;
    log = std::make_unique<VolumeLog>(*view, *witness, std::move(wanted));
    CHECK_OK(log->open());
    now = tables;
    const auto put = [this](std::uint64_t number, std::string_view payload) -> Result<> {
      if (number != now.applied + 1) return fail(Errc::invalid, "out of order");
      CHECK_OK(read_record(
          payload, [this](const LoggedChange& change) -> Result<> { return put_change(change); }));
      now.applied = number;
      return {};
    };
    CHECK_OK(log->replay(tables.applied, put));
    for (const auto& [file, bytes] : now.live) log->set_live(file, bytes);
    log->set_floor(tables.applied + 1);
    return {};
  }
  // One batch: `key` gets a body of so many bytes; 0: it goes. Known to be durable if it succeeds.
  Result<> write(const std::string& key, std::size_t bytes, char fill = 'b') {
    std::map<std::string, std::size_t> batch{{key, bytes}};
    return write(batch, fill);
  }
  Result<> write(const std::map<std::string, std::size_t>& batch, char fill = 'b') {
    std::size_t room = 1000;
    for (const auto& [key, bytes] : batch) room += bytes + 200;
    TRY(record, log->begin(room));
    ModelTables next = now;
    std::string changes;
    for (const auto& [key, bytes] : batch) {
      if (const auto old = next.rows.find(key); old != next.rows.end()) {
        record.release(old->second.place, old->second.bytes);
        next.rows.erase(old);
      }
      if (bytes == 0) {
        write_logged_removal(changes, key);
        continue;
      }
      ModelRow row;
      row.op_id = OpId{++ops, 7};
      row.bytes = static_cast<std::uint32_t>(bytes);
      row.place = record.add_body(row.op_id, body_of(row, fill));
      record.retain(row.place, row.bytes);
      fills[row.op_id.high] = fill;
      write_logged_put(changes, key, encode(row));
      next.rows[key] = row;
    }
    for (const auto& [file, live] : log->live_with(record)) {
      write_logged_put(changes, "live", encode(file, live));
      next.live[file] = live;
    }
    next.applied = record.number();
    asked = next;
    CHECK_OK(log->append(std::move(record), changes, true));
    now = std::move(next);
    return {};
  }
  // All rows are in synced tables.
  void flush() {
    tables = now;
    log->set_floor(tables.applied + 1);
  }
  Result<> upkeep() { return log->wants_upkeep() ? log->upkeep() : Result<>(); }
  std::string body_of(const ModelRow& row, char fill) const {
    std::string body(row.bytes, fill);
    const std::string name = std::to_string(row.op_id.high);
    return body.replace(0, std::min(name.size(), body.size()), name, 0, body.size());
  }
  // "whole", or the key whose body is not as it was written. One that is `corrupt` is not lost.
  std::string verdict(const ModelTables& wanted) {
    if (now.rows != wanted.rows) return "other rows";
    for (const auto& [key, row] : now.rows) {
      const auto body = log->read_body(row.place, row.op_id, row.bytes);
      if (!body && body.error().code == Errc::corrupt) continue;
      if (!body || *body != body_of(row, fills[row.op_id.high])) return "lost " + key;
    }
    return "whole";
  }
  std::vector<std::string> log_files() const {
    std::vector<std::string> found;
    for (const std::string& name : disk.files()) {
      if (name.ends_with(".log")) found.push_back(name);
    }
    return found;
  }
  std::string read_file(const std::string& name) { return penstock::read_file(disk, name); }
  void write_file(const std::string& name, std::string_view bytes) {
    const auto file = disk.open(name, OpenMode::write_new);
    REQUIRE(file);
    REQUIRE((*file)->write_at(0, as_bytes(bytes)));
    REQUIRE((*file)->sync());
  }
  void crash(Keep keep) {
    log.reset();
    disk.crash(random, keep, keep);
  }

  FakeDisk disk;
  SeededRandom random;
  std::unique_ptr<Disk> view;
  std::unique_ptr<LogWitness> witness;
  std::unique_ptr<VolumeLog> log;
  ModelTables tables;  // durable, elsewhere
  ModelTables now;
  std::function<void()> make_room;  // as VolumeLogOptions has it
  ModelTables asked;                // with the batch that was tried last
  std::uint64_t ops = 0;
  std::map<std::uint64_t, char> fills;  // by operation

 private:
  static std::string encode(const ModelRow& row) {
    std::string out;
    ByteWriter writer(out);
    writer.id(row.op_id);
    writer.number(row.place.file);
    writer.number(row.place.offset);
    writer.number(row.place.crc);
    writer.number(row.bytes);
    return out;
  }
  static std::string encode(std::uint64_t file, std::uint64_t live) {
    std::string out;
    ByteWriter writer(out);
    writer.number(file);
    writer.number(live);
    return out;
  }
  Result<> put_change(const LoggedChange& change) {
    ByteReader reader(change.value);
    if (change.key == "live") {
      const auto file = reader.number<std::uint64_t>();
      now.live[file] = reader.number<std::uint64_t>();
    } else if (change.removes) {
      now.rows.erase(std::string(change.key));
    } else {
      ModelRow row;
      row.op_id = reader.id<OpId>();
      row.place.file = reader.number<std::uint64_t>();
      row.place.offset = reader.number<std::uint32_t>();
      row.place.crc = reader.number<std::uint32_t>();
      row.bytes = reader.number<std::uint32_t>();
      now.rows[std::string(change.key)] = row;
    }
    return reader.ok() && reader.at_end() ? Result<>() : fail(Errc::corrupt, "a row");
  }
};

}  // namespace penstock
