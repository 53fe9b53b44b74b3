import json
import pathlib
import tempfile
import unittest

import exchange_peers
import peer_runs

AXES = {"ranks": 4, "tokens": 128, "hidden": 7168, "experts": 256, "top_k": 8, "format": "fp8", "device": "cuda", "layout": "per_rank",
        "routing": "uniform", "num_sms": 0}
POINT = {"schema": exchange_peers.READ, "checked": True, "gpu": "4 x A GPU", "axes": AXES, "fused": {"round_trip_graph": {"median_us": 30.0}}}


def with_axes(**changed):
    return {**POINT, "axes": {**AXES, **changed}}


class peers_of_an_exchange_benchmark(unittest.TestCase):
    def test_only_rounds_of_gpus_that_the_peer_can_have_are_points(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "points.jsonl"
            others = [{**POINT, "checked": False}, {**POINT, "fused": None}, with_axes(device="cpu"), with_axes(layout="per_expert"),
                      with_axes(routing="zipf"), with_axes(format="mxfp4"), with_axes(ranks=1)]
            path.write_text("".join(json.dumps(p) + "\n" for p in [POINT, *others]))
            self.assertEqual(exchange_peers.read_points(path), [(AXES, 30.0, "4 x A GPU")])
            path.write_text("".join(json.dumps(p) + "\n" for p in others))
            with self.assertRaisesRegex(ValueError, "measured on GPUs"):
                exchange_peers.read_points(path)

    def test_a_line_of_the_table_has_both_and_batons_share(self):
        line = {"wrong": None, "in_place": exchange_peers.spread_of([39.0, 40.0, 42.0]), "staged": exchange_peers.spread_of([44.0])}
        text = exchange_peers.row(AXES, 30.0, line)
        for part in ("4", "128", "fp8", "all", "30.00", "40.00", "44.00", "75.0 %"):
            self.assertIn(part, text)
        self.assertEqual(len(text), len(exchange_peers.heading()))
        self.assertIn("   24", exchange_peers.row({**AXES, "num_sms": 24}, 30.0, line))

    def test_a_wrong_round_is_not_timed_and_says_so_in_the_table(self):
        text = exchange_peers.row(AXES, 30.0, {"wrong": "rank 1: token 3 is not itself times 2", "in_place": None, "staged": None})
        self.assertIn("WRONG: rank 1: token 3", text)

    def test_the_spread_is_the_median_distance_from_the_median(self):
        spread = exchange_peers.spread_of([10.0, 12.0, 11.0, 20.0, 11.5])
        self.assertEqual((spread["median_us"], spread["mad_us"]), (11.5, 0.5))

    def test_a_file_of_something_else_is_refused(self):
        peer_runs.assert_refuses_another_schema(self, exchange_peers)

    def test_what_is_missing_is_said(self):
        code, message = peer_runs.said_with(exchange_peers, POINT, {"torch.py": "raise ImportError('gone')"})
        self.assertEqual(code, exchange_peers.NOT_HERE)
        self.assertIn("cannot be measured: ImportError: gone", message)

    def test_another_gpu_than_batons_is_refused(self):
        modules = {"torch.py": "class cuda:\n    device_count = staticmethod(lambda: 4)\n    get_device_name = staticmethod(lambda: 'Another')\n",
                   "tvm_ffi.py": "", "cuda/bindings/driver.py": "",
                   "flashinfer/jit/comm.py": "class gen_moe_alltoall_module:\n    def build_and_load(self):\n        return self\n"}
        code, message = peer_runs.said_with(exchange_peers, POINT, modules)
        self.assertEqual(code, exchange_peers.NOT_HERE, message)
        self.assertIn("measured on 4 x A GPU, but this is Another", message)
