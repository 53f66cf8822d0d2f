// CreateBucket and DeleteBucket, as operations on every key of the bucket.
#include "tests/sim/sim_client.h"

namespace penstock::sim {

// Succeeds only where every key is absent, and afterwards none can be written.
Awaitable<void> SimClient::drop_bucket() {
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = kNoBucket;
  operation.condition = Operation::Condition::must_be_absent;
  operation.call = time_.now();
  auto asked = request("DELETE", "");
  auto answer = co_await ask(std::move(asked));
  operation.answer = time_.now();
  if (no_bucket("", operation.call, answer)) co_return;
  if (says_nothing("DELETE of the bucket", answer)) {
    operation.outcome = Operation::Outcome::unknown;
  } else if (answer->status == 409) {
    co_return;  // some key was there, which one is not said
  } else if (answer->status != 204) {
    unexpected("DELETE of the bucket", *answer);
    co_return;
  }
  history_.add_to_all(operation);
}

// Leaves a bucket as it is that is there.
Awaitable<void> SimClient::make_bucket() {
  Operation operation;
  operation.kind = Operation::Kind::write;
  operation.value = 0;
  operation.condition = Operation::Condition::must_be;
  operation.expected = kNoBucket;
  operation.outcome = Operation::Outcome::either;
  operation.call = time_.now();
  auto asked = request("PUT", "");
  auto answer = co_await ask(std::move(asked));
  operation.answer = time_.now();
  if (says_nothing("CreateBucket", answer)) {
    operation.outcome = Operation::Outcome::unknown;
  } else if (answer->status != 200 && answer->status != 409) {
    unexpected("CreateBucket", *answer);
    co_return;
  }
  history_.add_to_all(operation);
}

}  // namespace penstock::sim
