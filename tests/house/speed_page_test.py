import unittest

import speed_page


class speed(unittest.TestCase):
    def setUp(self):
        self.page = speed_page.page()

    def test_the_page_of_the_results_passes(self):
        self.assertEqual(list(speed_page.complaints(speed_page.ROOT, self.page)), [])

    def test_a_figure_that_was_not_measured_is_caught(self):
        row = next(line for line in self.page.splitlines() if line.startswith("| 2 | 1 | all |"))
        found = list(speed_page.complaints(speed_page.ROOT, self.page.replace(row, row.replace("6.", "5."))))
        self.assertEqual(len(found), 2, found)
        self.assertIn(row, found[1])

    def test_a_row_that_is_left_out_is_caught(self):
        rows = [line for line in self.page.splitlines() if line.startswith("| e4m3 |")]
        found = list(speed_page.complaints(speed_page.ROOT, self.page.replace(rows[0] + "\n", "")))
        self.assertEqual(found, [f"the page lacks: {rows[0]}"])

    def test_what_misses_its_aim_is_bold_and_nothing_else(self):
        self.assertEqual(speed_page.beside_aim("14.5", misses=True), "**14.5**")
        self.assertEqual(speed_page.beside_aim("14.5", misses=False), "14.5")
        bold = {row[:3]: row[3].startswith("**") for row in speed_page.exchange_rows(speed_page.ROOT)}
        for gpus, tokens, name, where, _, _, aim, _ in speed_page.EXCHANGE:
            if aim is None:
                continue
            sms = where.get("num_sms", 0)
            case = speed_page.the_case(speed_page.ROOT, name, ranks=gpus, tokens=tokens, num_sms=sms)
            time = case["fused"]["round_trip_graph"]["median_us"]
            self.assertEqual(bold[gpus, f"{tokens:,}", sms or "all"], time > aim, (gpus, tokens, sms))

    def test_a_case_that_no_file_has_ends_with_its_name(self):
        with self.assertRaises(SystemExit) as found:
            speed_page.the_case(speed_page.ROOT, speed_page.DENSE_FILE, format="fp5")
        self.assertIn("fp5", str(found.exception))
        self.assertIn(speed_page.DENSE_FILE, str(found.exception))


if __name__ == "__main__":
    unittest.main()
