#pragma once
// Rank 0 keeps the name at which its ranks met for as long as the world lives, so that no second job meets there.
#include <memory>
#include <string>

#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/time_limit.hpp"

namespace baton::bootstrap {

/// Held by this process until the last copy is gone; worlds of one process share it. Processes forked from this one
/// do not hold it.
class name_claim {
 public:
  /// Null: another process holds the name.
  static std::shared_ptr<name_claim> try_take(const std::string& name);

  explicit name_claim(file_descriptor socket) : socket_{std::move(socket)} {}
  void let_go() { socket_ = {}; }

 private:
  file_descriptor socket_;
};

}  // namespace baton::bootstrap
