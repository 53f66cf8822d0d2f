// Who may read files with secrets. Pure.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

namespace penstock {

// May others than the owner read or write a file? A group may read what root owns and hands to a
// service that runs as somebody else.
inline bool is_open_to_others(const struct stat& status) {
  mode_t forbidden = S_IRWXG | S_IRWXO;
  if (status.st_uid == 0 && ::geteuid() != 0) forbidden &= ~mode_t{S_IRGRP};
  return (status.st_mode & forbidden) != 0;
}

}  // namespace penstock
