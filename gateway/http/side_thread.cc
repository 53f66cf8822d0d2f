#include "gateway/http/side_thread.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "penstock/caught.h"

namespace penstock {

struct SideThread::State {
  std::string name;
  std::chrono::milliseconds every{};
  std::function<void()> step;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool poked = false;
  bool stopping = false;
  bool ended = false;
  std::thread thread;

  void run() {
    pthread_setname_np(pthread_self(), name.c_str());
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait_for(lock, every, [this] { return poked || stopping; });
      const bool last = stopping;
      poked = false;
      lock.unlock();
      try {
        step();
      } catch (...) {
        report_exception(name);
      }
      lock.lock();
      if (last) break;
    }
    ended = true;
    changed.notify_all();
  }
};

SideThread::SideThread(std::string name, std::chrono::milliseconds every,
                       std::function<void()> step)
    : state_(std::make_shared<State>()) {
  name.resize(std::min<std::size_t>(name.size(), 15));  // pthread_setname_np's bound
  state_->name = std::move(name);
  state_->every = every;
  state_->step = std::move(step);
  state_->thread = std::thread([state = state_] { state->run(); });
}

SideThread::~SideThread() { stop(std::chrono::seconds(1)); }

void SideThread::poke() {
  const std::lock_guard lock(state_->mutex);
  state_->poked = true;
  state_->changed.notify_all();
}

bool SideThread::stop(std::chrono::milliseconds patience) {
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    if (!state_->thread.joinable()) return state_->ended;
    state_->stopping = true;
    state_->changed.notify_all();
    ended = state_->changed.wait_for(lock, patience, [this] { return state_->ended; });
  }
  if (ended) {
    state_->thread.join();
  } else {
    state_->thread.detach();
  }
  return ended;
}

}  // namespace penstock
