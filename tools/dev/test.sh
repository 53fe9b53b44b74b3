# The stages of ./dev test. Sourced by ./dev.

count_gpus() {
  { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -c '^GPU'; } || true
}

# Sets not_here: a regular expression of the labels this machine cannot run; says why. And with_gpus: whether it runs label gpu.
choose_labels() {
  local gpus
  gpus=$(count_gpus)
  not_here= with_gpus=ON
  if [[ $preset == release && ${gpus:-0} -lt 1 ]]; then
    not_here='gpu' with_gpus=OFF
    notes+=("labels gpu and multi_gpu were compiled but not run: no NVIDIA GPU here")
  elif [[ $preset == release && $gpus -lt 2 ]]; then
    not_here='multi_gpu'
    notes+=("label multi_gpu was built but not run: only one NVIDIA GPU here")
  elif [[ $preset == cpu ]]; then
    notes+=("labels gpu and multi_gpu were not built: no CUDA toolkit 13 in use")
  fi
}

# measured WHAT COMMAND...: runs it in a shell of its own, and notes how long that took and how many CPU seconds.
measured() {
  local what=$1 began=$SECONDS cpu result=0
  shift
  {
    cpu=$(
      result=0
      "$@" >&3 || result=$?
      awk '{print int(($16 + $17) / 100)}' "/proc/$BASHPID/stat" 2>/dev/null || echo 0
      exit "$result"
    ) || result=$?
  } 3>&1
  notes+=("$what took $((SECONDS - began)) s and $cpu CPU seconds")
  return "$result"
}

# Whether the next stage may be compiled while tests run: a compilation takes up to 2.5 GB, and so may a test.
has_room_for_both() {
  awk -v jobs="$jobs" '/^MemAvailable/ {found = $2 >= jobs * 5e6} END {exit !found}' /proc/meminfo 2>/dev/null
}

# What was begun beside something else, and not finished: its folder and process.
declare -A folder_of=() process_of=()

# begin WHAT SCRIPT ARGUMENTS...: with what others leave of the machine, from when its folder has a file `go` until finish WHAT, which
# waits for it. Only for all tests, and where there is memory for both.
begin() {
  [[ $is_whole == 1 ]] && has_room_for_both || return 0
  local what=$1 folder
  folder=$(mktemp -d)
  : >"$folder/log"  # there whoever is quicker
  python3 tools/dev/meanwhile.py "$folder" bash -euc "$2" "$what" "${@:3}" >"$folder/log" 2>&1 &
  folder_of[$what]=$folder process_of[$what]=$!
}

# The same, from now on.
begin_now() {
  begin "$@"
  ! was_begun "$1" || touch "${folder_of[$1]}/go"
}

was_begun() {
  [[ -n ${folder_of[$1]:-} ]]
}

# finish WHAT: shows what it said and says, and waits for it.
finish() {
  local folder=${folder_of[$1]} began=$SECONDS result=0 shows
  touch "$folder/now"
  tail -n +1 -f -s 0.2 --pid="${process_of[$1]}" "$folder/log" </dev/null >&2 &
  shows=$!
  wait "${process_of[$1]}" || result=$?
  wait "$shows" || true
  notes+=("$1 took $((SECONDS - began)) s after what it began beside, and $(cat "$folder/spent" 2>/dev/null) CPU seconds")
  rm -rf "$folder"
  unset "folder_of[$1]"
  return "$result"
}

# When this shell ends before its time.
end_all_begun() {
  local what
  for what in "${!folder_of[@]}"; do
    kill "${process_of[$what]}" 2>/dev/null || true
    wait "${process_of[$what]}" 2>/dev/null || true
    rm -rf "${folder_of[$what]}"
  done
}

# begin_build PRESET TARGETS: of a stage to come; build_stage waits for it.
begin_build() {
  begin "$1: build" 'source tools/dev/build.sh; configure "$1" "${@:3}"; build "$1" "$2"' "$@" "${together[@]}"
}

# build_stage PRESET TARGETS [CMAKE_ARGUMENTS...]
build_stage() {
  echo "dev: ===== $1: build" >&2
  if was_begun "$1: build"; then
    finish "$1: build"
  else
    configure "$1" "${together[@]}" "${@:3}"
    measured "$1: build" build "$1" "$2"
  fi
}

# What tests compare with, from PyPI.
begin_packages() {
  begin_now packages 'source tools/dev/packages.sh; want_python_packages "$@"' "${python_packages[@]}"
  was_begun packages || want_python_packages "${python_packages[@]}"
}

# house_stage PRESET [CMAKE_ARGUMENTS...]: what needs nothing built, in seconds; ends all if something is amiss there.
house_stage() {
  local results=$PWD/build/$1/house.xml
  echo "dev: ===== house: check" >&2
  configure "$1" "${together[@]}" "${@:2}"
  build "$1" build.ninja # as the lists of CMake are now
  rm -f "$results"
  stages+=("house=$results")
  measured "house: check" python3 tools/dev/run_tests.py --build "build/$1" --jobs "$jobs" --results "$results" -- -L '^tree$' --no-tests=error \
    </dev/null && return
  notes+=("nothing was built: mend these first, or name the tests to run")
  report || true
  exit 1
}

# The last lines.
report() {
  python3 tools/dev/summary.py "${notes[@]/#/note=}" "${stages[@]}"
}

# test_stage PRESET CTEST_ARGUMENTS...: runs the tests; goes on if some fail. What was begun may go on once none is alone. With a
# script in `beside`, that, too.
test_stage() {
  local its=$1 results=$PWD/build/$1/results.xml
  shift
  echo "dev: ===== $its: test" >&2
  rm -f "$results"
  stages+=("$its=$results")
  if [[ $is_whole == 1 ]]; then # a process for each test is most of what a small one takes
    measured "$its: test${beside:+ and the wheel}" python3 tools/dev/run_tests.py --build "build/$its" --jobs "$jobs" --results "$results" \
      "${folder_of[@]/#/--shares=}" "--beside=$beside" -- "$@" </dev/null || status=1
  else
    measured "$its: test" ctest --test-dir "build/$its" --output-on-failure -j "$jobs" \
      --output-junit "$results" "$@" </dev/null || status=1
  fi
}

sources_of_wheel='for one in packages build wheel; do source "tools/dev/$one.sh"; done'

# What the build of the Python package ends with where PyPI cannot be reached, or with what its tests need.
no_wheel=3

make_wheel() {
  has_wheel_tools || return "$no_wheel"
  build_wheel "$1" && ready_wheel_tests
}

# Of what the preset has built: nothing more is built in its folder.
begin_wheel() {
  begin_now "wheel: build" "$sources_of_wheel; source tools/dev/test.sh; build() { :; }; make_wheel \"\$1\"" "$preset"
}

# The Python package, of what the preset has built: where PyPI can be reached. Sets what tests it.
wheel_stage() {
  local result=0
  echo "dev: ===== wheel: build" >&2
  choose_wheel_folder
  rm -f "$wheel_folder/results.xml"
  if was_begun "wheel: build"; then
    finish "wheel: build" || result=$?
  else
    measured "wheel: build" make_wheel "$preset" || result=$?
  fi
  if [[ $result == "$no_wheel" ]]; then
    notes+=("the Python package was neither built nor tested: see above what it needs")
    return
  fi
  stages+=("wheel=$PWD/$wheel_folder/results.xml")
  [[ $result == 0 ]] && beside="$sources_of_wheel; choose_wheel_folder; test_wheel" || status=1
}

# Of what both builds have, these are run in one of them alone. Numbers of the model and its texts optimised, a slice of them with the
# sanitizers; of the exchange on 1 to 8 ranks, for which the CPU machine runs one kernel, some numbers of ranks in one build, the rest in the other.
only_optimised='exchange_every_way[.]|^cpu/exchange(_per_rank)?[.]every_row.*/[(][124], |^cpu/greedy_text[.].*/[1-4]$'
only_optimised+='|^greedy_text[.](is_the_same|equals|stays)_|^fp8_greedy_texts[.]|^qwen3_moe[.]greedy_text_'
only_sanitized='^cpu/exchange(_per_rank)?[.]every_row.*/[(][38], |^narrow/exchange_per_rank[.]|^cpu/greedy_text[.].*/8$'
only_sanitized+='|^greedy_text[.]of_|^program[.](a_quantised_model|layout_per_rank|moe_fails|moe_without|replicas)_'

# with_tests KIND PRESET: those of the sanitizers or of GPUs, in a folder that was set up without them.
with_tests() {
  ! grep -qs "^BATON_$1_TESTS:.*=OFF\$" "build/$2/CMakeCache.txt" || cmake "-DBATON_$1_TESTS=ON" "build/$2" </dev/null >&2
}

run_stages() {
  local quick=0 status=0 stages=() notes=() not_here with_gpus=ON excluded=() one_build=()
  local beside= # a script that is run beside tests
  local together=(-DBATON_TOGETHER=ON) # of a new folder: quickest for the whole
  if [[ ${1:-} == --quick ]]; then
    quick=1
    shift
    together=() # each source apart: quickest for the one that somebody works on
    notes+=("--quick: the sanitizers, label install and the Python package were left out")
  fi
  choose_labels
  [[ $quick == 1 ]] && not_here="${not_here:+$not_here|}install"
  local none=--no-tests=error is_whole=1 options=()
  [[ $# -gt 0 ]] && none=--no-tests=ignore is_whole=0 # a selection may choose nothing in some stage

  trap end_all_begun EXIT
  begin_packages
  if [[ $quick == 1 ]]; then
    with_tests SANITIZED "$preset"
  else # most tests are built once, with the sanitizers; those of GPUs get code of GPUs where there are some
    options=(-DBATON_SANITIZED_TESTS=OFF "-DBATON_GPU_TESTS=$with_gpus")
    one_build=(-E "$only_sanitized")
  fi
  [[ $with_gpus == OFF ]] || with_tests GPU "$preset"
  if [[ $is_whole == 1 ]]; then
    house_stage "$preset" "${options[@]}"
    not_here="${not_here:+$not_here|}^tree$"
  fi
  [[ -n $not_here ]] && excluded=(-LE "$not_here")
  build_stage "$preset" all "${options[@]}"
  ! was_begun packages || finish packages
  [[ $quick == 1 ]] || begin_build asan "tests_cpu tests_kernels"
  test_stage "$preset" "${excluded[@]}" "${one_build[@]}" "$none" "$@"
  if [[ $quick == 0 ]]; then
    begin_wheel # where one long compilation is the last, a core is left
    build_stage asan "tests_cpu tests_kernels"
    [[ $is_whole == 0 ]] || wheel_stage
    begin_build tsan tests_tsan
    test_stage asan -L '^(cpu|kernels)$' -E "$only_optimised" "$none" "$@"
    beside=
    build_stage tsan tests_tsan
    test_stage tsan -L tsan "$none" "$@"
  fi
  report || status=1
  return "$status"
}
