#include "exec/site.hpp"
#include "exec/site_name.hpp"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(site, is_its_name) {
  constexpr site none, longest = "abcdefghijklmnopqr_uvwxz", other = "stuyz.combine";
  EXPECT_EQ(name(none), "none");
  EXPECT_EQ(name(longest), "abcdefghijklmnopqr_uvwxz");
  EXPECT_EQ(name(other), "stuyz.combine");
}

TEST(site, differs_where_its_name_does) {
  constexpr site a = "dispatch.arrival";
  static_assert(a == site{"dispatch.arrival"} && a != site{"dispatch.arrivak"} &&
                a != site{"dispatch.arriva"});
  static_assert(a != site{} && sizeof(site) == 16, "two words of a stuck record");
}

}  // namespace
}  // namespace baton
