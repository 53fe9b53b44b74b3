import json
import pathlib
import tempfile
import unittest

import plot_ring


def hand_off(strategy, stages, readers, cycles):
    return {"schema": plot_ring.SCHEMA, "case": "hand_off", "strategy": strategy, "stages": stages, "readers": readers,
            "median_cycles": cycles, "mad_cycles": 1.0, "samples_cycles": [cycles], "gpu": "a GPU"}


def product(strategy, size, samples_us):
    flops = 2.0 * size**3
    tflops = flops / samples_us[0] / 1e6 if samples_us else None
    return {"schema": plot_ring.SCHEMA, "case": "ring_gemm", "strategy": strategy, "m": size, "n": size, "k": size,
            "flops": flops, "tflops": tflops, "samples_us": samples_us, "gpu": "a GPU"}


class plot_of_a_ring_benchmark(unittest.TestCase):
    def test_hand_offs_are_sorted_into_stages_strategies_and_readers(self):
        points = [hand_off("mbarrier", 2, 3, 70.0), hand_off("mbarrier", 2, 1, 50.0), hand_off("split_counter", 1, 1, 90.0)]
        self.assertEqual(plot_ring.hand_off_lines(points),
                         {1: {"split_counter": [(1, 90.0, 1.0)]}, 2: {"mbarrier": [(1, 50.0, 1.0), (3, 70.0, 1.0)]}})

    def test_products_show_the_slowest_and_the_fastest_sample_and_wrong_ones_are_left_out(self):
        points = [product("mbarrier", 1000, [2000.0, 4000.0, 1000.0]), product("mbarrier", 500, [])]
        self.assertEqual(plot_ring.gemm_lines(points), {"mbarrier": [(1000, 1.0, 0.5, 2.0)]})

    def test_points_of_another_schema_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "points.jsonl"
            path.write_text(json.dumps({"schema": "something else"}) + "\n")
            with self.assertRaisesRegex(ValueError, "something else"):
                plot_ring.read_points(path)
