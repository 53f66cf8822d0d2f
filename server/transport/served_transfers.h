// The fragments that one connection is writing here, by the request ids of their write_fragment.
// The steps of each are taken one after another, those of different ones side by side; what is not
// committed when the connection ends is forgotten.
// Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "server/transport/wire.h"

namespace penstock {

class ServedTransfers {
 public:
  ServedTransfers(Executor executor, Clock& clock)
      : executor_(std::move(executor)), clock_(clock) {}
  ~ServedTransfers() { drop_all(); }

  // Called once with what came of a step.
  using Answer = std::function<void(Result<>)>;

  // Errors in the answers: the writer's; invalid - the id is in use, or not known; corrupt - a
  // block was changed on its way; overloaded.
  void open(std::uint64_t id, std::shared_ptr<VolumeClient> volume, wire::WriteFragment message,
            Deadline deadline, Answer answer);
  void append(wire::Append message, Buffer payload, Deadline deadline, Answer answer);
  void commit(std::uint64_t id, Deadline deadline, Answer answer);
  // Forgets it, after a step that is under way. An unknown one: nothing.
  void discard(std::uint64_t id);
  void drop_all();
  // Forgets those that nothing came for since `before`.
  void drop_idle(BootTime before);
  std::size_t size() const { return transfers_.size(); }

 private:
  struct Transfer;
  using Shared = std::shared_ptr<Transfer>;
  using Step = std::function<Task<>(Transfer&)>;
  struct Job {
    Step step;
    Answer answer;
  };
  struct Transfer {
    FragmentId fragment;
    std::uint64_t written = 0;  // bytes of the pieces that were taken
    std::unique_ptr<FragmentWriter> writer;
    std::deque<Job> jobs;
    bool running = false;
    bool dropped = false;
    std::optional<Error> failed;  // of a step before: final
    BootTime last{};
  };
  void add(const Shared& transfer, Step step, Answer answer);
  Shared find(std::uint64_t id) const;
  static void drop(Transfer& transfer);
  static Awaitable<void> run(Shared transfer);
  static Task<> take_step(Transfer& transfer, const Step& step);

  const Executor executor_;
  Clock& clock_;
  std::unordered_map<std::uint64_t, Shared> transfers_;
};

}  // namespace penstock
