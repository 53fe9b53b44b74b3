#!/bin/sh
# kept_listing.sh NVCC ARGUMENTS...: runs it. If it keeps a kernel file's PTX (--keep-dir), what ptxas said is kept beside it and not shown.
keep= source=
for argument; do
  case $argument in
    --keep-dir=*) keep=${argument#--keep-dir=} ;;
    *.cu) source=${argument##*/} ;;
  esac
done
[ -n "$keep" ] || exec "$@"
"$@" 2>"$keep/${source%.cu}.ptxas"
result=$?
grep -vE '^ptxas info|bytes stack frame|^$' "$keep/${source%.cu}.ptxas" >&2
exit "$result"
