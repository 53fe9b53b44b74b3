import protocol_pages
import sequence_drawing
from planted import planted_tree

TRACE = """\
   1  rank 0 block 0 warp 0    write                      data (4 bytes)
   2  rank 0 block 0 warp 0    store.release.device       flag = 0x1
   3  rank 0 block 1 warp 0    wait.acquire.device        flag at ring.slot_filled: saw 0x1
   4  rank 0 block 0 warp 0    sync_cluster
   5  rank 0 block 1 warp 0    sync_cluster
"""
def message(**changes):
    exploration = {"name": "2 blocks", "executions": 12345, "steps": 5, "longest": 5, "verdict": "holds", "trace": TRACE}
    mutant = {"name": "relaxed | lost", "breaks": "E1", "verdict": "data race", "killed": True}
    return {"name": "message", "title": "One message", "headers": ["src/message.hpp"], "explorations": [exploration],
            "mutants": [mutant], **changes}


def report(*protocols, **changes):
    return {"protocols": list(protocols), "all_well": True, "seconds": 1.0, "executions": 1, **changes}


class drawing(planted_tree):
    def test_an_arrow_leads_from_the_store_to_who_saw_it(self):
        self.assertEqual(sequence_drawing.draw(TRACE).splitlines(), [
            "      block 0   block 1",
            "  1   o         |         write data",
            "  2   o         |         store.release.device flag = 1",
            "  3   2-------->o         wait.acquire.device flag: 1 (ring.slot_filled)",
            "  4   o=========o         sync_cluster"])

    def test_a_chain_of_adds_is_followed_and_what_nobody_stored_has_no_arrow(self):
        lines = ("1  rank 0 block 0 warp 0    fetch_add.acq_rel.device   n, 0x2 -> 0x0\n"
                 "2  rank 0 block 0 warp 1    fetch_add.acq_rel.device   n, 0x1 -> 0x2\n")
        drawn = sequence_drawing.draw(lines).splitlines()
        self.assertIn("o        |        fetch_add", drawn[1])
        self.assertIn("1------->o", drawn[2])

    def test_a_wait_for_a_phase_leads_to_the_arrival_that_completed_it(self):
        lines = ("1  rank 0 block 0 warp 0    arrive.release.block  b, 1  (even phase open, 1 of 2 arrivals to come)\n"
                 "2  rank 0 block 0 warp 1    arrive.release.block  b, 1  (odd phase open, 2 of 2 arrivals to come)\n"
                 "3  rank 0 block 0 warp 0    wait.acquire.block    b at ring.slot_free: odd phase open, 2 of 2 arrivals to come\n")
        self.assertIn("o<-------2", sequence_drawing.draw(lines))

    def test_a_crowd_is_drawn_with_letters_and_without_plain_accesses(self):
        lines = "".join(f"{2 * i + 1}  rank 0 block {i} warp {i}    write  x[{i}] (4 bytes)\n"
                        f"{2 * i + 2}  rank 0 block {i} warp {i}    store.relaxed.device  y = 0x{i:x}\n" for i in range(8))
        drawn = sequence_drawing.draw(lines)
        self.assertIn("H  block 7 warp 7", drawn)
        self.assertNotIn("write", drawn)
        self.assertIn("y = 7", drawn)

    def test_a_line_that_is_not_a_step_is_refused(self):
        with self.assertRaises(ValueError):
            sequence_drawing.draw("nonsense")


class pages(planted_tree):
    def setUp(self):
        super().setUp()
        self.plant("docs/protocols/README.md", "# All\n<!-- generated: index -->\n<!-- end -->\nby hand\n")

    def page(self, name="message.md"):
        return (self.root / "docs/protocols" / name).read_text()

    def test_a_protocol_without_a_page_gets_one_with_all_there_is(self):
        protocol_pages.update(self.root, [message()])
        for text in ("# One message", "[src/message.hpp](../../src/message.hpp)", "2-------->o",
                     "| 2 blocks | 12,345 | 5 | 5 | holds |", "| relaxed \\| lost | E1 | data race |",
                     "baton check --protocol message"):
            self.assertIn(text, self.page())
        self.assertIn("| [message](message.md) | One message | 1 | 12,345 | 1 of 1 |", self.page("README.md"))
        self.assertIn("by hand", self.page("README.md"))
        self.assert_clean(protocol_pages.complaints_of(self.root, report(message())))

    def test_what_is_written_by_hand_stays(self):
        self.plant("docs/protocols/talk.md", "# Mine\n<!-- generated: message: checked -->\noutdated\n<!-- end -->\nstays\n")
        protocol_pages.update(self.root, [message()])
        text = self.page("talk.md")
        self.assertTrue(text.startswith("# Mine\n") and text.endswith("\nstays\n"))
        self.assertIn("12,345", text)
        self.assertNotIn("outdated", text)
        self.assertNotIn("2-------->o", text)
        self.assertFalse((self.root / "docs/protocols/message.md").exists())

    def test_a_page_that_drifted_is_caught(self):
        protocol_pages.update(self.root, [message()])
        other = message(mutants=[])
        self.assert_caught(protocol_pages.complaints_of(self.root, report(other)), "message.md", "not up to date")

    def test_a_page_of_a_protocol_that_is_gone_is_caught(self):
        protocol_pages.update(self.root, [message()])
        self.assert_caught(protocol_pages.complaints_of(self.root, report()), "message.md", "no protocol message any more")

    def test_a_run_that_found_something_or_took_too_long_is_caught(self):
        protocol_pages.update(self.root, [message()])
        self.assert_caught(protocol_pages.complaints_of(self.root, report(message(), all_well=False)), "something was found")
        self.assert_caught(protocol_pages.complaints_of(self.root, report(message(), seconds=91.0)), "91 s", "most is 90")
        self.assert_clean(protocol_pages.complaints_of(self.root, report(message(), seconds=91.0), 2 * protocol_pages.MOST_SECONDS))
