#include "runtime/error_cuda.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"
#include "runtime/driver_cuda.hpp"

namespace baton {
namespace {

[[noreturn]] void fail(std::string_view doing, const char* name, const char* meaning,
                       const std::source_location& at) {
  throw cuda_error{fmt::format("{}{}{} ({}), at {}:{} in {}", doing, doing.empty() ? "" : ": ", meaning, name,
                               at.file_name(), at.line(), at.function_name())};
}

}  // namespace

void check(cudaError_t status, std::string_view doing, std::source_location at) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail(doing, cudaGetErrorName(status), cudaGetErrorString(status), at);
}

void check(CUresult status, std::string_view doing, std::source_location at) {
  if (status == CUDA_SUCCESS) return;
  const char *name = nullptr, *meaning = nullptr;
  driver().get_error_name(status, &name);
  driver().get_error_string(status, &meaning);
  fail(doing, name ? name : "unknown", meaning ? meaning : "unknown error of the CUDA driver", at);
}

}  // namespace baton
