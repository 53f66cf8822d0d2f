#include "gateway/s3/http_date.h"

#include <array>
#include <charconv>

namespace penstock {
namespace {

constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct Fields {
  std::chrono::year_month_day date;
  std::chrono::weekday weekday;
  std::chrono::hh_mm_ss<std::chrono::microseconds> time;
};
Fields split(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  return {std::chrono::year_month_day{day}, std::chrono::weekday{day},
          std::chrono::hh_mm_ss<std::chrono::microseconds>{time - day}};
}

// `value` in `width` decimal digits with leading zeros.
void put(std::string& out, std::uint64_t value, int width) {
  char digits[20];
  for (int i = width - 1; i >= 0; --i) {
    digits[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  out.append(digits, static_cast<std::size_t>(width));
}
void put_clock(std::string& out, const Fields& f) {
  put(out, static_cast<std::uint64_t>(f.time.hours().count()), 2);
  out += ':';
  put(out, static_cast<std::uint64_t>(f.time.minutes().count()), 2);
  out += ':';
  put(out, static_cast<std::uint64_t>(f.time.seconds().count()), 2);
}

// Reads a date from left to right; after the first mismatch ok() is false.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  void literal(std::string_view text) {
    if (!rest_.starts_with(text)) ok_ = false;
    if (ok_) rest_.remove_prefix(text.size());
  }
  // Drops the name of a day, short or long: it is redundant.
  void day_name() {
    const auto letters =
        rest_.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (letters == std::string_view::npos || letters < 3) ok_ = false;
    if (ok_) rest_.remove_prefix(letters);
  }
  unsigned month() {
    for (unsigned i = 0; i < kMonths.size(); ++i) {
      if (!rest_.starts_with(kMonths[i])) continue;
      rest_.remove_prefix(3);
      return i + 1;
    }
    ok_ = false;
    return 1;
  }
  int number(std::size_t width) {
    int value = 0;
    if (!ok_ || rest_.size() < width) return fail();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + width, value);
    if (error != std::errc{} || end != rest_.data() + width || value < 0) return fail();
    rest_.remove_prefix(width);
    return value;
  }
  // The day of asctime: two digits, or a blank and one.
  int padded_day() {
    if (!rest_.starts_with(' ')) return number(2);
    rest_.remove_prefix(1);
    return number(1);
  }
  // The zone at the end: how far its clocks are ahead.
  std::chrono::minutes zone() {
    constexpr std::array<std::string_view, 3> kUniversal{"GMT", "UTC", "UT"};
    for (const std::string_view name : kUniversal) {
      if (!ok_ || rest_ != name) continue;
      rest_ = {};
      return {};
    }
    const bool behind = next_is('-');
    literal(behind ? "-" : "+");
    const int hours = number(2);
    const int minutes = number(2);
    if (hours > 23 || minutes > 59) ok_ = false;
    const auto ahead = std::chrono::hours{hours} + std::chrono::minutes{minutes};
    return behind ? -ahead : ahead;
  }
  bool next_is(char c) const { return ok_ && rest_.starts_with(c); }

 private:
  int fail() {
    ok_ = false;
    return 0;
  }
  std::string_view rest_;
  bool ok_ = true;
};

struct Clock3 {
  int hour = 0, minute = 0, second = 0;
};
Clock3 scan_clock(Scanner& scan) {
  Clock3 clock;
  clock.hour = scan.number(2);
  scan.literal(":");
  clock.minute = scan.number(2);
  scan.literal(":");
  clock.second = scan.number(2);
  return clock;
}

std::optional<WallTime> join(int year, unsigned month, int day, Clock3 clock) {
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok() || clock.hour > 23 || clock.minute > 59 || clock.second > 60) return std::nullopt;
  return WallTime{std::chrono::sys_days{date}} + std::chrono::hours{clock.hour} +
         std::chrono::minutes{clock.minute} + std::chrono::seconds{clock.second};
}

}  // namespace

std::string http_date(WallTime time) {
  const Fields f = split(time);
  std::string out;
  out.reserve(29);
  out += kDays[f.weekday.c_encoding()];
  out += ", ";
  put(out, static_cast<unsigned>(f.date.day()), 2);
  out += ' ';
  out += kMonths[static_cast<unsigned>(f.date.month()) - 1];
  out += ' ';
  put(out, static_cast<std::uint64_t>(static_cast<int>(f.date.year())), 4);
  out += ' ';
  put_clock(out, f);
  out += " GMT";
  return out;
}

// A page of LIST has a thousand of them: so digits are put where they belong, into one string.
std::string iso_date(WallTime time) {
  const Fields f = split(time);
  std::string out = "0000-00-00T00:00:00.000Z";
  const auto digits = [&out](std::size_t end, std::uint64_t value) {
    for (; value > 0; value /= 10) out[--end] += static_cast<char>(value % 10);
  };
  digits(4, static_cast<std::uint64_t>(static_cast<int>(f.date.year())) % 10'000);
  digits(7, static_cast<unsigned>(f.date.month()));
  digits(10, static_cast<unsigned>(f.date.day()));
  digits(13, static_cast<std::uint64_t>(f.time.hours().count()));
  digits(16, static_cast<std::uint64_t>(f.time.minutes().count()));
  digits(19, static_cast<std::uint64_t>(f.time.seconds().count()));
  digits(23, static_cast<std::uint64_t>(f.time.subseconds().count()) / 1000);
  return out;
}

std::optional<WallTime> parse_http_date(std::string_view text) {
  Scanner scan(text);
  scan.day_name();
  if (scan.next_is(' ')) {  // asctime: Sun Nov  6 08:49:37 1994
    scan.literal(" ");
    const unsigned month = scan.month();
    scan.literal(" ");
    const int day = scan.padded_day();
    scan.literal(" ");
    const Clock3 clock = scan_clock(scan);
    scan.literal(" ");
    const int year = scan.number(4);
    return scan.at_end() ? join(year, month, day, clock) : std::nullopt;
  }
  scan.literal(", ");
  const int day = scan.number(2);
  const bool rfc850 = scan.next_is('-');  // Sunday, 06-Nov-94 08:49:37 GMT
  scan.literal(rfc850 ? "-" : " ");
  const unsigned month = scan.month();
  scan.literal(rfc850 ? "-" : " ");
  int year = scan.number(rfc850 ? 2 : 4);
  if (rfc850) year += year < 70 ? 2000 : 1900;  // the pivot of POSIX; nobody sends these forms now
  scan.literal(" ");
  const Clock3 clock = scan_clock(scan);
  scan.literal(" ");
  const std::chrono::minutes ahead = scan.zone();
  auto time = scan.at_end() ? join(year, month, day, clock) : std::nullopt;
  if (time) *time -= ahead;
  return time;
}

}  // namespace penstock
