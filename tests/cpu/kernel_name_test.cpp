// What kernels are called where people read it.
#include "exec/kernel_name.hpp"

#include <gtest/gtest.h>

#include <string>

#include "kernels/ep/members/kernel.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {
namespace {

template <class T, int N>
struct of_this_file_kernel {};

TEST(kernel_name, is_what_it_does_without_namespaces_of_the_library_and_arguments) {
  EXPECT_STREQ(kernel_name<ep::members::kernel>(), "ep::members");
  EXPECT_STREQ(kernel_name<gemm_kernels::gemm_kernel<int>>(), "gemm_kernels::gemm");
}

TEST(kernel_name, of_what_is_in_no_namespace_of_the_library_is_as_the_compiler_spells_it) {
  EXPECT_NE(std::string{kernel_name<int>()}, "");
  EXPECT_NE((std::string{kernel_name<of_this_file_kernel<int, 3>>()}).find("of_this_file"),
            std::string::npos);
}

}  // namespace
}  // namespace baton
