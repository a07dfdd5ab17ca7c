"""A host that is wrong on purpose, for tests of the suite. Its only argument says how. It keeps no session: it answers, and that is all."""
import json
import sys
import time

how = sys.argv[1]
lc = 0
prompts = 0


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(method, **params):
    global lc
    lc += 1
    say({"method": method, "params": {"lc": lc, **params}})


def answer(number, result):
    say({"id": number, "result": result})


def outcome(call):
    global prompts
    name = call["operation"]["name"]
    if name == "prompt":
        prompts += 1
    if how == "always-refuse" or (how == "fickle" and name == "prompt" and prompts % 2 == 0):
        return {"status": "refused", "code": "NO_PROVIDER", "message": "no"}
    return {"status": "ok", "message": "m%d" % prompts}


def op(number, calls):
    for call in calls:
        name = call["op"]
        prompt = call["operation"]["name"] in ("prompt", "start")
        if prompt and how == "dies":
            sys.stderr.write("fake host: this is too much\n")
            sys.stderr.flush()
            sys.exit(7)
        while prompt and how == "chatters":
            note("observe", fact={"kind": "scope-closed", "root": "P"})
        if prompt and how == "nonsense":
            sys.stdout.write("{oops\n")
            sys.stdout.flush()
        if prompt and how == "no-bytes":
            sys.stdout.buffer.write(b"\xff\xfe\n")
            sys.stdout.buffer.flush()
        if prompt and how == "unknown-op":
            note("op/done", op="nobody-asked", outcome={"status": "ok"})
        if prompt and how == "stuck":
            time.sleep(60)
        note("op/started", op=name)
        if prompt and how == "lc-back":
            say({"method": "op/done", "params": {"lc": 1, "op": name, "outcome": {"status": "ok"}}})
        note("op/done", op=name, outcome=outcome(call))
        if prompt and how == "done-twice":
            note("op/done", op=name, outcome={"status": "ok"})
    answer(number, {})


if how == "crash-on-start":
    sys.stderr.write("fake host: no reason to live\n")
    sys.exit(3)
if how == "banner":
    sys.stdout.write("Welcome to the fake host!\n")
    sys.stdout.flush()

while how == "floods":
    sys.stdout.write("y\n" * 1000)

for line in sys.stdin:
    request = json.loads(line)
    method, number = request["method"], request.get("id")
    if how == "silent" or number is None:
        continue
    if how == "slow":
        time.sleep(0.3)
    if method == "initialize":
        capabilities = ["hold:model.request", "restart"] if how == "liar" else []
        answer(number, {
            "protocol": "1.0",
            "host": {"name": "fake", "version": "1", "language": "Python"},
            "revision": "2026-08-06",
            "capabilities": capabilities,
        })
    elif method == "op":
        op(number, request["params"]["calls"])
    elif method == "quiesce":
        state = {"busy": "busy", "held": "held"}.get(how, "quiet")
        answer(number, {"state": state, "waiting": ["something"] if how == "busy" else []})
    else:
        answer(number, {})
