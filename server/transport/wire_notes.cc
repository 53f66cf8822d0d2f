#include "server/transport/wire.h"
#include "server/transport/wire_fields.h"

// The messages about starts (R13) and about where volumes are served.
namespace penstock::wire {

std::string encode(const ReadNote& message) { return FieldWriter().text(message.name).finish(); }
Result<ReadNote> decode_read_note(std::string_view bytes) {
  FieldReader reader(bytes);
  ReadNote message;
  message.name = reader.text();
  if (message.name.size() > kNoteNameBytesMax) {
    return fail(Errc::corrupt, "wire: name of a note out of bounds");
  }
  return reader.finish(std::move(message));
}

std::string encode(const PutNote& message) {
  return FieldWriter().text(message.name).text(message.bytes).finish();
}
Result<PutNote> decode_put_note(std::string_view bytes) {
  FieldReader reader(bytes);
  PutNote message;
  message.name = reader.text();
  message.bytes = reader.text();
  if (message.name.size() > kNoteNameBytesMax || message.bytes.size() > kNoteBytesMax) {
    return fail(Errc::corrupt, "wire: note out of bounds");
  }
  return reader.finish(std::move(message));
}

std::string encode(const NoteReply& reply) {
  FieldWriter writer;
  writer.flag(reply.bytes.has_value());
  if (reply.bytes) writer.text(*reply.bytes);
  return writer.number(reply.map).finish();
}
Result<NoteReply> decode_note_reply(std::string_view bytes) {
  FieldReader reader(bytes);
  NoteReply reply;
  if (reader.flag()) reply.bytes = reader.text();
  reply.map = reader.number<std::uint64_t>();
  if (reply.bytes && reply.bytes->size() > kNoteBytesMax) {
    return fail(Errc::corrupt, "wire: note out of bounds");
  }
  return reader.finish(std::move(reply));
}

std::string encode(const std::vector<Place>& places) {
  return FieldWriter().places(places).finish();
}
Result<std::vector<Place>> decode_places(std::string_view bytes) {
  FieldReader reader(bytes);
  auto places = reader.places();
  return reader.finish(std::move(places));
}

}  // namespace penstock::wire
