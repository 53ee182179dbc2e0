"""A Service Manager of grpcio against our controller: shares no code with it.

usage: foreign.py GENERATED ADDRESS NODE CERT KEY CA

Says what it sees, one JSON object a line.
"""

import hashlib
import json
import queue
import ssl
import sys
import threading
import urllib.parse
import http.client

generated, address, node, cert, key, ca = sys.argv[1:7]
sys.path.insert(0, generated)

import grpc  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from servicemanager.v5 import servicemanager_pb2 as sm  # noqa: E402
from servicemanager.v5 import servicemanager_pb2_grpc as services  # noqa: E402


def read(path):
    with open(path, "rb") as file:
        return file.read()


def say(**what):
    print(json.dumps(what), flush=True)


credentials = grpc.ssl_channel_credentials(read(ca), read(key), read(cert))
# The name in the certificate is a SPIFFE id, which this client does not look at.
options = [("grpc.ssl_target_name_override", "localhost")]
channel = grpc.secure_channel(address, credentials, options)
client = services.SMServiceStub(channel)
outbox = queue.Queue()
stream = client.RegisterSM(iter(outbox.get, None))

# Nothing was said yet, and the state of the cloud is there.
first = next(stream)
say(first=first.WhichOneof("SMIncomingMessage"), state=first.connection_status.cloud_status)

info = sm.SMInfo(node_id=node)
runtime = info.runtimes.add(runtime_id="runc-" + node, type="runc", max_dmips=10000, total_ram=1 << 30, max_instances=10)
runtime.os_info.os = "linux"
runtime.arch_info.architecture = "amd64"
outbox.put(sm.SMOutgoingMessages(sm_info=info))
outbox.put(sm.SMOutgoingMessages(node_instances_status=sm.NodeInstancesStatus()))


def fetch(url):
    """The blob behind a URL; who serves it is not looked at here, what it is is."""
    parts = urllib.parse.urlsplit(url)
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    connection = http.client.HTTPSConnection(parts.netloc, context=context)
    connection.request("GET", f"{parts.path}?{parts.query}")
    return connection.getresponse().read()


def blobs(digest):
    unknown = "sha256:" + "0" * 64
    try:
        client.GetBlobsInfos(sm.BlobsInfosRequest(digests=[digest, unknown]))
        say(unknown="answered")
    except grpc.RpcError as error:
        say(unknown=error.code().name)
    manifest = json.loads(fetch(client.GetBlobsInfos(sm.BlobsInfosRequest(digests=[digest])).urls[0]))
    wanted = [layer["digest"] for layer in manifest["layers"]] + [manifest["config"]["digest"], digest]
    wanted.reverse()
    urls = client.GetBlobsInfos(sm.BlobsInfosRequest(digests=wanted)).urls
    fetched = ["sha256:" + hashlib.sha256(fetch(url)).hexdigest() for url in urls]
    say(in_order=fetched == wanted, count=len(wanted))


for message in stream:
    kind = message.WhichOneof("SMIncomingMessage")
    if kind == "update_instances":
        status = sm.NodeInstancesStatus()
        for instance in message.update_instances.start_instances:
            one = status.instances.add(version=instance.version, runtime_id=instance.runtime_id, state="active")
            one.instance.CopyFrom(instance.instance)
            one.manifest_digest = instance.manifest_digest
            one.error.SetInParent()
        outbox.put(sm.SMOutgoingMessages(node_instances_status=status))
        say(update=len(status.instances))
        for instance in message.update_instances.start_instances[:1]:
            threading.Thread(target=blobs, args=(instance.manifest_digest,), daemon=True).start()
    elif kind in ("check_node_config", "get_node_config_status"):
        # Never answered: the controller has a deadline.
        say(asked=kind)
    else:
        say(message=json_format.MessageToDict(message))
