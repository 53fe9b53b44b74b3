import unittest

import plot_forecast


def point(levels, us, ranks=16, **more_axes):
    return {"schema": plot_forecast.SCHEMA, "round_us": us, "links": {"nic_gb_per_s": 50, "ranks_per_nic": 1},
            "axes": {"ranks": ranks, "p2p_group_size": 8, "levels": levels, "tokens": 128, "hidden": 7168, "top_k": 8,
                     "experts": max(256, ranks), "layout": "per_rank", "format": "bf16", "combine_format": "bf16", "routing": "uniform"} | more_axes}


class plot_of_forecasts(unittest.TestCase):
    def test_rounds_are_drawn_against_whatever_has_several_values(self):
        self.assertEqual(plot_forecast.axes_drawn([point("one", 5), point("one", 6, tokens=1)]), ["tokens"])
        self.assertEqual(plot_forecast.axes_drawn([point("one", 5), point("one", 6, ranks=8, p2p_group_size=4)]), ["ranks", "p2p_group_size"])

    def test_what_would_be_too_many_lines_is_not_drawn(self):
        points = [point("one", 5, ranks, tokens=tokens) for ranks in range(8, 17) for tokens in (1, 128)]
        self.assertEqual(plot_forecast.axes_drawn(points), ["ranks"])

    def test_a_line_is_named_by_what_else_differs_and_not_by_experts_that_follow_ranks(self):
        points = [point("one", 5, 1024), point("two", 4, 1024), point("one", 3, 16), point("two", 2, 16, routing="zipf")]
        self.assertEqual(plot_forecast.lines_against(points, "ranks"),
                         {"one level, uniform": [(16, 3), (1024, 5)], "two levels, uniform": [(1024, 4)], "two levels, zipf": [(16, 2)]})

    def test_one_level_is_compared_with_two_of_the_same_point(self):
        points = [point("one", 6, 1024), point("two", 4, 1024), point("one", 3, 16), point("two", 2, 16, routing="zipf")]
        self.assertEqual(plot_forecast.gains_against(points, "ranks"), {"uniform": [(1024, 1.5)]})


if __name__ == "__main__":
    unittest.main()
