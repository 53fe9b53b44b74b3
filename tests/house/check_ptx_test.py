import check_ptx
from planted import planted_tree

GOOD_PTXAS = """ptxas info    : Compiling entry function 'wait_kernel' for 'sm_90a'
ptxas info    : Function properties for wait_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
GOOD_PTX = ".visible .entry wait_kernel(\n)\n{\n\tld.acquire.sys.u64 %rd1, [%rd2];\n\tret;\n}\n"
EXPECTATION = {"what": "E1", "file": "ep/*", "kernel": "wait_kernel", "must_have": [r"ld\.acquire\.sys\.u64"],
               "must_not_have": [r"ld\.volatile"]}


class ptx(planted_tree):
    def found(self, ptx=GOOD_PTX, ptxas=GOOD_PTXAS, expectation=EXPECTATION):
        self.plant("ep/launch.ptx", ptx)
        self.plant("ep/launch.ptxas", ptxas)
        return check_ptx.complaints(self.root, [expectation])

    def test_a_kernel_as_promised_passes(self):
        self.assert_clean(self.found())

    def test_a_spill_is_caught_with_its_kernel(self):
        spilled = GOOD_PTXAS.replace("0 bytes spill stores", "16 bytes spill stores")
        self.assert_caught(self.found(ptxas=spilled), "wait_kernel", "16 bytes spill stores")

    def test_silence_of_ptxas_is_caught(self):
        self.assert_caught(self.found(ptxas=""), "did not say")

    def test_a_weaker_order_is_caught(self):
        self.assert_caught(self.found(ptx=GOOD_PTX.replace("acquire", "relaxed")), "lacks", "E1")

    def test_a_narrower_scope_is_caught(self):
        self.assert_caught(self.found(ptx=GOOD_PTX.replace(".sys", ".gpu")), "lacks")

    def test_a_forbidden_instruction_is_caught_and_shown(self):
        bad = GOOD_PTX.replace("\tret;", "\tld.volatile.u32 %r1, [%rd2];\n\tret;")
        self.assert_caught(self.found(ptx=bad), "`ld.volatile.u32")

    def test_an_instruction_of_another_kernel_does_not_count(self):
        other = GOOD_PTX.replace("acquire", "relaxed") + GOOD_PTX.replace("wait_kernel", "other")
        self.assert_caught(self.found(ptx=other), "wait_kernel", "lacks")

    def test_a_kernel_is_named_as_the_source_spells_it(self):
        self.plant("src/ring.hpp", "enum class how { slowly, // by hand\n  quickly };\n")
        mangled = "_ZN5baton5entryINS_4workILNS_3howE1EEEEEvv"  # void baton::entry<baton::work<(baton::how)1>>()
        self.plant("ep/launch.ptx", GOOD_PTX.replace("wait_kernel", mangled))
        self.plant("ep/launch.ptxas", GOOD_PTXAS.replace("0 bytes spill stores", "8 bytes spill stores").replace("wait_kernel", mangled))
        expectation = EXPECTATION | {"kernel": "^void entry<work<how::quickly> *>", "must_have": ["st"]}
        found = list(check_ptx.complaints(self.root, [expectation], self.root))
        self.assert_caught(found, "work<how::quickly>", "spills")
        self.assert_caught(found, "work<how::quickly>", "lacks")

    def test_a_brace_of_inline_assembly_does_not_end_a_kernel(self):
        braced = GOOD_PTX.replace("\tld", "{\n.reg .pred p; // }\n}\n\tld")
        self.assert_clean(self.found(ptx=braced))

    def test_machine_code_is_looked_at_where_an_expectation_says_so(self):
        self.plant("ep/launch.cubin", "")
        expectation = {"what": "uniform", "file": "ep/*", "kernel": "wait_kernel", "machine_code": True,
                       "must_not_have": [r"BRA\.DIV"]}

        def found(instruction):
            self.plant("ep/launch.ptx", GOOD_PTX)
            self.plant("ep/launch.ptxas", GOOD_PTXAS)
            return check_ptx.complaints(self.root, [expectation], disassemble=lambda _: {"wait_kernel": instruction})

        self.assert_clean(found("BRA 0x10 ;"))
        self.assert_caught(found("BRA.DIV UR4, 0x10 ;"), "`BRA.DIV UR4, 0x10 ;`", "uniform")

    def test_an_expectation_about_nobody_is_caught(self):
        self.assert_caught(self.found(expectation=EXPECTATION | {"kernel": "renamed"}), "no kernel matches")

    def test_an_empty_folder_is_caught(self):
        self.assert_caught(check_ptx.complaints(self.root, []), "no kernels")
