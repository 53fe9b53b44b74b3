# Which preset this machine can build, and building it. Sourced by ./dev.

jobs=${BATON_JOBS:-$(nproc)}
preset=cpu

find_nvcc() {
  command -v nvcc || { [[ -x /usr/local/cuda/bin/nvcc ]] && echo /usr/local/cuda/bin/nvcc; }
}

# Sets preset: release where there is an nvcc that can build the kernels, else cpu; says why.
choose_preset() {
  local nvcc version
  if [[ ${BATON_CUDA:-ON} =~ ^(OFF|off|0)$ ]]; then
    echo "dev: CPU library only, as BATON_CUDA=$BATON_CUDA asks" >&2
  elif ! nvcc=$(find_nvcc); then
    echo "dev: CPU library only: no nvcc in PATH or /usr/local/cuda/bin" >&2
  else
    version=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\).*/\1/p')
    if ((${version:-0} < 13)); then
      echo "dev: CPU library only: $nvcc is version ${version:-unknown}, the kernels need 13" >&2
    else
      export CUDACXX=$nvcc
      preset=release
    fi
  fi
}

# configure PRESET [CMAKE_ARGUMENTS...]: quick when it was done before; CMake itself notices changes afterwards.
configure() {
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  [[ -f build/$1/build.ninja ]] && return
  rm -rf "build/$1/CMakeCache.txt"
  cmake --preset "$@" "${launcher[@]}" </dev/null >&2
}

# build PRESET TARGETS: a word of them
build() {
  cmake --build "build/$1" --target $2 -j "$jobs" </dev/null >&2
}
