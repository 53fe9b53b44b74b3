#pragma once
// What errors say.
#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace baton::test {

/// What `action` says when it throws an Expected; "nothing was thrown" or what else was thrown otherwise.
template <class Expected, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Expected& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string{"another exception: "} + e.what();
  }
  return "nothing was thrown";
}

/// Success if `message` contains all `parts`.
template <class... Parts>
testing::AssertionResult says(const std::string& message, const Parts&... parts) {
  std::string missing;
  ((message.find(parts) == std::string::npos ? void(missing += std::string{"\n  "} + parts) : void()), ...);
  if (missing.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << message << "\" does not say" << missing;
}

}  // namespace baton::test
