// A Disk that tells an observer of each call before it makes it. The observer holds no lock and may
// use the disk below: look at it, copy it, or make this very call fail.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tests/fake/fake_disk.h"

namespace penstock {

// `name`: the file or directory of the call, relative to the disk.
using DiskObserver = std::function<void(FakeDisk::Call call, const std::string& name)>;

// Of what a caller asks; sizes and existence are not told. An open for writing is a `create`, or a
// `truncate` if the file is there and is emptied, or a `read`. Thread-safety: as `disk`; the
// observer is called on the caller's thread.
std::unique_ptr<Disk> make_observed_disk(std::unique_ptr<Disk> disk, DiskObserver observer);

}  // namespace penstock
