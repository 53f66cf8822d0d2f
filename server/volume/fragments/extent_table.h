// The extent rows of the fragment store, kept in the volume's LevelDB and written by its group
// commit.
#pragma once
#include <optional>
#include <string>

#include "server/volume/acceptor/register_store.h"
#include "server/volume/fragments/fragment_rows.h"
#include "server/volume/rows/database.h"

namespace penstock {

// Thread-safety: all methods from any thread. `database` and `store` must outlive it.
class ExtentTable final : public ExtentRows {
 public:
  ExtentTable(Database& database, RegisterStore& store) : database_(database), store_(store) {}
  Task<> put(FragmentId id, std::string row) override;
  Task<> erase(FragmentId id) override;
  Result<std::optional<std::string>> get(FragmentId id) override;
  Result<> for_each(std::optional<FragmentId> after, const Visit& visit) override;

 private:
  Database& database_;
  RegisterStore& store_;
};

}  // namespace penstock
