import json
import pathlib
import tempfile
import unittest

import plot_ep


def time(us):
    return {"median_us": us, "p99_us": us + 1, "samples_us": [[us]]}


def rate(gb_per_s):
    return {"wire_bytes": 3000.0, "wire_bytes_without_deduplication": 8000.0, "wire_gb_per_s": gb_per_s}


def point(layout, tokens, fused=None, split=9.0, graph=True, limit=None, sms=0, **more_axes):
    def form(us):
        return {"round_trip": time(us + 5), "round_trip_graph": time(us) if graph else None}
    return {"schema": plot_ep.SCHEMA, "checked": True, "gpu": "a GPU", "version": "1", "date": "today", "push_gb_per_s": 350.0,
            "axes": {"layout": layout, "tokens": tokens, "format": "fp8", "num_sms": sms, "ranks": 2, "hidden": 7168, "top_k": 8,
                     "experts": 256} | more_axes,
            "fused": form(fused) if fused else None, "split": form(split),
            "dispatch_rate": rate(10.0 * sms), "combine_rate": rate(20.0 * sms), "rows_of_ranks": [30, 10],
            "limits": {"floor": time(3.0), "limit_us": limit}}


class plot_of_an_exchange_benchmark(unittest.TestCase):
    def test_lines_are_of_a_layout_and_sorted_by_tokens_with_the_share_of_the_limit(self):
        points = [point("per_rank", 8, fused=10.0, limit=5.0), point("per_rank", 1, fused=8.0), point("per_expert", 1)]
        self.assertEqual(plot_ep.round_lines(points),
                         {"per_expert fp8": [(1, 9.0, 10.0, None)],
                          "per_rank fp8": [(1, 8.0, 9.0, None), (8, 10.0, 11.0, 50.0)]})

    def test_lines_are_named_by_what_differs_between_points(self):
        points = [point("per_rank", 1), point("per_rank", 1, routing="zipf", replicas=32), point("per_rank", 8, routing="zipf")]
        self.assertEqual(list(plot_ep.round_lines(points)),
                         ["per_rank fp8, uniform, 0 replicas", "per_rank fp8, zipf, 0 replicas", "per_rank fp8, zipf, 32 replicas"])

    def test_rounds_that_add_what_shared_experts_made_have_a_line_of_their_own(self):
        points = [point("per_rank", 1), point("per_rank", 1, shared_output=True)]
        self.assertEqual(list(plot_ep.round_lines(points)), ["per_rank fp8", "per_rank fp8, shared"])

    def test_rounds_whose_sums_come_back_in_fewer_bits_have_a_line_of_their_own(self):
        points = [point("per_rank", 1), point("per_rank", 1, combine_format="fp8")]
        self.assertEqual(list(plot_ep.round_lines(points)), ["per_rank fp8", "per_rank fp8, back in fp8"])

    def test_speed_against_sms_is_drawn_where_several_were_measured_in_the_order_of_sms(self):
        points = [point("per_rank", 4096, sms=24), point("per_rank", 4096, sms=4), point("per_rank", 128, sms=4),
                  point("per_expert", 128)]
        self.assertEqual(plot_ep.sm_lines(points), {"per_rank fp8, 4096 tokens": [(4, 40.0, 80.0), (24, 240.0, 480.0)]})
        self.assertEqual(plot_ep.sm_lines(points[1:]), {})

    def test_a_page_needs_nothing_else_and_has_a_row_for_each_point(self):
        points = [point("per_rank", 1, fused=8.0, limit=4.0), point("per_expert", 1, gpu="<x>")]
        page = plot_ep.page_of([p | {"gpu": "a <GPU>"} for p in points], "<svg></svg>")
        for part in ("a &lt;GPU&gt;", "<svg></svg>", "<td>8.0</td><td>9.0</td><td>50</td>", "2.93 KiB", "7.812 KiB", "1.50"):
            self.assertIn(part, page)
        self.assertEqual(page.count("<tr>"), 3)
        for outside in ("<script", "http", "<link", "src="):
            self.assertNotIn(outside, page)

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
