# Debian packages: what is needed, what is missing, and how to get it. Sourced by ./dev.

build_packages=(cmake ninja-build g++ libboost-context-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libgtest-dev python3)
# pinned: what narrow formats are compared with, and what lists machine code where the toolkit is installed without it
python_packages=(ml_dtypes==0.6.0 numpy==2.4.6 nvidia-cuda-nvdisasm==13.5.37)
wheel_packages=(python3-dev python3-venv) # without them there is no wheel of the Python package
check_packages=(clang-format-14 clang-tidy-14) # the pinned version; without it the style checks are skipped

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

# Prints how this user may run apt-get without being asked anything; fails if there is no way.
apt_get() {
  [[ ${BATON_INSTALL_PACKAGES:-1} != 0 ]] || return 1
  if [[ $(id -u) == 0 ]]; then
    echo "env DEBIAN_FRONTEND=noninteractive apt-get"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    echo "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get"
  else
    return 1
  fi
}

install_packages() {
  local apt
  apt=$(apt_get) || return 1
  echo "dev: installing $*" >&2
  # Package lists may be absent (a fresh container) or old: fetch them if the first try fails.
  $apt install -y -q --no-install-recommends "$@" </dev/null >&2 ||
    { $apt update -q </dev/null >&2 && $apt install -y -q --no-install-recommends "$@" </dev/null >&2; }
}

# have_packages P...: installs those that are missing at once, which is quickest, if all of them can be.
have_packages() {
  command -v dpkg-query >/dev/null || return 0
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} == 0 ]] || install_packages "${missing[@]}" || true
}

# need_packages P...: returns with all of them installed, or exits with the command that installs them.
need_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "dev: not a Debian system; assuming that the equivalents of these packages are here: $*" >&2
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} == 0 ]] && return
  install_packages "${missing[@]}" && return
  echo "dev: packages are missing that this user may not install. Install them and try again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
  exit 3
}

# want_packages P...: installs them if it can, and goes on without them if not.
want_packages() {
  command -v dpkg-query >/dev/null || return 0
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} == 0 ]] && return
  install_packages "${missing[@]}" ||
    echo "dev: going on without ${missing[*]}; to have them: sudo apt-get install -y ${missing[*]}" >&2
}

# has_in_venv FOLDER P...: whether install_in_venv has installed just these there.
has_in_venv() {
  [[ "$(cat "$1/has" 2>/dev/null)" == "${*:2}" ]]
}

# make_venv PYTHON FOLDER [--clear]: a virtual environment. With a pip of its own, which takes 6 CPU seconds, only where that of
# build/python serves no others (before 22.3).
make_venv() {
  local own_pip=()
  if [[ $2 != build/python ]] && build/python/bin/python -m pip --python build/python/bin/python --version &>/dev/null; then
    own_pip=(--without-pip)
  fi
  "$1" -m venv "${@:3}" "${own_pip[@]}" "$2" </dev/null >&2
}

# pip_of FOLDER ARGUMENTS...: for such a one.
pip_of() {
  if [[ -x $1/bin/pip ]]; then
    "$1/bin/python" -m pip "${@:2}"
  else
    build/python/bin/python -m pip --python "$1/bin/python" "${@:2}"
  fi </dev/null >&2
}

# install_in_venv PYTHON FOLDER P...: PyPI's packages, in a virtual environment of that Python.
install_in_venv() {
  echo "dev: installing ${*:3} into $2" >&2
  make_venv "$1" "$2" && pip_of "$2" install -q "${@:3}" && echo "${*:3}" >"$2/has"
}

# may_install_tools WHAT FOLDER P...: for what is not made without them. Says so if not.
may_install_tools() {
  [[ ${BATON_INSTALL_PACKAGES:-1} != 0 ]] && return
  echo "dev: no $1: ${*:3} are not in $2, and BATON_INSTALL_PACKAGES=0" >&2
  return 1
}

# install_tools WHAT PYTHON FOLDER P...: says why not.
install_tools() {
  install_in_venv "${@:2}" && return
  echo "dev: no $1: PyPI's packages could not be installed (on Debian, Python needs python3-venv for it)" >&2
  return 1
}

# want_python_packages P...: has them in build/python if it can, and goes on without them if not.
want_python_packages() {
  has_in_venv build/python "$@" || [[ ${BATON_INSTALL_PACKAGES:-1} == 0 ]] || install_in_venv python3 build/python "$@" ||
    echo "dev: going on without $*; the tests that need them are skipped (on Debian, Python needs python3-venv for it)" >&2
}
