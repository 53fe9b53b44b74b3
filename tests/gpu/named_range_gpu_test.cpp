// Kernels are launched under readable names, for whoever listens to NVTX: here this program itself, as a tool that is linked in.
#include "runtime/named_range_cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/gemm.hpp"
#include "tests/gpu/gpu_case.hpp"

namespace {

std::vector<std::string> names_said;
int depth_of_names;

int NVTX_API hear_push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  names_said.emplace_back(event->message.ascii);
  return depth_of_names++;
}

int NVTX_API hear_pop(nvtxDomainHandle_t) {
  return --depth_of_names;
}

int NVTX_API listen_to_nvtx(NvtxGetExportTableFunc_t tables) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0)
    return 0;
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(hear_push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(hear_pop);
  return 1;
}

/// NVTX asks this at its first call.
const bool listens = (InitializeInjectionNvtx2_fnptr = listen_to_nvtx) != nullptr;

}  // namespace

namespace baton {
namespace {

TEST(named_range, is_heard_while_it_lives) {
  ASSERT_TRUE(listens);
  names_said.clear();
  {
    const named_range outer{"outer"};
    const named_range inner{"inner"};
    EXPECT_EQ(depth_of_names, 2);
  }
  EXPECT_EQ(depth_of_names, 0);
  EXPECT_EQ(names_said, (std::vector<std::string>{"outer", "inner"}));
}

TEST(named_range, kernels_are_launched_under_what_they_are_called) {
  const world here = world::local(1, device_kind::cuda)[0];
  device_buffer<bfloat16> a{here, 64 * 64}, b{here, 64 * 64}, c{here, 64 * 64};
  names_said.clear();
  gemm(here, gemm_problem<bfloat16>{.a = a.data(), .b = b.data(), .c = c.data(), .m = 64, .n = 64, .k = 64});
  here.synchronize();
  EXPECT_EQ(depth_of_names, 0);
  EXPECT_TRUE(std::any_of(names_said.begin(), names_said.end(),
                          [](const std::string& name) { return name.find("gemm") != std::string::npos; }));
}

}  // namespace
}  // namespace baton
