import check_layers
from planted import planted_tree


class layers(planted_tree):
    def test_an_arrow_that_exists_is_allowed(self):
        self.plant("src/protocol/ring.hpp", '#include "exec/exec.hpp"\n#include <cstdint>\n')
        self.assert_clean(check_layers.complaints(self.root))

    def test_a_protocol_that_knows_a_kernel_is_caught(self):
        self.plant("src/protocol/ring.hpp", '#pragma once\n#include "kernels/ep/params.hpp"\n')
        self.assert_caught(check_layers.complaints(self.root), "src/protocol/ring.hpp:2", "must not see src/kernels/")

    def test_a_program_that_looks_past_the_public_headers_is_caught_and_its_measurements_are_not(self):
        self.plant("cli/bench/timer.cpp", '#include "runtime/window.hpp"\n')
        self.plant("cli/exchange.cpp", '#include "baton/device_buffer.hpp"\n#include "cli/bench/timer.hpp"\n')
        self.assert_clean(check_layers.complaints(self.root))
        self.plant("cli/bench/timer.hpp", '#include "runtime/window.hpp"\n')
        self.plant("cli/commands/doctor.cpp", '#include "runtime/host_memory.hpp"\n')
        found = list(check_layers.complaints(self.root))
        self.assert_caught(found, "cli/exchange.cpp:2", "must not see src/runtime/")
        self.assert_caught(found, "cli/commands/doctor.cpp:1", "must not see src/runtime/")

    def test_a_public_header_that_shows_the_insides_is_caught(self):
        self.plant("include/baton/world.hpp", '#include "runtime/world_state.hpp"\n')
        self.assert_caught(check_layers.complaints(self.root), "include/baton/ must not see src/runtime/")

    def test_cuda_in_a_host_layer_is_caught_unless_only_nvcc_sees_it(self):
        self.plant("src/exec/order.hpp", "#include <cuda_runtime.h>\n")
        self.plant("src/base/guarded.hpp", "#if defined(__CUDACC__)\n#include <cuda_fp8.h>\n#endif\n")
        found = list(check_layers.complaints(self.root))
        self.assert_caught(found, "src/exec/order.hpp:1", "without CUDA")
        self.assertEqual(len(found), 1)

    def test_cuda_after_the_guard_has_ended_is_caught(self):
        self.plant("src/base/math.hpp", "#ifdef __CUDACC__\n#endif\n#include <cuda_fp8.h>\n")
        self.assert_caught(check_layers.complaints(self.root), "src/base/math.hpp:3")

    def test_device_code_in_a_host_file_is_caught(self):
        self.plant("src/kernels/ep/per_expert/launch.cpp", '#include "device/gpu.cuh"\n')
        self.assert_caught(check_layers.complaints(self.root), "only .cu and .cuh")

    def test_an_api_that_looks_past_the_launcher_is_caught(self):
        self.plant("src/api/round.cpp", '#include "kernels/ep/per_expert/launch.hpp"\n#include "kernels/ep/per_expert/dispatch_wait.hpp"\n')
        found = list(check_layers.complaints(self.root))
        self.assert_caught(found, "src/api/round.cpp:2", "sees of")
        self.assertEqual(len(found), 1)

    def test_checks_see_protocols_and_the_checker_and_are_seen_by_the_program_alone(self):
        self.plant("checks/gate.cpp", '#include "protocol/gate.hpp"\n#include "sim/check.hpp"\n')
        self.plant("cli/commands/check.hpp", '#include "checks/protocol_check.hpp"\n')
        self.assert_clean(check_layers.complaints(self.root))
        self.plant("checks/ring.cpp", '#include "api/agreement.hpp"\n')
        self.plant("sim/machine.cpp", '#include "checks/protocol_check.hpp"\n')
        found = list(check_layers.complaints(self.root))
        self.assert_caught(found, "checks/ring.cpp:1", "must not see src/api/")
        self.assert_caught(found, "sim/machine.cpp:1", "must not see checks/")

    def test_an_example_that_sees_more_of_the_machine_than_the_checker_is_caught(self):
        self.plant("examples/right.cpp", '#include "baton/baton.hpp"\n#include "sim/check.hpp"\n')
        self.plant("examples/wrong.cpp", '#include "sim/machine.hpp"\n')
        found = list(check_layers.complaints(self.root))
        self.assert_caught(found, "examples/wrong.cpp:1", "sees of")
        self.assertEqual(len(found), 1)

    def test_a_layer_seen_through_an_allowed_header_is_caught_with_the_way_to_it(self):
        self.plant("src/runtime/world_state.hpp", '#include "sim/machine.hpp"\n#include "bootstrap/group.hpp"\n')
        self.plant("src/exec/wait.hpp", '#include "base/math.hpp"\n#include "protocol/gate.hpp"\n')
        self.plant("src/protocol/gate.hpp", '#include "runtime/world_state.hpp"\n')
        found = list(check_layers.complaints(self.root))
        self.assert_caught(found, "src/exec/wait.hpp:2", "must not see sim/",
                           "protocol/gate.hpp -> src/runtime/world_state.hpp -> sim/machine.hpp")
        self.assert_caught(found, "src/exec/wait.hpp:2", "must not see src/bootstrap/")

    def test_a_kernel_body_behind_a_door_is_caught(self):
        self.plant("src/api/round.cpp", '#include "kernels/ep/per_expert/launch.hpp"\n')
        self.plant("src/kernels/ep/per_expert/launch.hpp", '#include "kernels/ep/per_expert/dispatch_wait.hpp"\n')
        self.assert_caught(check_layers.complaints(self.root), "src/api/round.cpp:1", "sees of", "ep/per_expert/dispatch_wait.hpp")

    def test_a_test_of_a_kernel_that_only_gpus_run_is_caught_outside_its_folder_and_another_inside(self):
        for kernel in ("gemm", "ring_gemm", "ep/members"):
            self.plant(f"src/kernels/{kernel}/kernel.hpp", "")
        self.plant("src/kernels/gemm/launch.cpp", '#include "kernels/gemm/kernel.hpp"\n#include "runtime/launch_on_cuda.hpp"\n')
        for kernel in ("ring_gemm", "ep/members"):
            self.plant(f"src/kernels/{kernel}/launch.cpp", '#include "kernels/launch.hpp"\n')
        self.plant("tests/support/runs.hpp", '#include "kernels/gemm/kernel.hpp"\n#include "sim/context.hpp"\n')
        self.plant("sim/context.hpp", "")
        self.plant("tests/kernels/gemm_kernel_test.cpp", '#include "tests/support/runs.hpp"\n')
        self.plant("tests/kernels/exchange_teams_test.cpp", "")
        self.plant("tests/cpu/name_test.cpp", '#include "kernels/gemm/kernel.hpp"\n')
        self.plant("tests/cpu/ring_test.cpp", '#include "kernels/ring_gemm/kernel.hpp"\n#include "sim/context.hpp"\n')
        self.assert_clean(check_layers.complaints(self.root))
        self.plant("tests/cpu/gemm_test.cpp", '#include "tests/support/runs.hpp"\n')
        self.plant("tests/kernels/members_test.cpp", '#include "kernels/ep/members/kernel.hpp"\n#include "sim/context.hpp"\n')
        found = list(check_layers.complaints(self.root))
        self.assert_caught(found, "tests/cpu/gemm_test.cpp:1", "tests/support/runs.hpp -> src/kernels/gemm/kernel.hpp", "belongs in tests/kernels/")
        self.assert_caught(found, "tests/kernels/members_test.cpp:1", "belongs in tests/cpu/")
        self.assertEqual(len(found), 2)

    def test_a_test_that_a_sanitizer_changes_is_caught_outside_the_folder_of_both_builds(self):
        self.plant("tests/support/layers.hpp", "#if defined(__SANITIZE_ADDRESS__)\n#endif\n")
        self.plant("tests/both/layers_test.cpp", '#include "tests/support/layers.hpp"\n')
        self.plant("tests/gpu/limits_test.cpp", "#ifdef __SANITIZE_ADDRESS__\n#endif\n")
        self.assert_clean(check_layers.complaints(self.root))
        self.plant("tests/cpu/texts_test.cpp", '#include "tests/support/layers.hpp"\n')
        self.plant("tests/cpu/limits_test.cpp", "#ifdef __SANITIZE_ADDRESS__\n  GTEST_SKIP();\n#endif\n")
        found = list(check_layers.complaints(self.root))
        self.assert_caught(found, "tests/cpu/texts_test.cpp:1", "tests/support/layers.hpp", "belongs in tests/both/")
        self.assert_caught(found, "tests/cpu/limits_test.cpp:1", "belongs in tests/both/")
        self.assertEqual(len(found), 2)

    def test_headers_that_include_each_other_are_followed_once(self):
        self.plant("src/base/a.hpp", '#include "base/b.hpp"\n')
        self.plant("src/base/b.hpp", '#include "base/a.hpp"\n')
        self.plant("src/exec/c.hpp", '#include "base/a.hpp"\n')
        self.assert_clean(check_layers.complaints(self.root))

    def test_an_arrow_that_nobody_uses_is_caught(self):
        self.plant("src/protocol/gate.hpp", '#include "exec/exec.hpp"\n#include "baton/numeric.hpp"\n')
        found = [text for text in check_layers.idle_arrows(self.root) if "src/protocol/ sees" in text]
        self.assertEqual(len(found), 1)
        self.assert_caught(found, "nobody in src/protocol/ sees src/base/")

    def test_a_layer_without_files_is_caught(self):
        self.assert_caught(check_layers.idle_arrows(self.root), "no file in cli/")

    def test_a_drawing_that_lacks_a_layer_or_has_one_too_low_is_caught(self):
        lines = "\n".join(reversed(check_layers.MAY_SEE))
        self.assert_clean(check_layers.drawing_complaints(f"## Layers\n```\n{lines}\n```\n"))
        lines = lines.replace("src/base", "").replace("src/exec", "").replace("sim", "sim // src/base\nsrc/exec")
        found = list(check_layers.drawing_complaints(f"## Layers\n```\n{lines}\n```\n"))
        self.assert_caught(found, "lacks src/base")
        self.assert_caught(found, "src/protocol may see src/exec")

    def test_kernels_that_the_page_has_no_link_to_are_caught(self):
        self.plant("src/kernels/gemm/kernels.cu", "\n")
        self.plant("src/kernels/ep/members/kernels.cu", "\n")
        self.plant("tests/gpu/ring_gpu_test.cu", "\n")
        page = "[gemm](src/kernels/gemm/kernel.hpp) and [members](src/kernels/ep/members)"
        self.assert_clean(check_layers.kernels_without_a_place(self.root, page))
        found = list(check_layers.kernels_without_a_place(self.root, page.replace("ep/members", "ep/per_rank") + " src/kernels/ep/members"))
        self.assert_caught(found, "no link to src/kernels/ep/members/")
        self.assertEqual(len(found), 1)

    def test_a_folder_without_arrows_is_caught(self):
        self.plant("src/extras/thing.hpp", "\n")
        self.assert_caught(check_layers.complaints(self.root), "no layer of this name")
