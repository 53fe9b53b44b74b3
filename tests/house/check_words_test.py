import check_words
from planted import planted_tree


class words(planted_tree):
    def test_a_note_left_for_later_is_caught(self):
        self.plant("tools/a.py", "# TO" "DO: finish\n")
        self.assert_caught(check_words.complaints(self.root), "tools/a.py:1", "TO" "DO")

    def test_a_path_of_one_machine_is_caught(self):
        self.plant("docs/a.md", "see /ho" "me/someone/notes\n")
        self.assert_caught(check_words.complaints(self.root), "docs/a.md:1", "one machine")

    def test_the_file_by_which_git_finds_a_worktree_is_not_looked_at(self):
        self.plant(".git", "gitdir: /ho" "me/someone/.git/worktrees/a\n")
        self.assert_clean(check_words.complaints(self.root))

    def test_a_comment_that_names_a_file_that_is_gone_is_caught(self):
        self.plant("src/base/a.hpp", "// see docs/gone.md\n// and src/base/a.hpp\n")
        found = list(check_words.complaints(self.root))
        self.assert_caught(found, "src/base/a.hpp:1", "docs/gone.md")
        self.assertEqual(len(found), 1)
