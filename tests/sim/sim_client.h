// Clients of the simulated world: each sends a seeded mix of S3 requests, one at a time, and notes
// what it was answered.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/history.h"
#include "tests/sim/sim_gateway.h"

namespace penstock::sim {

struct ClientPlan {
  std::vector<std::string> keys;
  int operations = 10;
  std::uint64_t size_max = 400'000;
  SimMicros think_max = 200'000;
};

class SimClient {
 public:
  // `gateway` gives some live gateway for each request.
  using PickGateway = std::function<std::shared_ptr<SimGateway>()>;
  SimClient(SimTime& time, SimRandom& random, History& history, PickGateway gateway,
            ClientPlan plan);
  // Runs the plan; finished() holds afterwards.
  Awaitable<void> run();
  bool finished() const { return finished_; }
  // Reads every key once and lists: what is there at the end, when all faults are over.
  Awaitable<void> read_all();
  // Likewise of the buckets that the client made and removed.
  Awaitable<void> look_at_side_buckets();

  static constexpr const char* kBucket = "bucket";
  static S3Request request(std::string method, std::string key,
                           std::vector<std::pair<std::string, std::string>> query = {},
                           std::vector<std::pair<std::string, std::string>> headers = {});

 private:
  struct Seen {  // what the client last saw of a key, for If-Match
    Value value = 0;
    std::string etag;
  };
  Awaitable<void> put(std::string key);
  Awaitable<void> get(std::string key);
  Awaitable<void> get_range(std::string key);
  Awaitable<void> head(std::string key);
  Awaitable<void> remove(std::string key);
  Awaitable<void> copy(std::string key);
  Awaitable<void> multipart(std::string key);
  Awaitable<void> list();
  // A bucket of the client's own: made, written to, removed. `Delete` of one with an acknowledged
  // object must not succeed, that of an empty one must not be refused.
  struct SideBucket {
    std::string name;
    bool has_object = false;  // acknowledged
    bool maybe_object = false;
    bool gone = false;        // acknowledged
  };
  Awaitable<void> side_bucket();
  Awaitable<void> remove_side_bucket(SideBucket& bucket);
  Awaitable<void> look_at_side_bucket(const SideBucket& bucket);
  static S3Request in_bucket(const std::string& bucket, S3Request request);
  std::uint64_t pick_size();
  void note_write(const std::string& key, Operation operation,
                  const Result<SimGateway::Answer>& answer, int expected);
  // The write whose object the answer shows; reports what does not fit.
  Value judge_body(const std::string& key, const SimGateway::Answer& answer, std::uint64_t offset,
                   std::uint64_t length);

  SimTime& time_;
  SimRandom& random_;
  History& history_;
  PickGateway pick_;
  ClientPlan plan_;
  std::map<std::string, Seen> seen_;
  std::vector<SideBucket> side_buckets_;
  bool finished_ = false;
};

}  // namespace penstock::sim
