# Guard: replaces card numbers in arguments and in answers by <CARD>. Presidio's recognizer finds them: it checks the checksum, and needs
# no language model.
import json
import sys

from presidio_analyzer.predefined_recognizers import CreditCardRecognizer

ENTITY = "CREDIT_CARD"
recognizer = CreditCardRecognizer()


def without_cards(text):
    """Returns the text with each card number replaced, from the last one to the first."""
    found = recognizer.analyze(text=text, entities=[ENTITY], nlp_artifacts=None)
    for place in sorted(found, key=lambda place: place.start, reverse=True):
        text = text[: place.start] + "<CARD>" + text[place.end :]
    return text


def changed(value):
    """Replaces card numbers in all texts and numbers of a JSON value, also in names of members."""
    if isinstance(value, dict):
        return {without_cards(name): changed(member) for name, member in value.items()}
    if isinstance(value, list):
        return [changed(item) for item in value]
    if isinstance(value, str):
        return without_cards(value)
    if isinstance(value, int) and not isinstance(value, bool) and without_cards(str(value)) != str(value):
        return "<CARD>"
    return value


def curate(call):
    content = call["rawContent"]
    if call["metadata"]["contentType"] == "text":
        return without_cards(content)
    # The JSON of arguments or of a whole result: in it, a digit can be an escape. It is written anew only if something changes.
    value = json.loads(content)
    replaced = changed(value)
    return content if replaced == value else json.dumps(replaced, ensure_ascii=False, separators=(",", ":"))


# One line of JSON for each call, and one line as its answer. If this ends, calls fail, and a new process starts.
for line in sys.stdin:
    print(json.dumps({"text": curate(json.loads(line)), "continue": True}), flush=True)
