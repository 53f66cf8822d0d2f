// At most so many do a thing at a time; the others wait. For work that keeps all threads busy when
// a few do it, and holds much memory each: more at a time would only hold more. Parties that wait
// are served in rotation, and those of one party in the order in which they came: who asks for much
// waits for himself.
// Thread-safety: all methods from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "penstock/runtime.h"

namespace penstock {

class Turns {
 public:
  explicit Turns(std::size_t at_once);
  ~Turns();

  // Gives the turn to the next one when it is destroyed. May outlive the Turns.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept : state_(std::move(other.state_)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(state_, other.state_);
      return *this;
    }
    ~Turn();

   private:
    friend class Turns;  // one class in two halves
    struct State;
    explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  // Errors: overloaded - it did not come by `until`.
  Task<Turn> take(Clock& clock, std::uint32_t party, BootTime until);
  std::size_t waiting() const;

 private:
  const std::shared_ptr<Turn::State> state_;
};

}  // namespace penstock
