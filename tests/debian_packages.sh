# For the scripts that put Debian's packages into .venv, without root: source tests/debian_packages.sh

# fetch_packages TARGET ADVICE PACKAGE...: unpacks packages into a folder; if they cannot be downloaded, says why, gives the
# advice and fails. Package lists of our own, so that neither root nor an earlier `apt-get update` is needed.
fetch_packages() {
  local target=$1 advice=$2 download
  download=$(mktemp -d)
  chmod 755 "$download"  # apt downloads as another user
  mkdir -p "$download/lists/partial" "$download/cache/archives/partial"
  local private=(-o "Dir::State::Lists=$download/lists" -o "Dir::Cache=$download/cache")
  if ! { apt-get "${private[@]}" update && (cd "$download" && apt-get "${private[@]}" download "${@:3}"); } \
    >"$download/log" 2>&1; then
    cat "$download/log"
    rm -rf "$download"
    echo "$advice" >&2
    return 1
  fi
  mkdir -p "$target"
  local package
  for package in "$download"/*.deb; do dpkg -x "$package" "$target"; done
  rm -rf "$download"
}

# missing_libraries PACKAGE...: those of the packages that the system lacks.
missing_libraries() {
  local library
  for library in "$@"; do
    dpkg-query --show --showformat='${Status}' "$library" 2>/dev/null | grep -q 'ok installed' || echo "$library"
  done
}
