// What a server has to know of an operation before it has looked at its fields: how it is taken,
// and how long its answer may be. Thread-safety: pure functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "penstock/result.h"
#include "server/transport/frame.h"

namespace penstock {

// What needs no volume is answered while all of them are at their bounds: who asks whether this
// server is there must hear that it is.
bool is_at_once(wire::Operation operation);
// Of what is no list, and neither a row nor a map, the fields are short.
bool may_be_long(wire::Operation operation);
// By which processes find out which map counts, and by which volumes start: goes by what the volume
// holds, whatever map its process is at.
bool is_about_maps(wire::Operation operation);
// Of a fragment that is being written.
bool is_step(wire::Operation operation);
// ... that was opened before: without this step all of it is lost.
bool is_later_step(wire::Operation operation);
// By a server that stops, before it begins.
bool is_refused_at_stop(wire::Operation operation);

// Answers that may be long, for which there must be room before their volume is asked.
enum class AnswerKind : std::uint8_t { brief, piece, list };
struct AnswerRoom {
  AnswerKind kind = AnswerKind::brief;
  std::size_t bytes = 0;
};
AnswerRoom answer_room(wire::Operation operation, std::string_view fields);

// Does an error say something of the volume? Not what rounds answer each other all day.
bool is_trouble(Errc code);

}  // namespace penstock
