"""A tree with a planted fault, for the tests of the checks."""
import pathlib
import tempfile
import unittest


class planted_tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def plant(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def assert_caught(self, complaints, *words):
        complaints = list(complaints)
        self.assertTrue(any(all(word in text for word in words) for text in complaints), complaints)

    def assert_clean(self, complaints):
        self.assertEqual(list(complaints), [])
