// How a thread that may block waits for what runs on an I/O thread. Never on an I/O thread: it
// would wait for itself, and all that it serves with it.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

#include "penstock/caught.h"
#include "penstock/result.h"

namespace penstock {

// Runs `task` on the context's thread and waits for its end. Pre: the context runs until then.
// Errors: the task's; what it throws becomes the error of `what`.
template <class T>
Result<T> wait_on(boost::asio::io_context& io, Task<T> task, const char* what) {
  std::promise<Result<T>> promise;
  auto future = promise.get_future();
  boost::asio::co_spawn(io, std::move(task),
                        [&promise, what](std::exception_ptr error, Result<T> result) {
                          if (error) result = error_of_exception(what, error);
                          promise.set_value(std::move(result));
                        });
  return future.get();
}

// The same for one that has no result; what it throws is reported.
inline void wait_on(boost::asio::io_context& io, Awaitable<void> task, const char* what) {
  std::promise<void> promise;
  boost::asio::co_spawn(io, std::move(task), [&promise, what](std::exception_ptr error) {
    if (error) report_exception(what, error);
    promise.set_value();
  });
  promise.get_future().get();
}

// Calls `function`, which returns a Result<>, on the context's thread and waits for it.
template <class Function>
Result<> call_on(boost::asio::io_context& io, Function function, const char* what) {
  std::promise<Result<>> promise;
  boost::asio::post(io, [&promise, &function, what] {
    try {
      promise.set_value(function());
    } catch (...) {
      promise.set_value(error_of_exception(what));
    }
  });
  return promise.get_future().get();
}

}  // namespace penstock
