// Writes data sets as plain files, for a server that only serves files.
// Thread-safety: one thread; calls block.
#pragma once
#include <string>

#include "gateway/bench/content.h"
#include "gateway/bench/data_sets.h"
#include "penstock/result.h"

namespace penstock {

// Below `root`/`bucket`; what is there already stays. Errors: io.
Result<> write_files(const std::string& root, const std::string& bucket, const DataSet& set,
                     const Content& content);

}  // namespace penstock
