#pragma once
// Rank 0's ear: who of those that connect is a rank of its job.
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/frames.hpp"

namespace baton::bootstrap {

class admission {
 public:
  explicit admission(const rendezvous_config& m);

  /// Until all ranks are there; [r] leads to rank r. @throws transport_error  which all who have come are told, too
  std::vector<file_descriptor> run(const file_descriptor& listener);

  /// What has arrived on one connection: bytes of somebody whom nobody vouches for. Strangers are ignored, ranks of
  /// another job refused. @throws transport_error  if no world can come of it
  void hear(file_descriptor connection);

  /// Of the ranks that have come, [r] of rank r.
  const std::vector<file_descriptor>& peers() const { return peers_; }

 private:
  std::string objection_to(const hello& h) const;
  void forget_ended();
  std::vector<int> missing() const;
  std::vector<std::int64_t> processes() const;

  const rendezvous_config& m_;
  std::vector<file_descriptor> peers_;
};

}  // namespace baton::bootstrap
