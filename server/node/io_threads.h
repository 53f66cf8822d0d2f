// The process's I/O threads: one io_context each; a connection lives on one of them and never
// moves. Thread-safety: any thread.
#pragma once
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace penstock {

class IoThreads {
 public:
  // Starts `count` threads, at least one.
  explicit IoThreads(unsigned count);
  ~IoThreads();  // stop() and join
  std::size_t size() const { return contexts_.size(); }
  boost::asio::io_context& at(std::size_t index) { return *contexts_[index]; }
  // Round robin.
  boost::asio::io_context& next() { return *contexts_[next_.fetch_add(1) % contexts_.size()]; }
  // Ends the threads. What still waits on them is destroyed with this object.
  void stop();

 private:
  using Guard = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;
  std::vector<std::unique_ptr<boost::asio::io_context>> contexts_;
  std::vector<Guard> guards_;
  std::vector<std::thread> threads_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace penstock
