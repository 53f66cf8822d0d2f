// What all workers on real threads (runtime.h, worker_pool.h) do alike.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>

#include "penstock/caught.h"
#include "penstock/result.h"

namespace penstock {

// As much of a name as pthread_setname_np(3) takes.
inline std::string thread_name(std::string name) {
  constexpr std::size_t kNameMax = 15;
  name.resize(std::min(name.size(), kNameMax));
  return name;
}

// Worker::on_thrown() says what becomes of a throw. `listener` may be empty.
inline void run_worker_job(const std::string& worker, const std::function<void()>& job,
                           const std::function<void(const Error&)>& listener) {
  try {
    job();
  } catch (...) {
    const Error error = error_of_exception("a job of " + worker);
    if (listener) listener(error);
  }
}

}  // namespace penstock
