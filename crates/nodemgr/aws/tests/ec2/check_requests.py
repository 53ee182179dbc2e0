"""Checks recorded requests against the models that AWS's own clients are generated from.

    check_requests.py FILE [ACCESS_KEY SECRET_KEY]

FILE has one JSON object a line: method, url, headers, body (base64 if body_encoded). Parameters of the Query API are put together
again by the rules of the `ec2` protocol; names, types, required members, enumerations, lengths and patterns must be those of the
model. With keys, each signature is computed anew. Prints what is wrong and how much was checked; fails if anything is wrong.
"""

import base64
import gzip
import json
import pathlib
import re
import sys
import urllib.parse

import botocore

DATA = pathlib.Path(botocore.__file__).parent / "data"
TARGET = "AmazonSSM."


def load(service):
    path = sorted((DATA / service).iterdir())[-1] / "service-2.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


class Checker:
    def __init__(self, model):
        self.model = model
        self.shapes = model["shapes"]
        self.problems = []

    def wrong(self, where, what):
        self.problems.append(f"{where}: {what}")

    def operation(self, name):
        operation = self.model["operations"].get(name)
        if operation is None:
            self.wrong(name, "no such operation")
            return None
        return self.shapes[operation["input"]["shape"]]

    def scalar(self, where, shape, text):
        kind = shape["type"]
        if kind in ("integer", "long"):
            if not re.fullmatch(r"-?\d+", text):
                self.wrong(where, f"{text!r} is no {kind}")
        elif kind in ("float", "double"):
            try:
                float(text)
            except ValueError:
                self.wrong(where, f"{text!r} is no {kind}")
        elif kind == "boolean":
            if text not in ("true", "false"):
                self.wrong(where, f"{text!r} is no boolean")
        elif kind == "blob":
            base64.b64decode(text, validate=True)
        elif kind == "string":
            if "enum" in shape and text not in shape["enum"]:
                self.wrong(where, f"{text!r} is not among {shape['enum'][:8]}...")
            if not shape.get("min", 0) <= len(text) <= shape.get("max", 1 << 30):
                self.wrong(where, f"{text!r} has a length that is not allowed")
            if "pattern" in shape and not re.search(shape["pattern"], text):
                self.wrong(where, f"{text!r} does not fit {shape['pattern']}")
        else:
            self.wrong(where, f"a {kind} cannot be checked")

    # The Query API: nested values stand in flat names.

    @staticmethod
    def query_name(member, reference):
        if "queryName" in reference:
            return reference["queryName"]
        if "locationName" in reference:
            name = reference["locationName"]
            return name[0].upper() + name[1:]
        return member

    def flat(self, where, shape, values):
        """`values` has the rest of each flat name ('' for the value itself) and its text."""
        kind = shape["type"]
        if kind == "structure":
            self.structure(where, shape, values)
        elif kind == "list":
            self.list(where, shape, values)
        elif set(values) != {""}:
            self.wrong(where, f"a {kind} cannot have {sorted(values)}")
        else:
            self.scalar(where, shape, values[""])

    def grouped(self, where, values):
        groups = {}
        for name, text in values.items():
            head, _, rest = name.partition(".")
            if not head:
                self.wrong(where, "a value where parts are expected")
                continue
            groups.setdefault(head, {})[rest] = text
        return groups

    def structure(self, where, shape, values):
        groups = self.grouped(where, values)
        for member, reference in shape["members"].items():
            name = self.query_name(member, reference)
            part = groups.pop(name, None)
            if part is not None:
                self.flat(f"{where}.{name}", self.shapes[reference["shape"]], part)
            elif member in shape.get("required", []):
                self.wrong(where, f"{member} is required")
        for name in groups:
            self.wrong(where, f"{name} is not known")

    def list(self, where, shape, values):
        groups = self.grouped(where, values)
        numbers = sorted(int(name) for name in groups if name.isdigit())
        if numbers != list(range(1, len(groups) + 1)):
            self.wrong(where, f"not numbered from one: {sorted(groups)}")
            return
        for number in numbers:
            item = self.shapes[shape["member"]["shape"]]
            self.flat(f"{where}.{number}", item, groups[str(number)])

    # The JSON protocol.

    def tree(self, where, shape, value):
        if shape["type"] != "structure" or not isinstance(value, dict):
            self.scalar(where, shape, json.dumps(value) if not isinstance(value, str) else value)
            return
        for name in shape.get("required", []):
            if name not in value:
                self.wrong(where, f"{name} is required")
        for name, part in value.items():
            reference = shape["members"].get(name)
            if reference is None:
                self.wrong(where, f"{name} is not known")
            else:
                self.tree(f"{where}.{name}", self.shapes[reference["shape"]], part)


def signature_problem(request, headers, body, keys):
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/([^/]+)/aws4_request, ?"
        r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
        headers.get("authorization", ""),
    )
    if not found:
        return f"no signature: {headers.get('authorization')!r}"
    key, _, region, service, signed, signature = found.groups()
    if key != keys[0]:
        return f"signed by {key}"
    again = AWSRequest(request["method"], request["url"], data=body)
    for name in signed.split(";"):
        again.headers[name] = headers[name]
    again.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(*keys), service, region)
    canonical = signer.canonical_request(again)
    computed = signer.signature(signer.string_to_sign(again, canonical), again)
    return None if computed == signature else f"the signature is {signature}, not {computed}"


def main(path, *keys):
    ec2, ssm, sts = (Checker(load(service)) for service in ("ec2", "ssm", "sts"))
    counts = {}
    for line in pathlib.Path(path).read_text().splitlines():
        request = json.loads(line)
        headers = {name.lower(): value for name, value in request["headers"].items()}
        body = request["body"].encode()
        if request.get("body_encoded"):
            body = base64.b64decode(body)
        target = headers.get("x-amz-target")
        if target:
            checker, action = ssm, target.removeprefix(TARGET)
            shape = checker.operation(action)
            if shape:
                checker.tree(action, shape, json.loads(body))
        else:
            pairs = urllib.parse.parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True)
            values = dict(pairs)
            if len(values) != len(pairs):
                checker.wrong("request", "a parameter is given twice")
            action = values.pop("Action")
            version = values.pop("Version")
            checker = sts if version == sts.model["metadata"]["apiVersion"] else ec2
            if version != checker.model["metadata"]["apiVersion"]:
                checker.wrong(action, "another version")
            shape = checker.operation(action)
            if shape:
                checker.structure(action, shape, values)
        if keys:
            problem = signature_problem(request, headers, body, keys)
            if problem:
                checker.wrong(action, problem)
        counts[action] = counts.get(action, 0) + 1
    problems = ec2.problems + ssm.problems + sts.problems
    for problem in problems[:40]:
        print(problem)
    print("checked", json.dumps(counts, sort_keys=True))
    return 1 if problems or not counts else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
