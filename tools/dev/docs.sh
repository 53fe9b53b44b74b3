# The site of the documents: built from the repository's pages and sources, with its links checked. Sourced by ./dev.

docs_packages=(sphinx==8.2.3 furo==2025.12.19 myst-parser==4.0.1 matplotlib==3.11.2) # pinned
docs_folder=build/docs

# Has what builds the site in its tools/; says why not.
has_docs_tools() {
  local tools=$docs_folder/tools
  has_in_venv "$tools" "${docs_packages[@]}" && return
  may_install_tools site "$tools" "${docs_packages[@]}" && install_tools site python3 "$tools" "${docs_packages[@]}"
}

# build_docs [--no-plots]
build_docs() {
  "$docs_folder/tools/bin/python" tools/pages/build.py . --out "$docs_folder/site" "$@"
}
