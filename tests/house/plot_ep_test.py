import json
import pathlib
import tempfile
import unittest

import plot_ep


def time(us):
    return {"median_us": us, "p99_us": us + 1, "samples_us": [[us]]}


def point(layout, tokens, fused=None, split=9.0, graph=True, limit=None):
    def form(us):
        return {"round_trip": time(us + 5), "round_trip_graph": time(us) if graph else None}
    return {"schema": plot_ep.SCHEMA, "checked": True, "gpu": "a GPU",
            "axes": {"layout": layout, "tokens": tokens, "format": "fp8", "num_sms": 0, "ranks": 2, "hidden": 7168, "top_k": 8,
                     "experts": 256},
            "fused": form(fused) if fused else None, "split": form(split),
            "limits": {"floor": time(3.0), "limit_us": limit}}


class plot_of_an_exchange_benchmark(unittest.TestCase):
    def test_lines_are_of_a_layout_and_sorted_by_tokens_with_the_share_of_the_limit(self):
        points = [point("per_rank", 8, fused=10.0, limit=5.0), point("per_rank", 1, fused=8.0), point("per_expert", 1)]
        self.assertEqual(plot_ep.round_lines(points),
                         {"per_expert fp8": [(1, 9.0, 10.0, None)],
                          "per_rank fp8": [(1, 8.0, 9.0, None), (8, 10.0, 11.0, 50.0)]})

    def test_a_round_is_fused_and_in_a_graph_where_these_were_measured(self):
        self.assertEqual(plot_ep.round_of(point("per_rank", 1, fused=8.0)), time(8.0))
        self.assertEqual(plot_ep.round_of(point("per_rank", 1)), time(9.0))
        self.assertEqual(plot_ep.round_of(point("per_rank", 1, graph=False)), time(14.0))

    def test_skipped_and_wrong_points_are_left_out_and_another_schema_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "points.jsonl"
            good, wrong = point("per_rank", 1), point("per_rank", 2) | {"checked": False}
            skipped = {"schema": plot_ep.SCHEMA, "skipped": "too many tokens"}
            path.write_text("".join(json.dumps(p) + "\n" for p in (good, wrong, skipped)))
            self.assertEqual(plot_ep.read_points(path), [good])
            path.write_text(json.dumps({"schema": "something else"}) + "\n")
            with self.assertRaisesRegex(ValueError, "something else"):
                plot_ep.read_points(path)
