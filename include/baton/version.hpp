#pragma once
#include <string>

namespace baton {

/// "0.1.0"
const char* version();

/// Compiler, build type, and the CUDA toolkit and architectures compiled in, or that there is none.
std::string build_info();

}  // namespace baton
