# Guard: denies a request that has a forbidden word, so that nothing is sent.
import json
import re
import sys

FORBIDDEN = re.compile(r"\bconfidential\b", re.IGNORECASE)


def words(value):
    """Yields all texts and names in a JSON value: in the text of JSON, a letter can be an escape."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from words(member)
    elif isinstance(value, list):
        for item in value:
            yield from words(item)
    elif isinstance(value, str):
        yield value


def judge(content):
    if any(FORBIDDEN.search(word) for word in words(json.loads(content))):
        # The client gets `text`. `error` denies the call, and is in its record.
        text = "[BLOCKED] The request has a forbidden word."
        return {"text": text, "continue": False, "error": "the request has a forbidden word"}
    return {"text": content, "continue": True}


# One line of JSON for each call, and one line as its answer. If this ends, the call is rejected, and a new process starts.
for line in sys.stdin:
    print(json.dumps(judge(json.loads(line)["rawContent"])), flush=True)
