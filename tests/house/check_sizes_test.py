import check_sizes
from planted import planted_tree


def kernel(body_lines):
    return ("namespace baton {\nstruct params {\n  int n;\n};\ntemplate <class P>\n__global__ void kernel(const P p) {\n" +
            "  if (p.n) { __syncthreads(); }\n" * body_lines + "}\n}  // namespace baton\n")


class sizes(planted_tree):
    def test_a_file_of_501_lines_is_caught_and_one_of_500_is_not(self):
        self.plant("src/base/long.hpp", "\n" * 501)
        self.plant("src/base/short.hpp", "\n" * 500)
        found = list(check_sizes.complaints(self.root))
        self.assert_caught(found, "src/base/long.hpp", "501 lines")
        self.assertEqual(len(found), 1)

    def test_a_kernel_of_81_lines_is_caught_where_it_starts_and_one_of_80_is_not(self):
        self.plant("src/kernels/x/kernel.cuh", kernel(79))
        self.plant("src/kernels/y/kernel.cuh", kernel(78))
        found = list(check_sizes.complaints(self.root))
        self.assert_caught(found, "src/kernels/x/kernel.cuh:6", "81 lines")
        self.assertEqual(len(found), 1)

    def test_braces_in_comments_and_strings_do_not_count(self):
        text = '// {\n/* { */\nint f() {\n  const char* s = "}";\n  return s[0];\n}\n'
        self.assertEqual(list(check_sizes.functions(check_sizes.without_comments_and_strings(text))), [(3, 4)])

    def test_methods_are_measured_one_by_one(self):
        text = "class gpu {\n public:\n  void a() {\n  }\n  int b() const { return 1; }\n};\n"
        self.assertEqual(list(check_sizes.functions(text)), [(3, 2), (5, 1)])

    def test_a_line_that_nobody_can_read_is_caught(self):
        self.plant("src/base/wide.hpp", "// " + "x" * 130 + "\n")
        self.assert_caught(check_sizes.complaints(self.root), "columns")
