// Gives back the room of inline bytes that no row names any more. A file of the log goes when none
// of its bodies is live; where few are, those are moved to the log's end, through the group commit,
// a step at a time. It begins when less than four fifths of the full files are live, with the
// emptiest one, and stops when that much is. Rows count with their bodies, since they are moved as
// well: else files of small bodies would never be full enough, and be moved for ever.
//
// Which rows name a body of a file say its own records: each body lies in the record that put a row
// of the same register. The rows of today say whether they still do.
// A file with a damaged record, or with a row that cannot be read, stays as it is until the next
// start. Thread-safety: poke() on one thread at a time. The steps run where compactions run.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "server/volume/acceptor/register_commit.h"

namespace penstock {

class BodyCollector {
 public:
  // Both must outlive it.
  BodyCollector(RegisterCore& core, RegisterCommit& commit);
  // Waits for a step that runs.
  ~BodyCollector();

  // After each batch. Cheap; looks at the log now and then.
  void poke();

 private:
  struct Pass {
    std::uint64_t file = 0;
    LogPosition at;
  };
  // Shared with steps and answers that may come when this is gone.
  struct Shared {
    explicit Shared(Database& database_in) : database(database_in) {}
    Database& database;
    std::mutex mutex;  // guards the next one; held while a step runs
    BodyCollector* self = nullptr;
    std::atomic<bool> working{false};
    std::atomic<bool> failed{false};   // the last moves were refused: the pass ends
    std::atomic<bool> skipped{false};  // some body of this pass may still be named
  };

  static void schedule(const std::shared_ptr<Shared>& shared);
  void step();
  bool begin_pass();
  void end_pass();
  Result<std::vector<BodyMove>> next_moves();
  Result<std::size_t> add_moves(std::string_view payload, std::uint64_t offset,
                                std::vector<BodyMove>& moves);
  void give_up(const Error& why);

  RegisterCore& core_;
  RegisterCommit& commit_;
  const std::shared_ptr<Shared> shared_;
  std::uint64_t batches_ = 0;
  std::uint64_t passes_left_ = 0;     // each file once: then it waits for batches again
  std::optional<Pass> pass_;          // of the steps
  std::vector<std::uint64_t> stuck_;  // files that stay
};

}  // namespace penstock
