# Transform: of several blank lines in an answer, it leaves one. The rest passes unchanged.
import json
import re
import sys


def shorter(text):
    return re.sub(r"\n(?:[ \t]*\n){2,}", "\n\n", text)


def curate(call):
    content = call["rawContent"]
    if call["metadata"]["contentType"] == "text":
        return shorter(content)
    # The JSON of a whole result or of an error. It is written anew only if a text changes.
    result = json.loads(content)
    changed = False
    for block in result.get("content", []):
        if block.get("type") == "text" and shorter(block["text"]) != block["text"]:
            block["text"] = shorter(block["text"])
            changed = True
    return json.dumps(result, ensure_ascii=False, separators=(",", ":")) if changed else content


# One line of JSON for each call, and one line as its answer.
for line in sys.stdin:
    print(json.dumps({"text": curate(json.loads(line)), "continue": True}), flush=True)
