import json
import pathlib
import tempfile
import unittest

import grouped_peers
import peer_runs

POINT = {"schema": grouped_peers.SCHEMA, "who": "baton", "model": "a-model", "product": "down", "groups": 2, "n": 8, "k": 16,
         "rows_per_group": 2, "routing": "skewed", "seed": 1, "counts": [3, 1], "rows": 4, "groups_with_rows": 2,
         "weight_bytes": 512.0, "flops": 1024.0, "bytes": 800.0, "checked": True, "wrong": None, "burst_median_us": 10.0,
         "burst_mad_us": 0.0, "burst_tflops": 1.0, "burst_samples_us": [10.0, 10.0, 10.0], "sustained_ms": 500, "sustained_us": 12.0,
         "weights_gb_per_s": 1.0, "sustained_tflops": 1.0, "device": "cuda", "gpu": "1 x A GPU", "least_us": 5.0, "tensor_tflops": 9.0}


class fake_timer:
    """Gives times instead of taking them."""

    def __init__(self):
        self.bursts = iter([22.0, 20.0, 21.0])

    def burst(self, run):
        return next(self.bursts)

    def sustained(self, run, milliseconds):
        return 24.0 if milliseconds == 500 else None


class fake_product:
    wrong = ""

    def __init__(self, torch, point):
        self.run = None

    def first_wrong(self):
        return self.wrong

    def random_values(self):
        pass


class fake_torch:
    __version__ = "9.9"


class peers_of_a_grouped_benchmark(unittest.TestCase):
    def measured(self, wrong=""):
        kept, grouped_peers.grouped_product = grouped_peers.grouped_product, type("product", (fake_product,), {"wrong": wrong})
        try:
            return grouped_peers.measure(fake_torch, fake_timer(), POINT)
        finally:
            grouped_peers.grouped_product = kept

    def test_a_peer_has_every_member_of_the_point_and_times_of_its_own(self):
        peer = self.measured()
        self.assertEqual(set(POINT) - set(peer), set())
        self.assertEqual((peer["who"], peer["burst_samples_us"]), ("torch._grouped_mm", [22.0, 20.0, 21.0]))
        self.assertEqual((peer["burst_median_us"], peer["burst_mad_us"], peer["sustained_us"]), (21.0, 1.0, 24.0))
        self.assertEqual(peer["burst_tflops"], 1024.0 / 21 / 1e6)
        self.assertEqual(peer["weights_gb_per_s"], 512.0 / 21 / 1e3)
        self.assertEqual((peer["counts"], peer["least_us"], peer["version"]), (POINT["counts"], 5.0, "9.9"))

    def test_a_wrong_product_is_not_timed_and_says_so_in_the_table(self):
        peer = self.measured("c[0, 0] = 1, expected 2")
        self.assertEqual((peer["checked"], peer["burst_median_us"], peer["burst_samples_us"]), (False, None, []))
        self.assertIn("WRONG: c[0, 0] = 1, expected 2", grouped_peers.row(POINT, peer))

    def test_a_line_of_the_table_has_both_and_their_shares(self):
        line = grouped_peers.row(POINT, self.measured())
        for part in ("a-model down", "2, 8, 16", "skewed", "10.0", "21.0", "47.6 %", "24.0", "50.0 %"):
            self.assertIn(part, line)

    def test_runs_of_a_burst_are_as_many_as_batons(self):
        self.assertEqual([grouped_peers.runs_within(15_000, once, 3) for once in (1, 100, 1000, 9000)], [200, 150, 15, 3])

    def test_only_what_baton_measured_rightly_on_a_gpu_is_a_point(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "points.jsonl"
            others = [{**POINT, "checked": False}, {**POINT, "device": "cpu"}, {**POINT, "who": "torch._grouped_mm"}]
            path.write_text("".join(json.dumps(p) + "\n" for p in [POINT, *others]))
            self.assertEqual(grouped_peers.read_points(path), [POINT])
            path.write_text(json.dumps(others[1]) + "\n")
            with self.assertRaisesRegex(ValueError, "on a GPU"):
                grouped_peers.read_points(path)
            path.write_text(json.dumps({"schema": "something else"}) + "\n")
            with self.assertRaisesRegex(ValueError, "something else"):
                grouped_peers.read_points(path)

    def test_a_file_of_something_else_is_refused(self):
        peer_runs.assert_refuses_another_schema(self, grouped_peers)

    def test_what_is_missing_is_said(self):
        usable = "__version__ = '9.9'\n_grouped_mm = None\nclass cuda:\n    is_available = staticmethod(lambda: {})\n"
        for source, said in (("raise ImportError('gone')", "no torch here (gone)"),
                             ("__version__ = '2.0'", "torch 2.0 has no _grouped_mm"),
                             (usable.format(False), "torch 9.9 sees no GPU"),
                             (usable.format(True) + "    get_device_name = staticmethod(lambda: 'Another')\n",
                              "measured on 1 x A GPU, but this is Another")):
            code, message = peer_runs.said_with(grouped_peers, POINT, {"torch.py": source})
            self.assertEqual(code, grouped_peers.NOT_HERE, message)
            self.assertIn(said, message)
