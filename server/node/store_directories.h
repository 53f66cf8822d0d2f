// The directories that a store was started with, and where they say its volumes lie.
//
// A single directory holds the volumes, DIR/v0 … and a list of those that lie elsewhere
// (volume_list.h); of several, each is one volume. Paths are plain (volume_notes.h).
// Thread-safety: any thread, but for follow_links(); calls block on the disk of the single
// directory.
#pragma once
#include <string>
#include <vector>

namespace penstock {

class StoreDirectories {
 public:
  // `volumes`: how many a fresh store has under a single directory. Pre: there is a directory.
  StoreDirectories(const std::vector<std::string>& directories, unsigned volumes);

  // Asks the disk of a single directory for its path without links. Not of a server's: its
  // directory is a volume, whose disk may hang. Without this call links count as they are given.
  void follow_links();

  const std::vector<std::string>& paths() const { return paths_; }
  bool is_single() const { return paths_.size() == 1; }

  // Where volumes lie first: those that are there, and those that a fresh store would have.
  std::vector<std::string> first_places() const;
  // How a place is written down, and back: below a single directory without that, so that a
  // directory which was moved or copied has its own volumes, and not those of the old one.
  std::string noted(const std::string& place) const;
  std::string place_of(const std::string& noted) const;
  bool is_below(const std::string& place) const;  // a single directory

  // What the list of a single directory says, and what is added to it. Trouble with it is logged:
  // the volumes know it as well.
  std::vector<std::string> listed_places() const;
  void list_places(const std::vector<std::string>& places) const;

  // What a volume elsewhere notes of a single directory: its path without links.
  const std::string& home() const { return real_; }

 private:
  // The path that is compared: without the links on the way to a single directory.
  std::string real(const std::string& place) const;

  std::vector<std::string> paths_;
  std::string real_;  // of a single directory
  unsigned volumes_;
};

}  // namespace penstock
