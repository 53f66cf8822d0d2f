// Blobs on a stage: written without an object, counted on the disks.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "server/objects/objects.h"
#include "server/records/object_record.h"
#include "tests/sim/stage.h"

namespace penstock::sim {

inline const std::string kBlobBody(100'000, 'b');

struct StoredBlob {
  std::unique_ptr<BlobWriter> writer;
  BlobRef blob;
  // An object of this blob alone.
  ObjectRecord record() const;
};
// Written for an object of `key` by the first gateway: durable, and named by nothing.
std::optional<StoredBlob> store_blob(Stage& stage, const std::string& key);

// How many of its fragments the volumes hold.
std::size_t fragments_there(Stage& stage, const BlobRef& blob);
// How many hints they hold, due or not, each copy counted.
std::size_t hints_there(Stage& stage);

}  // namespace penstock::sim
