#include "penstock/result.h"

#include <cstdio>
#include <cstdlib>
#include <ostream>

#include "penstock/log.h"

namespace penstock {

void throw_exception_from_error(const Error& error, const boost::source_location& where) {
  flush_log();  // what came before
  std::fprintf(stderr, "%s:%u: value of an error taken: %s: %s\n", where.file_name(),
               static_cast<unsigned>(where.line()), std::string(to_string(error.code)).c_str(),
               error.context.c_str());
  std::abort();
}

std::ostream& print_result(std::ostream& out, const Error* error) {
  if (error == nullptr) return out << "ok";
  return out << to_string(error->code) << ": " << error->context;
}

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::invalid:
      return "invalid";
    case Errc::not_found:
      return "not_found";
    case Errc::corrupt:
      return "corrupt";
    case Errc::io:
      return "io";
    case Errc::unavailable:
      return "unavailable";
    case Errc::timeout:
      return "timeout";
    case Errc::refused:
      return "refused";
    case Errc::stale_epoch:
      return "stale_epoch";
    case Errc::stale_bucket:
      return "stale_bucket";
    case Errc::upload_not_open:
      return "upload_not_open";
    case Errc::upload_missing:
      return "upload_missing";
    case Errc::full:
      return "full";
    case Errc::overloaded:
      return "overloaded";
    case Errc::unknown_outcome:
      return "unknown_outcome";
    case Errc::busy:
      return "busy";
    case Errc::aborted:
      return "aborted";
    case Errc::precondition:
      return "precondition";
    case Errc::shutting_down:
      return "shutting_down";
    case Errc::epoch_behind:
      return "epoch_behind";
  }
  return "?";
}

}  // namespace penstock
