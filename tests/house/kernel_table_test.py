import struct

import kernel_table
from planted import planted_tree

NAME = "_ZN5baton5entryINS_4workILi2EEENS_6paramsEEEvT0_"  # void baton::entry<baton::work<2>, baton::params>(baton::params)
PTX = f"""// Cuda compilation tools, release 13.0, V13.0.88
.visible .entry {NAME}(
)
{{
\t// shared memory: 4096
\tret;
}}
"""
PTXAS = f"""ptxas info    : Compiling entry function '{NAME}' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers
ptxas info    : Compile time = 12.5 ms
"""


def cubin(name, size):
    """An ELF file with one section: name, code."""
    names = b"\0.text." + name.encode() + b"\0"
    header = bytearray(64)
    code_at, names_at = 64, 64 + size
    table = names_at + len(names)
    struct.pack_into("<Q", header, 0x28, table)
    struct.pack_into("<HHH", header, 0x3a, 64, 2, 1)
    rows = [struct.pack("<IIQQQQ", 1, 1, 0, 0, code_at, size), struct.pack("<IIQQQQ", 0, 3, 0, 0, names_at, len(names))]
    return bytes(header) + bytes(size) + names + b"".join(row.ljust(64, b"\0") for row in rows)


class table(planted_tree):
    def plant_listing(self, ptxas=PTXAS, ptx=PTX):
        self.plant("ep/kernels.ptx", ptx)
        self.plant("ep/kernels.ptxas", ptxas)
        (self.root / "ep/kernels.cubin").write_bytes(cubin(NAME, 2000))
        return self.root

    def page_of(self, **listing):
        return kernel_table.page(self.plant_listing(**listing))

    def test_a_kernel_has_its_row(self):
        self.assertIn("| `work<2>` | 40 | 0 | 4,096 | 2.0 | 0.01 |", self.page_of())

    def test_memory_that_no_configuration_says_is_left_open(self):
        self.assertIn("| `work<2>` | 40 | 0 | - | 2.0 | 0.01 |", self.page_of(ptx=PTX.replace("// shared memory: 4096", "")))

    def test_a_page_of_this_build_passes(self):
        self.assert_clean(kernel_table.complaints(self.root, self.page_of()))

    def test_other_registers_are_caught_with_their_kernel(self):
        told = self.page_of()
        self.plant_listing(ptxas=PTXAS.replace("40 registers", "48 registers"))
        self.assert_caught(kernel_table.complaints(self.root, told), "the build has", "work<2>", "48")
        self.assert_caught(kernel_table.complaints(self.root, told), "the page has", "work<2>", "40")

    def test_other_shared_memory_is_caught(self):
        told = self.page_of()
        self.plant_listing(ptx=PTX.replace("4096", "8192"))
        self.assert_caught(kernel_table.complaints(self.root, told), "the build has", "8,192")

    def test_time_and_size_of_code_may_differ(self):
        told = self.page_of()
        self.plant_listing(ptxas=PTXAS.replace("12.5 ms", "99.5 ms"))
        self.assert_clean(kernel_table.complaints(self.root, told))

    def test_a_kernel_that_is_gone_is_caught(self):
        told = self.page_of() + "| `work<3>` | 40 | 0 | 4,096 | 2.0 | 0.01 |\n"
        self.assert_caught(kernel_table.complaints(self.root, told), "the page has", "work<3>")

    def test_of_kernels_with_one_name_each_counts(self):
        told = self.page_of()
        row = next(line for line in told.splitlines() if line.startswith("| `work<2>`"))
        self.assert_caught(kernel_table.complaints(self.root, told + row + "\n"), "the page has", "work<2>")

    def test_a_kernel_under_another_file_is_caught(self):
        self.assert_caught(kernel_table.complaints(self.root, self.page_of().replace("## ep/kernels", "## ep/others")), "ep/others")

    def test_a_page_that_is_written_anew_passes_and_a_wrong_one_fails(self):
        page = self.plant("kernels.md", self.page_of().replace("| 40 |", "| 41 |"))
        self.assertEqual(kernel_table.main([str(self.root), "--check", str(page)]), 1)
        self.assertEqual(kernel_table.main([str(self.root), "--write", str(page)]), 0)
        self.assertEqual(kernel_table.main([str(self.root), "--check", str(page)]), 0)

    def test_a_folder_without_listings_is_told(self):
        with self.assertRaises(SystemExit) as told:
            kernel_table.compiler(self.root)
        self.assertIn("no listing", str(told.exception))

    def test_a_page_of_another_compiler_is_not_compared(self):
        page = self.plant("kernels.md", self.page_of().replace("13.0.88", "13.1.1"))
        self.plant_listing(ptxas=PTXAS.replace("40 registers", "48 registers"))
        self.assertEqual(kernel_table.main([str(self.root), "--check", str(page)]), kernel_table.SKIPPED)

    def test_a_configuration_is_shown_by_its_members(self):
        header = "struct config {\n  int heads =\n      512;  // a; b\n  bool wide = false;\n  int slots = 7;\n  constexpr int all() const { return 1; }\n};\n"
        self.plant("src/kernels/sample/config.hpp", header)
        name = "void entry<sample_kernels::kernel<constant<sample_kernels::config{64, true, 3} > >, params>(params, launched_by)"
        self.assertEqual(kernel_table.short_name(name, self.root), "kernel<heads 64, wide, slots 3>")
        two = name.replace(", true, 3} >", ", true, 3} >, constant<sample_kernels::config{32, false, 4} >")
        self.assertEqual(kernel_table.short_name(two, self.root), "kernel<heads 64, wide, slots 3, heads 32, slots 4>")
