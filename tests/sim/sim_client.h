// Clients of the simulated world: each sends a seeded mix of S3 requests and notes what it was
// answered. One file per kind of request: client_objects, client_lists, client_copy,
// client_multipart, client_uploads, client_buckets, client_side_buckets.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/history.h"
#include "tests/sim/sim_gateway.h"

namespace penstock::sim {

enum class Act : std::uint8_t {
  put,
  get,
  range,
  head,
  remove,
  copy,
  copy_itself,
  multipart,
  list,
  drop_bucket,
  make_bucket,
  side_bucket,
};
inline constexpr std::size_t kActs = 12;

struct ClientPlan {
  std::vector<std::string> keys;
  int operations = 10;
  std::uint64_t size_max = 300'000;
  SimMicros think_max = 200'000;
  double conditional = 0.4;          // of the writes
  std::array<int, kActs> weights{};  // by Act
  int weight(Act act) const { return weights[static_cast<std::size_t>(act)]; }
};

struct ClientUpload;  // client_uploads.h

class SimClient {
 public:
  // `gateway` gives some live gateway for each request.
  using PickGateway = std::function<std::shared_ptr<SimGateway>()>;
  SimClient(SimTime& time, SimRandom& random, History& history, PickGateway gateway,
            ClientPlan plan);
  // Makes the bucket that the history begins with. finished() holds afterwards.
  Awaitable<void> make_first_bucket();
  // Writes every key once. finished() as before, as for all that follow.
  Awaitable<void> fill();
  // Runs the plan.
  Awaitable<void> run();
  bool finished() const { return finished_; }
  // When all faults are over: every request must be answered now. Ends what was left of deletions
  // of the bucket and of uploads, then reads and lists, and writes.
  Awaitable<void> settle_bucket();
  Awaitable<void> settle_uploads();
  Awaitable<void> read_all();
  Awaitable<void> write_all();
  // Slow reads of an object of its own, which is overwritten while they are under way.
  Awaitable<void> read_slowly();
  // The buckets that the client made for itself and removed.
  Awaitable<void> look_at_side_buckets();
  // After the last answer: what the uploads of this client come to.
  void note_uploads();

  static constexpr const char* kBucket = "bucket";
  static constexpr const char* kTurn = "x-amz-meta-turn";
  static constexpr std::size_t kSecondLength = 19;  // of "2026-01-31T12:00:00"
  // So many requests may say nothing when all faults are over: see says_nothing().
  static constexpr int kRefusalsMax = 2;
  // No answer may take longer: the deadlines of a request's steps, one after another.
  static constexpr SimMicros kAnswerMax = 100'000'000;

 private:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  using Answer = SimGateway::Answer;
  struct Seen {  // what the client last saw of a key, for If-Match
    Value value = 0;
    std::string etag;
  };
  using UploadPtr = std::shared_ptr<ClientUpload>;

  static S3Request request(std::string method, std::string key, Pairs query = {},
                           Pairs headers = {});
  // Sends it to some gateway. Errors: aborted - the gateway died.
  Task<Answer> ask(S3Request request, std::string body = {});
  Awaitable<void> think(SimMicros most);
  // The bucket may be deleted, and its uploads with it.
  bool bucket_goes() const { return plan_.weight(Act::drop_bucket) > 0; }
  Awaitable<void> act(Act act, std::string key);

  Awaitable<void> put(std::string key);
  Awaitable<void> get(std::string key);
  Awaitable<void> get_range(std::string key);
  Awaitable<void> head(std::string key);
  Awaitable<void> remove(std::string key);
  Awaitable<void> copy(std::string key);
  Awaitable<void> copy_itself(std::string key);
  Awaitable<void> list();
  Awaitable<void> drop_bucket();
  Awaitable<void> make_bucket();

  // A bucket of the client's own: made, written to, removed. A DeleteBucket of one with an
  // acknowledged object must not succeed, that of an empty one must not be refused.
  struct SideBucket {
    std::string name;
    bool has_object = false;  // acknowledged
    bool maybe_object = false;
    bool gone = false;  // acknowledged
  };
  Awaitable<void> side_bucket();
  Awaitable<void> fill_side_bucket(SideBucket& bucket);
  Awaitable<void> remove_side_bucket(SideBucket& bucket);
  Awaitable<void> look_at_side_bucket(const SideBucket& bucket);
  static S3Request in_bucket(const std::string& bucket, S3Request request);

  Awaitable<void> read_overwritten(std::string key);
  Task<> put_in_parts(std::string key, std::vector<std::string> parts);
  Awaitable<void> overwrite(std::string key);

  Awaitable<void> multipart(std::string key);
  // What an open upload shows of itself, and one that has ended.
  Awaitable<void> look_at_upload(UploadPtr upload);
  Awaitable<void> look_at_parts(UploadPtr upload);
  Awaitable<void> look_for_upload(UploadPtr upload, bool there);
  Awaitable<void> complete_stale(UploadPtr upload);
  Awaitable<void> send_late_part(UploadPtr upload);
  Task<bool> send_part(UploadPtr upload, std::uint16_t number, Value bytes);
  Task<bool> copy_part(UploadPtr upload);
  Awaitable<void> send_parts(UploadPtr upload);
  Awaitable<void> send_many_parts(UploadPtr upload);
  Awaitable<void> complete(UploadPtr upload, SimMicros delay);
  Awaitable<void> abort(UploadPtr upload, SimMicros delay);
  Awaitable<void> finish(UploadPtr upload);

  std::uint64_t pick_size(const std::string& key);
  std::string pick_range(const std::string& key);
  // Makes a write one of what was seen alone.
  static void must_be(const Seen& seen, Operation& operation, Pairs& headers);
  // Adds a condition to a write, sometimes.
  void pick_condition(const std::string& key, Operation& operation, Pairs& headers);
  // The answer says nothing of the state: a failure, or a lost answer. Afterwards, when all faults
  // are over, more than a few are a violation: with p volumes gone each of the others must answer
  // in time, which a slow disk may not.
  bool says_nothing(const std::string& what, const Result<Answer>& answer);
  // Notes that the bucket is not there, if the answer says that.
  bool no_bucket(const std::string& key, SimMicros call, const Result<Answer>& answer);
  // `turn`: the headers of its own that it sent, see History.
  void note_write(const std::string& key, Operation operation, const Result<Answer>& answer,
                  int expected, Value turn);
  // What a GET or a HEAD has seen.
  void note_read(const std::string& key, const Operation& operation, const Answer& answer);
  Task<Answer> ask_remove(const std::string& key, const Pairs& headers);
  // One page into the listing; `last` is the last name so far.
  void take_page(const Answer& answer, History::Listing& listing, std::string& last);
  void unexpected(const std::string& what, const Answer& answer);
  // The write whose object the answer shows; reports what does not fit.
  Value judge_body(const std::string& key, const Answer& answer, std::uint64_t offset,
                   std::uint64_t length);
  // The same of a 206, by the range that it tells.
  Value judge_range(const std::string& key, const Answer& answer);
  void judge_head(const std::string& key, const Answer& answer, Value number);

  SimTime& time_;
  SimRandom& random_;
  History& history_;
  PickGateway pick_;
  ClientPlan plan_;
  std::map<std::string, Seen> seen_;
  std::vector<UploadPtr> uploads_;
  std::vector<SideBucket> side_buckets_;
  bool quiet_ = false;  // all faults are over
  int refusals_ = 0;    // since then
  bool finished_ = false;
};

// The text of the first such element; empty if there is none.
std::string xml_element(const std::string& xml, const std::string& name);
// All of that name that stand beside one another, with what they hold.
std::vector<std::string> xml_elements(const std::string& xml, const std::string& name);
// The text of an ETag, with its quotes.
std::string xml_etag(const std::string& xml);

}  // namespace penstock::sim
