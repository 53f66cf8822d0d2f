#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <future>
#include <new>
#include <stdexcept>

#include "penstock/async.h"
#include "penstock/caught.h"

namespace penstock {
namespace {

TEST_CASE("What a job throws ends that job, is counted and told; the next ones run") {
  const std::uint64_t before = exceptions_caught();
  std::vector<std::string> told;
  std::promise<void> last;
  {
    ThreadWorker worker("thrower", 1);
    worker.on_thrown([&told](const Error& error) { told.push_back(error.context); });
    worker.submit([] { throw std::runtime_error("planted"); });
    worker.submit([] { throw std::bad_alloc(); });
    worker.submit([] { throw 7; });
    worker.submit([&last] { last.set_value(); });
    last.get_future().get();
  }
  CHECK(exceptions_caught() == before + 3);
  REQUIRE(told.size() == 3);
  CHECK(told[0] == "exception in a job of thrower: planted");
  CHECK(told[1].find("bad_alloc") != std::string::npos);
  CHECK(told[2].find("not a std::exception") != std::string::npos);
}

TEST_CASE("Who waits for a job that throws gets an error") {
  boost::asio::io_context io;
  ThreadWorker worker("thrower", 1);  // ends first: it is still posting when the answer is there
  auto job = []() -> Result<int> { throw std::runtime_error("planted"); };
  std::optional<Result<int>> answer;
  boost::asio::co_spawn(io, run_on<int>(worker, job),
                        [&answer](std::exception_ptr error, Result<int> result) {
                          CHECK_FALSE(error);
                          answer.emplace(std::move(result));
                        });
  io.run();
  REQUIRE(answer);
  REQUIRE_FALSE(*answer);
  CHECK(answer->error().code == Errc::io);
  CHECK(answer->error().context.find("planted") != std::string::npos);
}

TEST_CASE("An error tells that it comes of an exception") {
  Error error;
  try {
    throw std::runtime_error("planted");
  } catch (...) {
    error = error_of_exception("a place");
  }
  CHECK(error.context == "exception in a place: planted");
  CHECK(error.thrown);
  CHECK_FALSE(fail(Errc::io, error.context).thrown);
}

TEST_CASE("Memory that is not to be had is told from other exceptions") {
  CHECK(is_out_of_memory(std::make_exception_ptr(std::bad_alloc())));
  CHECK_FALSE(is_out_of_memory(std::make_exception_ptr(std::runtime_error("x"))));
  CHECK_FALSE(is_out_of_memory(nullptr));
}

}  // namespace
}  // namespace penstock
