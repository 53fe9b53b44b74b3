#include "baton/version.hpp"

#include <string>

namespace baton {

const char* version() {
  return BATON_VERSION;
}

std::string build_info() {
  std::string text = "baton " BATON_VERSION ", ";
#if defined(__clang__)
  text += "clang " __clang_version__;
#else
  text += "g++ " __VERSION__;
#endif
  const std::string build_type = BATON_BUILD_TYPE;
  const std::string sanitizers = BATON_SANITIZE;
  text += ", " + (build_type.empty() ? "no build type" : build_type);
  if (!sanitizers.empty()) text += " with -fsanitize=" + sanitizers;
  const std::string toolkit = BATON_CUDA_VERSION;
  const std::string architectures = BATON_CUDA_ARCHITECTURES;
  return text + (toolkit.empty() ? ", no CUDA" : ", CUDA " + toolkit + " for " + architectures);
}

}  // namespace baton
