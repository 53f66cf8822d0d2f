// One file of one volume is damaged: which, how, and what the volume alone has lost by it.
#pragma once
#include <map>
#include <string>

#include "tests/crash/image.h"

namespace penstock::crash {

// A volume's registers, inline bytes, hints and extent rows, as they lie in its database.
struct VolumeRows {
  std::map<std::string, std::string> rows;
  bool complete = false;  // false: some cannot be read, so what is missing says nothing
};
// Opens the database on a copy of `disk`, as a start does. `boot_id`: of this start. Errors: those
// of Database::open.
Result<VolumeRows> read_rows(const FakeDisk& disk, const std::string& boot_id);

struct Damage {
  std::size_t volume = 0;
  std::string file;
  std::string what;
  std::string bytes;  // what it holds now
  bool lost = false;  // it is gone
};
std::string to_string(const Damage& damage);

// `older`: the same volumes some time ago. `orderly`: the volumes were closed; else the processes
// were killed, and of the newest log only what cannot be an end that a kill left is drawn: after a
// kill nobody can know of frames behind the last one that a witness has counted.
Damage draw_damage(sim::SimRandom& random, const Disks& disks, const Disks& older, bool orderly);
void inflict(const Damage& damage, const Disks& disks);

}  // namespace penstock::crash
