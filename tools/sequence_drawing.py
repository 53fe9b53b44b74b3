"""Draws one execution, as the checker prints it, in fixed-width text: participants as columns, time downwards.

      warp 0   warp 1
  6   o        |        store.release.block cell = 1
  8   6------->o        wait.acquire.block cell = 1

An arrow leads from the step that stored what was seen, or that completed the phase that was awaited. Of a barrier it is
said which phase is open, and how many of its arrivals and bytes are to come. Where participants or steps
are many, plain accesses and barriers of a single warp are left out.
"""
import re

STEP = re.compile(r"\s*(\d+)\s+((?:(?:copy|stores|product) \d+ of )?)rank (\d+) block (\d+) warp (\d+)\s+(\S+)\s*(.*)")
MEETINGS = ("sync_block", "sync_cluster", "next_kernel")
MOST_ROWS = 100
CROWD = 6  # from so many participants on, plain accesses are left out
WIDEST_LABEL = 9
COPIES = 1 << 10  # after every warp of the block


def number(text):
    value = int(text, 16)
    return str(value) if value < 1 << 16 else text


class step:
    def __init__(self, line):
        found = STEP.match(line)
        if not found:
            raise ValueError(f"not a step of an execution: {line!r}")
        copy, rank, block, warp, self.verb, self.rest = found.groups()[1:]
        self.number = int(found[1])
        self.who = (int(rank), int(block), COPIES if copy else int(warp))
        self.source = None  # the step whose store, or completed phase, this one saw
        self.times = 1

    def kind(self):
        return self.verb.split(".")[0]


def word_and_values(s):
    """(word, value seen, value stored) of an atomic access; None where there is none."""
    if found := re.match(r"(.+?) = (0x[0-9a-f]+)$", s.rest):
        return found[1], None, int(found[2], 16)
    if found := re.match(r"(.+), (0x[0-9a-f]+) -> (0x[0-9a-f]+)$", s.rest):
        operand, seen = int(found[2], 16), int(found[3], 16)
        stored = {"fetch_add": seen + operand, "fetch_min": min(seen, operand)}.get(s.kind(), operand)
        return found[1], seen, stored
    if found := re.match(r"(.+?) (?:at \S+: saw|->) (0x[0-9a-f]+)", s.rest):
        return found[1], int(found[2], 16), None
    return None, None, None


class memory:
    """Who stored what where, and who completed which phase."""

    def __init__(self):
        self.stored = {}     # word: [(value, step)], oldest first
        self.parity = {}     # barrier: of the phase that is open
        self.completed = {}  # barrier: the step that completed its newest phase

    def see(self, s):
        if s.kind() in ("arrive", "arrive_expect", "count_bytes"):
            barrier = re.match(r"(.+?), \d+  \(", s.rest)
            parity = re.search(r"(even|odd) phase open", s.rest)
            if barrier and parity:
                if parity[1] != self.parity.get(barrier[1], "even"):
                    self.completed[barrier[1]] = s
                self.parity[barrier[1]] = parity[1]
        elif s.kind() == "wait" and " phase open" in s.rest:
            s.source = self.completed.get(s.rest.split(" at ")[0])
        else:
            word, seen, stored = word_and_values(s)
            writers = self.stored.setdefault(word, [])
            if seen is not None:
                s.source = next((by for value, by in reversed(writers) if value == seen), None)
            if stored is not None:
                writers.append((stored, s))


def text_of(s):
    """What a step does, without what is the same everywhere."""
    rest = re.sub(r" \((\d+) bytes\)$", "", s.rest)
    rest = re.sub(r"0x[0-9a-f]+", lambda found: number(found[0]), rest)
    rest = re.sub(r"(.+) at (\S+): (?:saw )?(.+)", lambda found: f"{found[1]}: {found[3]}" +
                  ("" if found[2] == "test" else f" ({found[2]})"), rest)
    rest = re.sub(r"(even|odd) phase open, (\d+ of \d+) arrivals(?: and (\d+ bytes))? to come",
                  lambda found: f"{found[1]} phase open, {found[2]}" + (f" and {found[3]}" if found[3] else ""), rest)
    times = f" ({s.times} times)" if s.times > 1 else ""
    return f"{s.verb} {rest}".rstrip() + times


def steps_of(trace):
    """Steps with their sources; the same thing done several times in a row by one participant counts once."""
    seen, steps = memory(), []
    for line in trace.splitlines():
        s = step(line)
        seen.see(s)
        last = steps[-1] if steps else None
        if last and last.who == s.who and s.verb == last.verb == "fence_mbarrier_init":
            last.times += 1
        else:
            steps.append(s)
    return steps


def meets_others(s):
    """Whether others can learn something from the step, or learn it in the step."""
    return "." in s.verb or s.verb in MEETINGS


def rows_of(steps):
    """Steps that stand in one row: alone, or all of a meeting."""
    rows = []
    for s in steps:
        meets = s.verb in MEETINGS and rows and rows[-1][0].verb == s.verb
        if meets and all(other.who != s.who for other in rows[-1]) and meets_at(s, rows[-1][0]):
            rows[-1].append(s)
        else:
            rows.append([s])
    return rows


def is_alone(row):
    return len(row) == 1 and row[0].verb in MEETINGS


def meets_at(a, b):
    return a.who[0] == b.who[0] and (a.verb != "sync_block" or a.who[1] == b.who[1])


def labels_of(participants):
    """Short names: coordinates that are the same for all are left out."""
    varies = [len({who[axis] for who in participants}) > 1 for axis in range(3)]
    if not any(varies):
        varies[2] = True

    def label(who):
        words = [f"{name} {who[axis]}" for axis, name in enumerate(("rank", "block", "warp")) if varies[axis]]
        if who[2] == COPIES:
            words[-1] = "copies"
        return " ".join(words)
    return [label(who) for who in participants]


def draw(trace):
    steps = steps_of(trace)
    participants = sorted({s.who for s in steps})
    is_thinned = len(participants) > CROWD or len(rows_of(steps)) > MOST_ROWS
    if is_thinned:
        steps = [s for s in steps if meets_others(s)]
    labels = labels_of(participants)
    key = []
    if max(map(len, labels)) > WIDEST_LABEL:
        letters = [chr(ord("A") + i) for i in range(len(labels))]
        key = [f"{letter}  {label}" for letter, label in zip(letters, labels)] + [""]
        labels = letters
    width = max(5, max(map(len, labels)) + 3)
    at = {who: 6 + i * width for i, who in enumerate(participants)}
    begin = 6 + len(participants) * width
    rows = [row for row in rows_of(steps) if not (is_thinned and is_alone(row))]
    lines = key + [("      " + "".join(label.ljust(width) for label in labels)).rstrip()]
    for row in rows[:MOST_ROWS]:
        line = list(f"{row[0].number:>3}".ljust(begin))
        for x in at.values():
            line[x] = "|"
        places = [at[s.who] for s in row]
        line[min(places):max(places)] = "=" * (max(places) - min(places))
        for x in places:
            line[x] = "o"
        source = row[0].source
        if source and source.who != row[0].who:
            draw_arrow(line, at[source.who], places[0], str(source.number))
        lines.append("".join(line) + text_of(row[0]))
    if len(rows) > MOST_ROWS:
        lines.append(f"      ... {len(rows) - MOST_ROWS} more")
    return "\n".join(lines)


def draw_arrow(line, start, end, name):
    low, high = min(start, end), max(start, end)
    line[low + 1:high] = "-" * (high - low - 1)
    line[start:start + len(name)] = name
    line[end] = "o"
    if end > start:
        line[end - 1] = ">"
    else:
        line[end + 1] = "<"
