# Shared by the set-up scripts; sourced, not run.

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}
is_root() { [ "$(id -u)" = 0 ]; }

install_debian_packages() {
  say "Debian packages: $*"
  export DEBIAN_FRONTEND=noninteractive
  local log
  log=$(mktemp)
  if { apt-get update -q && apt-get install -y -q --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
    rm -f "$log"
    return
  fi
  tail -n 15 "$log" >&2
  rm -f "$log"
  fail "apt-get could not install them; its message is above."
}
