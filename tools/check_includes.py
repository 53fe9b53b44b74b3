#!/usr/bin/env python3
"""Fails on a host file that uses a name and does not include its header: check_includes.py [ROOT].

Sources that are compiled together may lean on what those before them include, and no compiler says so. This reads each file for itself.
Of std it knows each name's header (STANDARD), of the system and of libraries those in use (OTHERS), and what the tree's headers
declare at namespace scope. A file sees what it includes, and what the tree's headers that it includes include. What this cannot see:
members of a type whose name a file never says, and names that are also those of a parameter, a member or the like in what the file sees.
"""
import collections
import functools
import itertools
import pathlib
import re
import sys

import check_layers
import tree

STANDARD = {  # header: the names of std:: that it has, as regular expressions
    "algorithm": "m(ax|in)(_element)?|clamp|(any|all|none)_of|(stable_|partial_)?sort|find(_if|_first_of)?|copy(_n|_if)?|fill(_n)?|"
                 "transform|count(_if)?|(lower|upper)_bound|swap_ranges|next_permutation|unique|shuffle|mismatch|equal|reverse|"
                 "rotate|generate|remove_if|nth_element|is_sorted|ranges::.*",
    "array": "array|to_array",
    "atomic": "atomic|atomic_.*|memory_order.*",
    "barrier": "barrier",
    "bit": "bit_cast|bit_width|bit_ceil|bit_floor|has_single_bit|popcount|count[lr]_(zero|one)|endian",
    "charconv": "from_chars|to_chars",
    "chrono": "chrono|chrono::.*",
    "cmath": "fabs|abs|isnan|isinf|isfinite|signbit|ldexp|frexp|exp2?|sqrt|fma|nextafter|nanf?|l?lround|round|log2?|ilogb|hypot|"
             "copysign|ceil|floor|trunc|fmod|sin|cos|tanh?|pow",
    "concepts": "same_as|convertible_to|derived_from|integral|floating_point|invocable|constructible_from",
    "condition_variable": "condition_variable",
    "csignal": "signal|raise",
    "cstddef": "ptrdiff_t|nullptr_t|max_align_t|byte|to_integer",
    "cstdint": "u?int(8|16|32|64|max|ptr)_t",
    "cstdio": "f?printf|f?puts|fflush|fopen|FILE|snprintf",
    "cstdlib": "getenv|system|exit|_Exit|abort|free|malloc|aligned_alloc|strto.*|atoi",
    "cstring": "mem(cpy|set|cmp|move)|str(error|len|cmp)",
    "ctime": "tm|time_t|strftime|time|gmtime",
    "deque": "deque",
    "exception": "exception|exception_ptr|(current|rethrow|uncaught)_exceptions?|make_exception_ptr|terminate",
    "filesystem": "filesystem|filesystem::.*",
    "fstream": "[io]?fstream",
    "functional": "function|hash|plus|multiplies|less|greater|ref|cref|invoke|bind_front",
    "future": "future|async|launch",
    "initializer_list": "initializer_list",
    "iostream": "c(out|err|in|log)",
    "iterator": "next|prev|distance|.*_iterator(_tag)?|back_inserter|inserter",
    "limits": "numeric_limits",
    "map": "(multi)?map",
    "memory": "(unique|shared|weak)_ptr|make_(unique|shared)|allocator.*|enable_shared_from_this|addressof|align",
    "mutex": "(recursive_)?mutex|(lock_guard|unique_lock|scoped_lock)|call_once|once_flag",
    "new": "bad_alloc|launder|nothrow|align_val_t",
    "numbers": "numbers::.*",
    "numeric": "iota|accumulate|gcd|lcm|inner_product|partial_sum|(in|ex)clusive_scan|reduce",
    "optional": "optional|nullopt",
    "ostream": "ostream|endl|flush",
    "random": "mt19937(_64)?|.*_distribution|minstd_rand|random_device|seed_seq",
    "ratio": "micro|milli|nano|ratio",
    "regex": "regex.*|smatch|cmatch",
    "set": "(multi)?set",
    "source_location": "source_location",
    "span": "span|as_(writable_)?bytes|dynamic_extent",
    "sstream": "[io]?stringstream",
    "stdexcept": "(runtime|logic|range|overflow)_error|out_of_range|invalid_argument|length_error",
    "string": "string|to_string|getline|stoi|stoull?|char_traits",
    "string_view": "string_view",
    "system_error": "system_error|error_code|errc|(generic|system)_category",
    "thread": "j?thread|this_thread::.*|stop_token",
    "tuple": "tuple|tie|apply|make_tuple|forward_as_tuple",
    "type_traits": "(is|remove|add|make)_(?!pair|unique|shared|tuple|exception).*|conditional_t|decay_t|type_identity(_t)?|"
                   "invoke_result_t|integral_constant|enable_if_t|underlying_type_t|bool_constant|true_type|false_type|void_t|common_type_t",
    "utility": "declval|(make_)?(integer|index)_sequence.*|as_const|cmp_.*|in_place|unreachable",
    "variant": "variant|visit|get_if|monostate|holds_alternative",
    "vector": "vector|erase_if",
}
# Names that every header here that uses them for its own has: of <cstddef>, <utility>, <iterator>, <ios>.
ANYWHERE = r"size_t|move|forward|swap|exchange|pair|make_pair|get|ios|hex|hexfloat|streamsize|size|data|begin|end"
OTHERS = {  # headers, any of which will do: names outside std
    ("cerrno",): "errno|E[A-Z]{4,}",
    ("climits", "limits.h"): "U?(INT|LONG|CHAR)_M(AX|IN)|PATH_MAX",
    ("cmath",): "NAN|INFINITY|HUGE_VAL",
    ("csignal",): "SIG[A-Z]+|SIG_(IGN|DFL)|SA_[A-Z]+|::kill|::sigaction",
    ("cstdlib",): "EXIT_(SUCCESS|FAILURE)|::(un)?setenv|::putenv|::mkostemp|::mkdtemp",
    ("dlfcn.h",): "RTLD_[A-Z]+|::dl(open|sym|close|error)",
    ("fcntl.h",): "O_[A-Z]+|F_[A-Z]+(_[A-Z]+)?|FD_CLOEXEC|::open|::fcntl|::fallocate",
    ("poll.h",): "POLL[A-Z]+|::poll",
    ("pthread.h",): "::pthread_[a-z_]+",
    ("sched.h",): "CPU_[A-Z]+|::sched_[a-z]+",
    ("sys/mman.h",): "MAP_[A-Z]+|PROT_[A-Z]+|MFD_[A-Z_]+|::mmap|::munmap|::memfd_create",
    ("sys/random.h",): "::getrandom",
    ("sys/resource.h",): "RLIM(IT)?_[A-Z]+|rlimit|rlim_t|::[gs]etrlimit",
    ("sys/socket.h",): "AF_[A-Z]+|SOCK_[A-Z]+|SOL_SOCKET|SO_[A-Z]+|MSG_[A-Z_]+|CMSG_[A-Z]+|SCM_RIGHTS|SHUT_[A-Z]+|"
                       "::(socket(pair)?|[gs]etsockopt|bind|listen|connect|accept4|shutdown|send(msg)?|recv(msg)?)",
    ("sys/stat.h",): "S_IS[A-Z]+|::[fl]?stat|::f?chmod|::umask",
    ("sys/statvfs.h",): "::statvfs",
    ("sys/un.h",): "sockaddr_un",
    ("sys/utsname.h",): "::uname",
    ("sys/wait.h",): "W(EXITSTATUS|IFEXITED|TERMSIG|IFSIGNALED)|::waitpid",
    ("unistd.h",): "STD(IN|OUT|ERR)_FILENO|::(getpp?id|gete?uid|setuid|getsid|getpgrp|close|_exit|fork|ftruncate|sysconf|"
                   "p?read|write|dup2?|unlink|pipe|usleep|fsync|execv|execl)",
    ("fmt/format.h", "fmt/ranges.h"): "fmt::[a-z_]+",
    ("gtest/gtest.h",): "testing::[A-Za-z]+|(EXPECT|ASSERT)_[A-Z_]+|TEST(_[FP])?|TYPED_TEST(_SUITE)?|GTEST_SKIP|SCOPED_TRACE|ADD_FAILURE",
    ("nlohmann/json.hpp",): "nlohmann::[a-z_]+",
    ("CLI/CLI.hpp",): "CLI::[A-Za-z]+",
}
OTHER = {headers: re.compile(rf"(?<![\w:.>])({names})(?!\w)") for headers, names in OTHERS.items()}

NOT_CODE = re.compile(r"""R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|(?<!\w)'(?:\\.|[^'\\\n])+'|"""
                      r"""^[ \t]*\#[^\n]*(?:\\\n[^\n]*)*""", re.S | re.M)
TEST_NAMES = re.compile(r"\b(TYPED_)?TEST(_[FP]|_SUITE(_P)?)?\([^)]*\)|\bINSTANTIATE_TEST_SUITE_P\([^,]*,[^,]*")
STD = re.compile(r"(?<![\w:])std::((?:(?:chrono|filesystem|ranges|numbers|this_thread)::)?\w+)")
TOKEN = re.compile(r"\w+|::|->|[^\s\w]")
NAME = re.compile(r"[A-Za-z_]\w*")
NO_TYPES = {"return", "case", "throw", "else", "goto", "new", "delete", "do", "operator", "using", "namespace", "and", "or", "not",
            "const", "constexpr", "static", "inline", "extern", "volatile", "typename", "virtual", "friend", "explicit", "public",
            "private"}
NO_FUNCTIONS = {"if", "decltype", "noexcept", "requires", "static_assert", "alignas", "explicit", "sizeof"}


def name_of(statement):
    """The name that a statement at namespace scope declares, as a list: of one, or of none."""
    while statement[:1] == ["template"]:
        depths = list(itertools.accumulate((token == "<") - (token == ">") for token in statement))
        statement = statement[depths.index(0, 1) + 1:] if 0 in depths[1:] else []
    if statement[:1] == [","]:
        return []  # a member's initialiser, behind one in braces
    if statement[:1] == ["using"]:
        return statement[1:2] if statement[2:3] == ["="] else []
    if statement[:1] and statement[0] in ("struct", "class", "union", "enum", "concept"):
        return [token for token in statement[1:] if NAME.fullmatch(token) and token not in ("class", "struct", "alignas")][:1]
    for before, name, after in zip(statement, statement[1:], [*statement[2:], ";"]):
        if "operator" in (before, name):
            return []
        if after in ("=", ";", "[") or after == "(" and name not in NO_FUNCTIONS:
            return [name] if NAME.fullmatch(name) and before != "::" else []
    return []


def declared(tokens):
    """Names that are declared at namespace scope."""
    is_namespace, statement = [], []  # of each open brace; tokens since the last end of a statement there
    for token in tokens:
        at_namespace = all(is_namespace)
        if token == "}":
            if is_namespace:
                is_namespace.pop()
            statement = [] if all(is_namespace) and not (at_namespace and statement) else statement
        elif token == "{":
            if at_namespace:
                yield from name_of(statement)
            is_namespace.append("namespace" in statement[:2] and at_namespace)
            statement = [] if all(is_namespace) else statement
        elif token == ";" and at_namespace:
            yield from name_of(statement)
            statement = []
        elif at_namespace:
            statement.append(token)


def introduced(code, tokens):
    """Names that may be those of parameters, variables, members, enumerators: what follows a type, or stands in a list of names."""
    for before, name, after in zip(tokens, tokens[1:], tokens[2:]):
        if NAME.fullmatch(name) and (NAME.fullmatch(before) and before not in NO_TYPES or before in (">", "*", "&", "]") or
                                     before in (",", "}", "const") and after in ("=", ";") or before == "using" and after == "="):
            yield name
    for names in re.findall(r"\benum\b[^{;]*\{([^}]*)\}|\[([\w\s,&]*)\]", code):
        yield from NAME.findall(" ".join(names))


class host_file:
    """What a file says, comments, literals, directives and the names of tests apart."""

    def __init__(self, text):
        self.code = NOT_CODE.sub(lambda found: "\n" * found[0].count("\n") + " ", text)
        tokens = TOKEN.findall(TEST_NAMES.sub(" ", self.code))
        self.namespaces = {name for path in re.findall(r"\bnamespace ([\w:]+)", self.code) for name in path.split("::")}
        # a macro that a file takes away is another's, which it replaces, or nobody's after it
        macros = {name: set(re.findall(rf"^\s*#\s*{name} (\w+)", text, flags=re.M)) for name in ("define", "undef")}
        self.declares = {*macros["define"] - macros["undef"], *declared(tokens)}
        self.introduces = {*self.declares, *introduced(self.code, tokens)}
        # {(namespace or type, or "": name)}; what follows a dot or an arrow is a member
        self.says = {(first if middle == "::" else "", name) for first, middle, name in zip(["", "", *tokens], ["", *tokens], tokens)
                     if NAME.fullmatch(name) and middle not in (".", "->")}

    def line_of(self, name):
        return self.code[:re.search(rf"\b{name}\b", self.code).start()].count("\n") + 1


@functools.cache
def header_of(name):
    """The header of a name of std; None: it is not known."""
    return next((header for header, names in STANDARD.items() if re.fullmatch(names, name)), None)


def standard_complaints(file, includes):
    lacking = {}
    for name in STD.findall(file.code):
        header = header_of(name)
        if not re.fullmatch(ANYWHERE, name) and header not in includes:
            lacking.setdefault(header, name)
    for header, name in lacking.items():
        yield name.rpartition(":")[2], f"std::{name} is of <{header}>" if header else f"std::{name}: say in STANDARD which header has it"


def other_complaints(file, includes):
    for headers, names in OTHER.items():
        if includes.isdisjoint(headers) and (found := names.search(file.code)):
            yield found[0].rpartition(":")[2], f"{found[0]} is of <{headers[0]}>"


def compiled_before(path, declarers):
    """Those that may stand before a file when sources are compiled together: headers, and sources of its folder."""
    folder = path.rpartition("/")[0]
    return sorted(other for other in declarers if other.endswith(".hpp") or other.rpartition("/")[0] == folder)


def complaints(root):
    graph = check_layers.include_graph(root)
    files = {name: host_file(path.read_text()) for name, path in graph.paths.items() if path.suffix in (".hpp", ".cpp")}
    namespaces = {name for file in files.values() for name in file.namespaces}
    declarers = collections.defaultdict(set)  # {name: the headers that declare it, and the sources}
    for path, file in files.items():
        for name in file.declares - namespaces:
            declarers[name].add(path)
    for path, file in files.items():
        seen = [other for other in graph.seen(path) if other in files]
        includes = {what for other in seen for _, what, _ in graph.includes[other]}
        known = {name for other in seen for name in files[other].introduces}
        said = {name for of, name in file.says if name not in known and (not of or of in namespaces)}
        lacking = {name: others for name in sorted(said) if (others := compiled_before(path, declarers.get(name, ())))}
        for name, text in (*standard_complaints(file, includes), *other_complaints(file, includes),
                           *((name, f"{name} is of {' or of '.join(others)}") for name, others in lacking.items())):
            yield f"{path}:{file.line_of(name)}: {text}, which is not included"


if __name__ == "__main__":
    sys.exit(tree.report(complaints(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")), "includes"))
