#include "server/node/io_threads.h"

#include <pthread.h>

#include <algorithm>
#include <string>

#include "penstock/caught.h"

namespace penstock {
namespace {

// What a handler throws ends that handler; the loop goes on with the next.
void run_context(boost::asio::io_context& context) {
  while (true) {
    try {
      context.run();
      return;
    } catch (...) {
      report_exception("an I/O loop");
    }
  }
}

}  // namespace

IoThreads::IoThreads(unsigned count) {
  for (unsigned i = 0; i < std::max(count, 1u); ++i) {
    contexts_.push_back(std::make_unique<boost::asio::io_context>(1));
    guards_.emplace_back(contexts_.back()->get_executor());
  }
  for (std::size_t i = 0; i < contexts_.size(); ++i) {
    threads_.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), ("io-" + std::to_string(i)).c_str());
      run_context(*contexts_[i]);
    });
  }
}

IoThreads::~IoThreads() { stop(); }

void IoThreads::stop() {
  for (auto& context : contexts_) context->stop();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace penstock
