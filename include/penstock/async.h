// Bridges between callbacks, threads and coroutines. Nothing else in the product touches Asio's
// initiation machinery.
#pragma once
#include <atomic>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "penstock/caught.h"
#include "penstock/result.h"
#include "penstock/runtime.h"

namespace penstock {

// The one-shot answer of a call that ends on another thread or in another coroutine. Copyable; the
// first call of operator() counts, later ones are ignored, so that an answer, a deadline and a
// shutdown may race. The awaiting coroutine resumes on its own executor, always by post (never
// inside the call of operator()). Thread-safety: callable from any thread.
template <class T>
class Completion {
 public:
  template <class Handler>
  explicit Completion(Handler handler)
      : state_(std::make_shared<Model<Handler>>(std::move(handler))) {}
  void operator()(Result<T> result) const { state_->complete(std::move(result)); }

 private:
  struct State {
    virtual ~State() = default;
    virtual void complete(Result<T> result) = 0;
  };
  template <class Handler>
  struct Model final : State {
    explicit Model(Handler h)
        : work(boost::asio::make_work_guard(boost::asio::get_associated_executor(h))),
          handler(std::move(h)) {}
    void complete(Result<T> result) override {
      if (done.exchange(true)) return;
      auto executor = work.get_executor();
      boost::asio::post(executor, [h = std::move(handler), r = std::move(result),
                                   w = std::move(work)]() mutable { std::move(h)(std::move(r)); });
    }
    std::atomic<bool> done{false};
    boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler>> work;
    Handler handler;
  };
  std::shared_ptr<State> state_;
};

// co_await await_completion<T>(start): calls start(Completion<T>) and suspends until the completion
// is called. `start` is taken by value; name it before the co_await (GCC 12 destroys captured
// temporaries twice).
template <class T, class Start>
Task<T> await_completion(Start start) {
  auto initiate = [](auto handler, Start begin) { begin(Completion<T>(std::move(handler))); };
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<Executor>, void(Result<T>)>(
      std::move(initiate), use_task, std::move(start));
}

// Runs `function` (returning Result<T>) on `worker` and resumes here with its result; with `io` if
// it throws.
template <class T, class Function>
Task<T> run_on(Worker& worker, Function function) {
  auto start = [&worker, f = std::move(function)](Completion<T> done) mutable {
    worker.submit([f = std::move(f), done = std::move(done)]() mutable {
      try {
        done(f());
      } catch (...) {  // whoever waits must not wait for ever
        done(error_of_exception("a job"));
      }
    });
  };
  return await_completion<T>(std::move(start));
}

}  // namespace penstock
