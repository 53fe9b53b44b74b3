# The stages of ./dev test. Sourced by ./dev.

count_gpus() {
  { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -c '^GPU'; } || true
}

# Sets not_here: a regular expression of the labels this machine cannot run; says why.
choose_labels() {
  local gpus
  gpus=$(count_gpus)
  not_here=
  if [[ $preset == release && ${gpus:-0} -lt 1 ]]; then
    not_here='gpu'
    notes+=("labels gpu and multi_gpu were built but not run: no NVIDIA GPU here")
  elif [[ $preset == release && $gpus -lt 2 ]]; then
    not_here='multi_gpu'
    notes+=("label multi_gpu was built but not run: only one NVIDIA GPU here")
  elif [[ $preset == cpu ]]; then
    notes+=("labels gpu and multi_gpu were not built: no CUDA toolkit 13 in use")
  fi
}

# CPU seconds of all that this shell has run so far.
cpu_seconds() {
  awk '{print int(($16 + $17) / 100)}' "/proc/$$/stat" 2>/dev/null || echo 0
}

# measured WHAT COMMAND...: runs it, and notes how long that took and how many CPU seconds.
measured() {
  local what=$1 began=$SECONDS cpu_before result=0
  cpu_before=$(cpu_seconds)
  shift
  "$@" || result=$?
  notes+=("$what took $((SECONDS - began)) s and $(($(cpu_seconds) - cpu_before)) CPU seconds")
  return "$result"
}

# stage PRESET TARGET CTEST_ARGUMENTS...: builds the target and runs its tests; goes on if tests fail.
stage() {
  local stage_preset=$1 target=$2
  shift 2
  echo "dev: ===== $stage_preset: build" >&2
  configure "$stage_preset" "${together[@]}"
  measured "$stage_preset: build" build "$stage_preset" "$target"
  echo "dev: ===== $stage_preset: test" >&2
  local results=$PWD/build/$stage_preset/results.xml
  rm -f "$results"
  stages+=("$stage_preset=$results")
  if [[ $is_whole == 1 ]]; then # a process for each test is most of what a small one takes
    measured "$stage_preset: test" python3 tools/dev/run_tests.py --build "build/$stage_preset" --jobs "$jobs" \
      --results "$results" -- "$@" </dev/null || status=1
  else
    measured "$stage_preset: test" ctest --test-dir "build/$stage_preset" --output-on-failure -j "$jobs" \
      --output-junit "$results" "$@" </dev/null || status=1
  fi
}

run_stages() {
  local quick=0 status=0 stages=() notes=() not_here excluded=()
  local together=(-DBATON_TOGETHER=ON) # of a new folder: quickest for the whole
  if [[ ${1:-} == --quick ]]; then
    quick=1
    shift
    together=() # each source apart: quickest for the one that somebody works on
    notes+=("--quick: the sanitizers and label install were left out")
  fi
  choose_labels
  [[ $quick == 1 ]] && not_here="${not_here:+$not_here|}install"
  [[ -n $not_here ]] && excluded=(-LE "$not_here")
  local none=--no-tests=error is_whole=1
  [[ $# -gt 0 ]] && none=--no-tests=ignore is_whole=0 # a selection may choose nothing in some stage

  stage "$preset" all "${excluded[@]}" "$none" "$@"
  if [[ $quick == 0 ]]; then
    # The model on 2, 3 and 4 ranks runs the code that it runs on 1 and 8.
    stage asan tests_cpu -L cpu -E 'greedy_text.*/[234]$' "$none" "$@"
    stage tsan tests_tsan -L tsan "$none" "$@"
  fi
  python3 tools/dev/summary.py "${notes[@]/#/note=}" "${stages[@]}" || status=1
  return "$status"
}
