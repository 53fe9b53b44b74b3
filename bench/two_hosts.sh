#!/usr/bin/env bash
# What proves ranks on several hosts, in one command: values and times of each layout and level, then a rank that falls silent.
#
#   bench/two_hosts.sh a:4,b:4     by mpirun from a: so many GPUs of each host (docs/two_hosts.md says what they need)
#   bench/two_hosts.sh --here      on CPUs, four processes of this machine, of which two each say that they are on another host
#
# Needs Open MPI's mpirun, and mpi4py and baton in the `python` that every host finds. Exit code 0: all was right.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit
[[ $# == 1 ]] || { sed -n '2,7s/^# \?//p' "$0"; exit 2; }

ranks_of() { # what mpirun is told of `a:4,b:4`
  local sum=0 host
  for host in ${1//,/ }; do sum=$((sum + ${host##*:})); done
  echo "$sum"
}

run() { # run NAME ARGUMENTS...
  local name=$1; shift
  local program=(python bench/beyond_one_host.py --meet mpi "$@")
  echo "== $name"
  if [[ $hosts == --here ]]; then
    mpirun --oversubscribe -np 2 -x BATON_HOST=left "${program[@]}" "${small[@]}" : -np 2 -x BATON_HOST=right "${program[@]}" "${small[@]}"
  else
    mpirun -np "$ranks" --host "$hosts" "${passed_on[@]}" "${program[@]}"
  fi || failed+=("$name")
}

of_host='[^:,]+:[1-9][0-9]*'
if [[ $1 != --here && ! $1 =~ ^$of_host(,$of_host)*$ ]]; then
  echo "two_hosts.sh: $1: expected --here, or each host with its number of GPUs, as in a:4,b:4" >&2
  exit 2
elif ! command -v mpirun >/dev/null; then
  echo "two_hosts.sh: mpirun is not found; install Open MPI, or start bench/beyond_one_host.py by torchrun or srun" >&2
  exit 2
fi
hosts=$1 failed=() small=(--device cpu --tokens 6 --hidden 64 --top-k 3 --experts 13 --rounds 3 --deadline 4)
passed_on=() # what baton and NVSHMEM are told, but for what this host is called
for name in $(compgen -e BATON_) $(compgen -e NVSHMEM_); do
  [[ $name == BATON_HOST ]] || passed_on+=(-x "$name")
done
if [[ $hosts == --here ]]; then ranks=4; else ranks=$(ranks_of "$hosts"); fi
run "layout per_rank" --repeats 10
run "layout per_rank, two levels" --repeats 10 --levels two
run "layout per_expert" --repeats 10 --layout per_expert
for layout in "per_rank" "per_rank --levels two" per_expert; do
  # shellcheck disable=SC2086 # words
  run "the last rank falls silent, layout $layout" --repeats 0 --silent $((ranks - 1)) --layout $layout
done
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "all of it was right on $ranks ranks"
