// A client of the recorded load: a seeded mix of S3 requests to keys of its own, each answer judged
// against what the ledger says must be there.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/ledger.h"
#include "tests/crash/process.h"

namespace penstock::crash {

// What all clients of one load share.
struct LoadState {
  sim::SimTime& time;
  Ledger& ledger;
  Process* process = nullptr;
  std::vector<std::string> violations = {};
  bool faulty = false;           // a disk call was made to fail
  int operations_left_then = 3;  // of each client, once faulty
};

class Client {
 public:
  static constexpr const char* kBucket = "bucket";

  Client(LoadState& load, std::uint64_t seed, std::size_t index);
  // `operations` requests, one after another; finished() holds afterwards.
  Awaitable<void> run(int operations);
  bool finished() const { return finished_; }

 private:
  using Answer = sim::SimGateway::Answer;
  // A request under way: whether a fault may excuse its answer.
  struct Ticket {
    std::string what;
    bool faulty_before;
  };

  Awaitable<void> step();
  Awaitable<void> put(Name name);
  Awaitable<void> remove(Name name);
  Awaitable<void> copy(Name from, Name to);
  Awaitable<void> get(Name name);
  Awaitable<void> list();
  Awaitable<void> use_bucket();
  Awaitable<void> make_bucket(Name bucket);
  Awaitable<void> remove_bucket(Name bucket);
  Awaitable<void> multipart(Name name);
  Awaitable<void> upload_part(std::size_t upload);
  Awaitable<void> complete(std::size_t upload);
  Awaitable<void> abort(std::size_t upload);

  Ticket begin(std::string what) const { return {std::move(what), load_.faulty}; }
  // `applied`: the status of success. 0, 500 and 503 tell nothing, and are excused while a fault
  // strikes.
  Ledger::Outcome judge(const Ticket& ticket, const Result<Answer>& answer, int applied,
                        bool must_be_refused = false);
  void violation(const Ticket& ticket, const std::string& text);
  bool excused(const Ticket& ticket) const { return load_.faulty && !ticket.faulty_before; }
  Name some_key();
  std::string some_bytes();

  LoadState& load_;
  sim::SimRandom random_;
  const std::string prefix_;
  const Name own_bucket_;
  bool finished_ = false;
};

// The value that an answer to a GET shows, of those allowed; nullopt: none of them, `why` tells.
std::optional<Ledger::Value> value_shown(const Ledger& ledger, const Name& name,
                                         const Result<sim::SimGateway::Answer>& answer,
                                         std::string& why);

// The entries of a ListObjectsV2 answer: key to ETag and size.
struct ListedObject {
  std::string etag;
  std::uint64_t size = 0;
};
std::map<std::string, ListedObject> parse_list(const std::string& xml);
std::string xml_element(const std::string& xml, const std::string& name);
std::string quoted_md5(const std::string& bytes);
std::string completion_xml(const std::string& part_etag);
// The ETag of an object that was uploaded in one part.
std::string one_part_etag(const std::string& bytes);

}  // namespace penstock::crash
