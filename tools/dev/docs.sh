# The site of the documents: built from the repository's pages and sources, with its links checked. Sourced by ./dev.

docs_packages=(sphinx==8.2.3 furo==2025.12.19 myst-parser==4.0.1 matplotlib==3.11.2) # pinned
docs_folder=build/docs

# Has what builds the site in its tools/; says why not.
has_docs_tools() {
  local tools=$docs_folder/tools
  [[ "$(cat "$tools/has" 2>/dev/null)" == "${docs_packages[*]}" ]] && return
  if [[ ${BATON_INSTALL_PACKAGES:-1} == 0 ]]; then
    echo "dev: no site: ${docs_packages[*]} are not in $tools, and BATON_INSTALL_PACKAGES=0" >&2
    return 1
  fi
  echo "dev: installing ${docs_packages[*]} into $tools" >&2
  if python3 -m venv "$tools" && "$tools/bin/python" -m pip install -q "${docs_packages[@]}"; then
    echo "${docs_packages[*]}" >"$tools/has"
  else
    echo "dev: no site: PyPI's packages could not be installed (on Debian, Python needs python3-venv for it)" >&2
    return 1
  fi </dev/null >&2
}

# build_docs [--no-plots]
build_docs() {
  "$docs_folder/tools/bin/python" tools/pages/build.py . --out "$docs_folder/site" "$@"
}
