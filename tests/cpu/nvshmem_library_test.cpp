// Where NVSHMEM and the module for it are looked for, and what is said of a library that cannot be opened.
#include "runtime/nvshmem_library.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "exec/build_id.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/support/changed_environment.hpp"

namespace baton::test {
namespace {

using paths = std::vector<std::string>;

TEST(nvshmem_library, a_wheel_finds_nvshmem_beside_itself_in_site_packages) {
  const nvshmem_places at = places_of_nvshmem("/env/site-packages/baton/_core.so", {}, {});
  EXPECT_EQ(at.host_library.front(), "/env/site-packages/nvidia/nvshmem/lib/libnvshmem_host.so.3");
  EXPECT_EQ(at.host_library.back(), "libnvshmem_host.so.3") << "else the loader may know it";
}

TEST(nvshmem_library, is_not_looked_for_where_everybody_may_put_one) {
  const temporary_folder shared;
  const std::filesystem::path own = shared / "env" / "baton";
  std::filesystem::create_directories(own);
  std::filesystem::permissions(shared / "", std::filesystem::perms::all);
  const nvshmem_places at = places_of_nvshmem((own / "_core.so").string(), {}, {});
  EXPECT_EQ(at.host_library, (paths{(shared / "env/nvidia/nvshmem/lib/libnvshmem_host.so.3").string(),
                                    "libnvshmem_host.so.3"}));
}

TEST(nvshmem_library, an_installed_program_finds_its_module_in_lib_and_one_of_a_build_folder_beside_itself) {
  EXPECT_EQ(places_of_nvshmem("/opt/baton/bin/baton", {}, {}).module,
            (paths{"/opt/baton/bin/libbaton_nvshmem.so", "/opt/baton/lib/libbaton_nvshmem.so",
                   "libbaton_nvshmem.so"}));
}

TEST(nvshmem_library, what_the_environment_tells_is_not_looked_for_anywhere_else) {
  const nvshmem_places at = places_of_nvshmem("/opt/baton/bin/baton", "/nvshmem", "/modules/one.so");
  EXPECT_EQ(at.host_library, paths{"/nvshmem/lib/libnvshmem_host.so.3"});
  EXPECT_EQ(at.module, paths{"/modules/one.so"});
}

TEST(nvshmem_library, what_the_environment_has_but_does_not_say_is_looked_for) {
  const auto found_with = [](const std::optional<std::string>& nvshmem,
                             const std::optional<std::string>& module) {
    const changed_environment now{{{"BATON_NVSHMEM", nvshmem}, {"BATON_NVSHMEM_MODULE", module}}};
    return places_of_nvshmem();
  };
  const nvshmem_places unset = found_with(std::nullopt, std::nullopt), empty = found_with("", ""),
                       told = found_with("/nvshmem", "/modules/one.so");
  EXPECT_EQ(empty.host_library, unset.host_library);
  EXPECT_EQ(empty.module, unset.module);
  EXPECT_EQ(told.host_library, paths{"/nvshmem/lib/libnvshmem_host.so.3"});
  EXPECT_EQ(told.module, paths{"/modules/one.so"});
}

TEST(nvshmem_library, code_whose_file_is_not_known_asks_the_loader) {
  const nvshmem_places at = places_of_nvshmem("", {}, {});
  EXPECT_EQ(at.host_library, paths{"libnvshmem_host.so.3"});
  EXPECT_EQ(at.module, paths{"libbaton_nvshmem.so"});
}

TEST(nvshmem_library, places_that_are_not_there_are_passed_over_and_a_file_that_is_wrong_is_told) {
  const opened_library found = open_first({"/nowhere/libm.so.6", "libm.so.6"}, RTLD_NOW);
  EXPECT_NE(found.handle, nullptr);
  EXPECT_EQ(found.problem, "");
  EXPECT_TRUE(says(found.path, "/libm.so.6"));
  EXPECT_EQ(calls_of(found.handle), nullptr) << "it is no module of baton";
  const temporary_folder folder;
  const std::string broken = (folder / "broken.so").string();
  write_file(broken, "no library");
  const opened_library none = open_first({"/nowhere/libm.so.6", broken, "libm.so.6"}, RTLD_NOW);
  EXPECT_EQ(none.handle, nullptr);
  EXPECT_EQ(none.path, broken);
  EXPECT_TRUE(says(none.problem, broken));
}

TEST(nvshmem_library, a_place_that_was_told_and_is_not_there_is_named_by_the_loader) {
  const opened_library none = open_first({"/nowhere/libm.so.6"}, RTLD_NOW);
  EXPECT_EQ(none.path, "/nowhere/libm.so.6");
  EXPECT_TRUE(says(none.problem, "/nowhere/libm.so.6", "No such file"));
}

TEST(nvshmem_library, a_module_of_neighbouring_sources_is_of_another_build) {
  nvshmem_calls module{.build = build_id()};
  EXPECT_NE(module.build, 0u);
  EXPECT_TRUE(is_of_this_build(module));
  module.build ^= 1;
  EXPECT_FALSE(is_of_this_build(module));
}

/// {0, 1} and {2, 3} joined, and then {0, 3} was made; or a fresh process took the place of one that was lost.
TEST(nvshmem_library, ranks_of_different_sets_of_nvshmem_are_refused_with_the_first_of_them) {
  const nvshmem_id none{}, mine{1}, other{2};
  EXPECT_NO_THROW(require_one_set({none, none, none}));
  EXPECT_NO_THROW(require_one_set({mine, mine}));
  for (const std::vector<nvshmem_id>& ranks :
       {std::vector{mine, mine, other}, {mine, mine, none}, {none, none, mine}})
    try {
      require_one_set(ranks);
      ADD_FAILURE() << "of one set";
    } catch (const unsupported& e) {
      EXPECT_TRUE(says(e.what(), "ranks 0 and 2 are not in one set", "start all processes anew")) << e.what();
    }
}

}  // namespace
}  // namespace baton::test
