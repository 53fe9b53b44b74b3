#pragma once
// A library that a comparison needs and baton does not: found when the program runs, or not at all. It stays loaded until the
// program ends, since such libraries have threads of their own.
#include <initializer_list>
#include <optional>
#include <string>

namespace baton::cli {

class loaded_library {
 public:
  /// The library that the environment `variable` names, else the first of `names` that can be loaded. `title` is for `why_not`.
  loaded_library(const char* title, const char* variable, std::initializer_list<const char*> names);

  template <class Call>
  void find(const char* name, Call*& call) {
    call = reinterpret_cast<Call*>(address(name));
  }
  /// None, and why not: it was not loaded, or lacks something that was looked for.
  template <class Calls>
  std::optional<Calls> complete(const Calls& calls, std::string& why_not) const {
    why_not = why_not_;
    return why_not.empty() ? std::optional{calls} : std::nullopt;
  }

 private:
  void* address(const char* name);

  std::string title_;
  void* handle_ = nullptr;
  std::string why_not_;
};

}  // namespace baton::cli
