#include "cli/bench/loaded_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace baton::cli {

loaded_library::loaded_library(const char* title, const char* variable,
                               std::initializer_list<const char*> names)
    : title_{title} {
  const auto open = [](const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); };
  if (const char* named = std::getenv(variable); named != nullptr) {
    handle_ = open(named);
  } else {
    for (auto name = names.begin(); handle_ == nullptr && name != names.end(); ++name) handle_ = open(*name);
  }
  if (handle_ != nullptr) return;
  const char* reason = dlerror();
  why_not_ = fmt::format("{}; set {} to the path of a {}", reason != nullptr ? reason : "", variable,
                         *names.begin());
}

void* loaded_library::address(const char* name) {
  void* found = handle_ == nullptr ? nullptr : dlsym(handle_, name);
  if (found == nullptr && why_not_.empty()) why_not_ = fmt::format("the {} library has no {}", title_, name);
  return found;
}

}  // namespace baton::cli
