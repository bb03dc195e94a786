#!/usr/bin/env bash
# The engine contract against a real SGLang 0.5.23 on this machine's CPU: install it into an environment of its own
# (9.5 GB, once), serve the tiny models, run the suite, stop the server. Needs uv, a Linux x86-64 machine and about 3 GB of memory.
# Usage: inference/sglang/run_contract.sh [further pytest arguments]
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
environment=${ATDP_SGLANG_ENV:-$top/.venv-sglang}
python=${ATDP_PYTHON:-$top/.venv/bin/python}
umask 077
work=$(mktemp -d "${TMPDIR:-/tmp}/atdp-sglang.XXXXXX")
server=

stop() {
  if [ -n "$server" ]; then
    kill -TERM -- "-$server" 2>/dev/null || true
    for _ in $(seq 50); do kill -0 -- "-$server" 2>/dev/null || break; sleep 0.2; done
    kill -KILL -- "-$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT

locked=$top/inference/sglang/requirements.txt
if ! cmp --silent "$locked" "$environment/installed.txt"; then
  command -v uv >/dev/null || { echo "uv is missing; run make setup first" >&2; exit 2; }
  echo "Installing SGLang 0.5.23 into $environment"
  uv venv --quiet --python 3.11 --clear "$environment"
  uv pip install --quiet --python "$environment/bin/python" --require-hashes --only-binary :all: -r "$locked"
  cp "$locked" "$environment/installed.txt"
fi

echo "Making tiny models"
"$python" -m atdp.trainer.testing "$work/models"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# SGLang reads its keys from a file, so that they are in no list of processes.
token=$("$python" -c 'import secrets; print(secrets.token_hex(32))')
printf 'api-key: "%s"\nadmin-api-key: "%s"\n' "$token" "$token" >"$work/keys.yaml"

echo "Starting SGLang on 127.0.0.1:$port (about a minute)"
# A session of its own, so that its scheduler and detokenizer processes stop with it. No network: everything is on disk.
HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 setsid "$environment/bin/python" -m sglang.launch_server --config "$work/keys.yaml" \
  --model-path "$work/models/first" --served-model-name tiny --weight-version first --host 127.0.0.1 --port "$port" \
  --device cpu --attention-backend torch_native --sampling-backend pytorch --model-impl transformers --dtype float32 \
  --cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled \
  --max-total-tokens 20000 --context-length 2048 --mem-fraction-static 0.3 --tool-call-parser qwen25 --enable-metrics \
  >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 300); do
  if ! kill -0 "$server" 2>/dev/null; then
    echo "SGLang stopped while starting; the end of its log:" >&2
    tail -n 30 "$work/server.log" >&2
    exit 1
  fi
  "$python" - "$port" <<'PY' && break || sleep 1
import sys, urllib.request
try:
    sys.exit(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/health_generate", timeout=20).status != 200)
except OSError:
    sys.exit(1)
PY
done

status=0
ATDP_TEST_ENGINE_URL="http://127.0.0.1:$port" ATDP_TEST_ENGINE_TOKEN="$token" ATDP_TEST_ENGINE_MODELS="$work/models" \
  "$python" -m pytest "$top/tests/contract/inference" -m sglang "$@" || status=$?
if [ "$status" -ne 0 ]; then
  cp "$work/server.log" "$top/build/sglang-server.log" 2>/dev/null || tail -n 40 "$work/server.log" >&2
fi
exit "$status"
