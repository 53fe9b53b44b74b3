#!/bin/sh
# only_read.sh COMPILER ARGUMENTS...: of a compilation that ends before there is code (-fsyntax-only), so that what it is asked for (-o) is
# there, empty, if the compiler has nothing to say against it.
object= last=
for argument; do
  [ "$last" != -o ] || object=$argument
  last=$argument
done
"$@" || exit
: >"$object"
