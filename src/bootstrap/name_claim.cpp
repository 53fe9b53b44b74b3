#include "bootstrap/name_claim.hpp"

#include <pthread.h>

#include <map>
#include <mutex>

#include "bootstrap/unix_socket.hpp"

namespace baton::bootstrap {
namespace {

/// Of this process. Never destroyed: worlds may live until the very end.
struct claims {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<name_claim>> by_name;
  static claims& all() {
    static claims* const only = new claims;
    return *only;
  }
};

void before_fork() {
  claims::all().mutex.lock();
}
void in_parent() {
  claims::all().mutex.unlock();
}
void in_child() {
  for (auto& [name, held] : claims::all().by_name)
    if (const auto claim = held.lock()) claim->let_go();
  claims::all().by_name.clear();
  claims::all().mutex.unlock();
}

}  // namespace

std::shared_ptr<name_claim> name_claim::try_take(const std::string& name) {
  static const int registered = ::pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(registered);
  const std::lock_guard lock{claims::all().mutex};
  std::weak_ptr<name_claim>& known = claims::all().by_name[name];
  if (auto held = known.lock()) return held;
  file_descriptor socket = try_claim(name);
  if (!socket) return nullptr;
  auto taken = std::make_shared<name_claim>(std::move(socket));
  known = taken;
  return taken;
}

}  // namespace baton::bootstrap
