import json
import types

import source_bugs
from planted import planted_tree


class source_bugs_test(planted_tree):
    def bugs(self, *bugs):
        self.plant("checks/source_bugs.json", json.dumps(list(bugs)))
        return list(source_bugs.problems_of(list(bugs), self.root))

    def bug(self, **changes):
        self.plant("src/a.hpp", "int a = 1;\nint b = 1;\n")
        self.plant("checks/gate.cpp", '.name = "gate",\n')
        self.plant("tests/cpu/gate_test.cpp", "")
        return {"name": "a is 2", "file": "src/a.hpp", "from": "a = 1;", "to": "a = 2;", "noticed_by": ["gate"], **changes}

    def test_a_bug_whose_text_is_there_once_can_be_planted(self):
        self.assert_clean(self.bugs(self.bug()))

    def test_a_text_that_is_gone_or_there_twice_is_caught(self):
        self.assert_caught(self.bugs(self.bug(**{"from": "a = 3;"})), "a is 2", "0 times")
        self.assert_caught(self.bugs(self.bug(**{"from": " = 1;"})), "a is 2", "2 times")
        self.assert_caught(self.bugs(self.bug(file="src/gone.hpp")), "a is 2", "0 times")

    def test_a_bug_that_nobody_has_to_notice_is_caught(self):
        bug = self.bug()
        del bug["noticed_by"]
        self.assert_caught(self.bugs(bug), "a is 2", "noticed_by")
        self.assert_clean(self.bugs({**bug, "equivalent": "nobody reads a"}))

    def test_a_witness_that_there_is_not_is_caught(self):
        self.assert_clean(self.bugs(self.bug(noticed_by=["gate", "gate_test"])))
        self.assert_caught(self.bugs(self.bug(noticed_by=["gates"])), "a is 2", "gates has to notice it")
        self.assert_caught(self.bugs(self.bug(noticed_by=["gates_test"])), "a is 2", "neither a test program nor a protocol")

    def test_two_bugs_of_one_name_are_caught(self):
        self.assert_caught(self.bugs(self.bug(), self.bug()), "a is 2", "two")

    def test_a_test_that_is_not_built_is_named(self):
        build = types.SimpleNamespace(folder=self.root)
        self.assertIn("ninja -C %s tests/gate_test" % self.root,
                      source_bugs.is_noticed(self.bug(), "gate_test", build, self.root))
        self.assertIn("is not built", source_bugs.is_noticed(self.bug(), "gate", build, self.root))
