// pad_rows and unpad_rows on a GPU: every place against the formula, and what is nobody's untouched.
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/padded_rows_case.hpp"

namespace baton::test {
namespace {

class padded_rows_gpu : public gpu_case {};

TEST_F(padded_rows_gpu, lie_where_the_formula_says_and_go_back) {
  const world where = world::local(1, device_kind::cuda)[0];
  for (const padded_case& c : padded_cases()) {
    const padded_input in{c, 1};
    EXPECT_TRUE((padded_run{where, c, in}.pad() == expected_places(c, in, 1))) << text(c);
    EXPECT_TRUE((padded_run{where, c, in}.unpad() == expected_rows(c))) << text(c);
  }
}

}  // namespace
}  // namespace baton::test
