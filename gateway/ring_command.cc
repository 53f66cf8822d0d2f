#include "gateway/ring_command.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "penstock/result.h"

namespace penstock {
namespace {

using RingJson = nlohmann::json;

// By pointer: a JSON value can be made from nearly everything, from an error, too.
using RingAnswer = Result<std::shared_ptr<const RingJson>>;

constexpr std::size_t kAnswerBytesMax = 16 << 20;
constexpr timeval kPatience{10, 0};
constexpr timeval kLongPatience{120, 0};  // a volume is formatted meanwhile
constexpr std::chrono::milliseconds kLookEvery{500};

Result<std::string> send_and_receive(int fd, const std::string& question) {
  std::size_t sent = 0;
  while (sent < question.size()) {
    const auto count = ::send(fd, question.data() + sent, question.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return fail(Errc::io, "the store closed the connection");
    sent += static_cast<std::size_t>(count);
  }
  std::string answer;
  char bytes[4096];
  while (answer.size() < kAnswerBytesMax) {
    const auto got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got < 0) return fail(Errc::timeout, "the store does not answer");
    if (got == 0) break;
    answer.append(bytes, static_cast<std::size_t>(got));
  }
  return answer;
}

// The whole of one connection. The directory is opened first: its path may be longer than the
// address of a socket can be.
RingAnswer ask_store(const std::string& directory, const RingJson& question,
                     timeval patience = kPatience) {
  const int folder = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return fail(Errc::not_found, "cannot open \"" + directory + "\": " + std::strerror(errno));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/control.sock", folder);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // connect(), too
  Result<std::string> answer = fail(Errc::unavailable, "no socket");
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    answer = send_and_receive(fd, question.dump() + "\n");
  } else {
    const bool forbidden = errno == EACCES || errno == EPERM;
    const bool slow = errno == EAGAIN || errno == EINPROGRESS;
    const bool volume = ::faccessat(folder, "volume.json", F_OK, 0) == 0;
    const bool cluster = ::faccessat(folder, "cluster.json", F_OK, 0) == 0;
    std::string why = "no store runs in \"" + directory + "\"";
    if (forbidden) {
      why = "only who runs the store may change it: become that user";
    } else if (slow) {
      why = "the store does not answer";
    } else if (cluster) {
      why += ": it holds the settings of a cluster; ask that with `--cluster " + directory + "`";
    } else if (volume) {
      why += ": it is one volume of a store; start that with all of them, or ask in another";
    } else {
      why += ": start it with `penstock local " + directory + "`";
    }
    answer = fail(Errc::unavailable, why);
  }
  ::close(fd);
  ::close(folder);
  if (!answer) return answer.error();
  auto json = std::make_shared<const RingJson>(RingJson::parse(*answer, nullptr, false));
  if (!json->is_object()) return fail(Errc::corrupt, "the store gave no answer");
  if (!json->value("ok", false)) return fail(Errc::invalid, json->value("error", "it failed"));
  return RingAnswer(std::move(json));
}

int tell_failure(const Error& error) {
  std::fprintf(stderr, "penstock: %s\n", error.context.c_str());
  return 1;
}

std::string change_line(const RingJson& change) {
  std::string line = change.value("leaving", "?") + " is being replaced by " +
                     change.value("joining", "?") + ", " + change.value("phase", "?");
  const std::string what = change.value("what", "");
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, ": %llu of %llu, %.0f/s", change.value("done", 0ull),
                change.value("total", 0ull), change.value("rate", 0.0));
  if (!what.empty()) line += ": " + what + numbers;
  const std::string trouble = change.value("trouble", "");
  if (!trouble.empty()) line += "\n         waits: " + trouble;
  return line;
}

void print_volume(const RingJson& volume) {
  std::string state = volume.value("state", "?");
  if (volume.value("suspect", false)) state += volume.value("slow", false) ? " slow" : " suspect";
  if (volume.value("full", false)) state += " full";
  const std::string role = volume.value("role", "");
  if (role != "member") state += " " + role;
  const std::string reason = volume.value("reason", "");
  std::fprintf(stdout, "  %-6s %-18s %-16s %9llu fragments  %8.1f GiB free  %s%s\n",
               volume.value("name", "?").c_str(), volume.value("id", "?").c_str(), state.c_str(),
               volume.value("fragments", 0ull),
               static_cast<double>(volume.value("free_bytes", 0ull)) / (1 << 30),
               volume.value("path", "").c_str(),
               reason.empty() ? "" : ("  (" + reason + ")").c_str());
}

// Nothing is to be done.
bool is_well(const RingJson& status) {
  return status.value("whole", false) && status.value("writable", false);
}

void print_status(const RingJson& status) {
  const bool whole = status.value("whole", false);
  std::fprintf(stdout, "%s, %s; map epoch %llu; survives the loss of %u volumes when whole\n",
               whole ? "whole" : "not whole",
               status.value("writable", false) ? "takes writes" : "takes no writes",
               status.value("map_epoch", 0ull), status.value("survives_losses", 0u));
  for (const RingJson& volume : status["volumes"]) print_volume(volume);
  if (status["change"].is_object()) {
    std::fprintf(stdout, "change:  %s\n", change_line(status["change"]).c_str());
  } else if (!whole) {
    std::fprintf(stdout,
                 "replace a lost volume: penstock ring replace DIR --volume NAME --with "
                 "NEWDIR\n");
  }
}

int wait_for_end(const std::string& directory) {
  std::string told;
  while (true) {
    const auto status = ask_store(directory, RingJson{{"op", "status"}}, kLongPatience);
    if (!status) return tell_failure(status.error());
    const RingJson& now = **status;
    if (!now["change"].is_object()) {
      print_status(now);
      return 0;
    }
    const std::string line = change_line(now["change"]);
    if (line != told) std::fprintf(stdout, "%s\n", line.c_str());
    std::fflush(stdout);
    told = line;
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace

int show_ring_status(const std::string& directory, bool json) {
  const auto status = ask_store(directory, RingJson{{"op", "status"}});
  if (!status) return tell_failure(status.error());
  const bool well = is_well(**status);
  if (json) {
    RingJson shown = **status;
    shown["ok"] = well;  // as that of a cluster: not whether the question was answered
    std::fprintf(stdout, "%s\n", shown.dump(2).c_str());
  } else {
    print_status(**status);
  }
  return well ? 0 : kExitTrouble;
}

int replace_ring_volume(const std::string& directory, const std::string& volume,
                        const std::string& with, bool wait) {
  std::error_code error;
  // Else a relative path of nothing that is there yet would stay relative.
  const auto whole = std::filesystem::absolute(with, error);
  const std::string path = error ? "" : std::filesystem::weakly_canonical(whole, error).string();
  if (error || path.empty()) return tell_failure(fail(Errc::invalid, "no such path: " + with));
  std::string which = volume;
  if (which.find('/') != std::string::npos) {
    which = std::filesystem::weakly_canonical(volume, error).string();
  }
  const RingJson question{{"op", "replace"}, {"volume", which}, {"with", path}};
  const auto begun = ask_store(directory, question, kLongPatience);
  if (!begun) return tell_failure(begun.error());
  if (wait) return wait_for_end(directory);
  std::fprintf(stdout, "begun; look at it with: penstock ring status %s\n", directory.c_str());
  return 0;
}

}  // namespace penstock
