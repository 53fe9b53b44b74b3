import check_includes
from planted import planted_tree


class includes(planted_tree):
    def found(self):
        return list(check_includes.complaints(self.root))

    def test_a_name_of_std_without_its_header_is_caught_where_it_stands(self):
        self.plant("src/base/a.cpp", "#include <vector>\n\nstd::vector<std::string> all();\n")
        self.assert_caught(self.found(), "src/base/a.cpp:3", "std::string is of <string>")

    def test_a_header_that_a_header_of_the_tree_includes_will_do(self):
        self.plant("src/base/names.hpp", "#pragma once\n#include <string>\n")
        self.plant("src/base/a.cpp", '#include "base/names.hpp"\nstd::string f();\n')
        self.assert_clean(self.found())

    def test_a_name_of_std_that_nobody_has_sorted_is_told(self):
        self.plant("src/base/a.cpp", "std::novelty f();\n")
        self.assert_caught(self.found(), "std::novelty", "STANDARD")

    def test_names_of_the_system_and_of_libraries_without_their_headers_are_caught(self):
        self.plant("cli/a.cpp", "int f() { return ::getpid() + errno; }\nauto g() { return fmt::format(0); }\n")
        found = self.found()
        self.assert_caught(found, "cli/a.cpp:1", "::getpid is of <unistd.h>")
        self.assert_caught(found, "cli/a.cpp:1", "errno is of <cerrno>")
        self.assert_caught(found, "cli/a.cpp:2", "fmt::format is of <fmt/format.h>")

    def test_types_functions_constants_and_macros_of_a_header_that_is_not_included_are_caught(self):
        self.plant("src/base/slot.hpp", "#pragma once\n#define BATON_LAPS 2\nnamespace baton {\ninline constexpr int most_laps = 3;\n"
                   "template <class T>\nstruct ring_slot {\n  int lap;\n};\nint next_of(int slot);\n}\n")
        for use in ("ring_slot<int> s;", "int n = baton::next_of(1);", "int n = BATON_LAPS;", "int n = most_laps;"):
            self.plant("src/base/a.cpp", f"namespace baton {{\n{use}\n}}\n")
            self.assert_caught(self.found(), "src/base/a.cpp:2", "src/base/slot.hpp")
            self.plant("src/base/a.cpp", f'#include "base/slot.hpp"\nnamespace baton {{\n{use}\n}}\n')
            self.assert_clean(self.found())

    def test_a_macro_that_a_header_replaces_is_not_its_own(self):
        self.plant("src/base/quick.hpp", "#pragma once\n#undef ASKED_EQ\n#define ASKED_EQ 1\n#define ASKED_NE 2\n")
        self.plant("src/base/a.cpp", "int n = ASKED_EQ;\n")
        self.assert_clean(self.found())
        self.plant("src/base/a.cpp", "int n = ASKED_NE;\n")
        self.assert_caught(self.found(), "src/base/a.cpp:1", "src/base/quick.hpp")

    def test_a_function_that_only_a_source_of_the_same_folder_has_is_caught(self):
        self.plant("src/base/a.cpp", "namespace {\nint doubled(int a) {\n  return a * 2;\n}\n}\n")
        self.plant("src/base/b.cpp", "int f() { return doubled(1); }\n")
        self.assert_caught(self.found(), "src/base/b.cpp:1", "doubled is of src/base/a.cpp")

    def test_members_parameters_comments_and_texts_of_the_same_name_pass(self):
        self.plant("src/base/slot.hpp", "#pragma once\nstruct ring_slot {};\nint lap();\n")
        self.plant("src/base/a.cpp", "struct place {\n  int lap;\n};\n// a ring_slot, std::string\n"
                   "int f(place p, int lap) { return p.lap + lap; }\nconst char* text = \"ring_slot std::string\";\n")
        self.assert_clean(self.found())
