#include "tests/sim/hung_disk.h"

namespace penstock::sim {

class HungDisk::StuckWorker final : public Worker {
 public:
  StuckWorker(std::shared_ptr<HungDisk> disk, unsigned kinds, std::unique_ptr<Worker> inner,
              std::shared_ptr<DiskWatch> watch)
      : disk_(std::move(disk)),
        kinds_(kinds),
        inner_(std::move(inner)),
        watch_(std::move(watch)),
        thread_(std::make_shared<Thread>()) {}

  void submit(std::function<void()> job) override {
    if (thread_->abandoned) return;
    inner_->submit([disk = disk_, kinds = kinds_, watch = watch_, thread = thread_,
                    job = std::move(job)]() mutable {
      if (thread->abandoned) return;
      if ((disk->kinds_ & kinds) == 0) return job();
      const bool first = !std::exchange(thread->stuck, true);
      disk->waiting_.push_back(Job{thread, first, std::move(job)});
      if (disk->call_) return;
      disk->watch_ = watch;
      disk->call_ = std::make_unique<DiskWatch::Call>(*watch, "call");
    });
  }
  void abandon() override {
    thread_->abandoned = true;
    std::erase_if(disk_->waiting_, [this](const Job& waiting) {
      return waiting.thread == thread_ && !waiting.stuck;
    });
  }

 private:
  std::shared_ptr<HungDisk> disk_;
  unsigned kinds_;
  std::unique_ptr<Worker> inner_;
  std::shared_ptr<DiskWatch> watch_;
  std::shared_ptr<Thread> thread_;
};

void HungDisk::answer_again() {
  kinds_ = 0;
  call_.reset();
  for (Job& waiting : std::exchange(waiting_, {})) {
    waiting.thread->stuck = false;
    time_.after(0, std::move(waiting.run));
  }
}

std::unique_ptr<Worker> HungDisk::make_worker(std::shared_ptr<HungDisk> disk, unsigned kinds,
                                              std::unique_ptr<Worker> inner,
                                              std::shared_ptr<DiskWatch> watch) {
  return std::make_unique<StuckWorker>(std::move(disk), kinds, std::move(inner), std::move(watch));
}

}  // namespace penstock::sim
