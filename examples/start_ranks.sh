#!/bin/sh
# A launcher in a few lines: start_ranks.sh N PROGRAM [ARGUMENTS]. Each start is a job of its own. Fails if a rank does.
size=$1
shift
for rank in $(seq 0 $((size - 1))); do
  RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$size MASTER_PORT=${MASTER_PORT:-29500} TORCHELASTIC_RUN_ID=${TORCHELASTIC_RUN_ID:-$$} "$@" &
  ranks="$ranks $!"
done
failed=0
for process in $ranks; do wait "$process" || failed=1; done
exit $failed
