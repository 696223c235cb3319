# Sourced by the scripts beside this folder: finds interpreters, and makes environments that mend themselves.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
unset PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0

say() { printf '%s\n' "$*" >&2; }

# help_of "$@": prints what the script says of itself at its head, and ends it, where that is asked for.
help_of() {
  case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# //p' "$0"; exit 0 ;; esac
}

# usable VERSION COMMAND: prints the interpreter behind COMMAND if it runs, has that version and can make environments.
usable() {
  "$2" -I -c 'import ensurepip, ssl, sys, venv
if "%d.%d" % sys.version_info[:2] != sys.argv[1] or sys.maxsize < 2 ** 32: sys.exit(1)
print(sys.executable)' "$1" 2>/dev/null
}

# find_python VERSION...: prints the first interpreter found on PATH or among pyenv's versions.
find_python() {
  local version command
  for version; do
    for command in "python$version" python3 python "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$version"[.-]*/bin/python; do
      usable "$version" "$command" && return
    done
  done
  return 1
}

# uv_python VERSION...: the same through uv, which can fetch one.
uv_python() {
  local version
  for version; do
    uv python find "$version" >/dev/null 2>&1 || uv python install "$version" >/dev/null 2>&1 || continue
    usable "$version" "$(uv python find "$version" 2>/dev/null)" && return
  done
  return 1
}

# runs HOME CODE: whether the Python code runs in that environment; what it says is shown where it does not.
runs() {
  local said
  said=$("$1/bin/python" -W ignore -c "$2" 2>&1) || { printf '%s\n' "$said"; return 1; }
}

# environment HOME PYTHON CODE PIP-ARGUMENT...: makes HOME, unless it is finished, unchanged, and CODE runs in it.
# The file `finished` is written last: an environment without it was cut short and is made anew.
environment() {
  local home=$1 python=$2 code=$3 place wanted
  shift 3
  place="$root $python"
  wanted="$place $* $(cat "$root"/pyproject.toml "$root"/docker/pins/{caffe2,onnx,plot,tensorboard,dask,samples,dev}.txt | cksum)"
  if [ "$(cat "$home/finished" 2>/dev/null)" = "$wanted" ] && runs "$home" "$code" >/dev/null; then return; fi
  say "Installing into ${home#"$root"/} with $python; the first time this takes some minutes."
  if ! [[ $(cat "$home/finished" 2>/dev/null) = "$place "* ]] || ! runs "$home" "$code" >/dev/null; then
    rm -rf "$home"
    "$python" -m venv "$home"
  fi
  rm -f "$home/finished"
  (cd "$root" && "$home/bin/python" -m pip install -qq 'pip>=22.1' && "$home/bin/python" -m pip install -qq "$@")
  runs "$home" "$code" >&2
  printf '%s\n' "$wanted" >"$home/finished"
}

# one_at_a_time COMMAND...: runs it while no other of these scripts sets up this checkout.
one_at_a_time() {
  mkdir -p "$root/.envs"
  exec 9>"$root/.envs/lock"
  if command -v flock >/dev/null; then flock 9; fi
  "$@"
  exec 9>&-
}

# project_environment: .venv with Caffe2, c2step and all that the scripts need.
project_environment() {
  local python
  python=$(find_python 3.9 3.8 3.7 || uv_python 3.9 3.8 3.7) || {
    say "No Python that Caffe2 runs on: install Python 3.9 (3.8 and 3.7 do too) with its venv module, or uv, then run this again."
    exit 2
  }
  environment "$root/.venv" "$python" \
    "import caffe2.python.workspace, numpy, onnx, onnxruntime, prompt_toolkit, sklearn, c2step" \
    --config-settings editable_mode=compat -e '.[caffe2,onnx,plot,tensorboard,dask,samples,dev]'
}

# sample_models: trains them where they are missing or made by an older recipe.
sample_models() {
  "$root/.venv/bin/python" -W ignore "$root/scripts/samples" --if-needed
}

# exports_environment: .envs/exports with torchvision, which fits torch 1.10.2, to export models.
exports_environment() {
  local python
  python=$(find_python 3.9 3.8 || uv_python 3.9 3.8) || {
    say "torchvision 0.11.3 needs Python 3.9 or 3.8 with its venv module, or uv"
    exit 2
  }
  environment "$root/.envs/exports" "$python" "import torch, torchvision, onnx" \
    torch==1.10.2 torchvision==0.11.3 numpy==1.23.5 protobuf==3.20.3 onnx==1.16.2
}
