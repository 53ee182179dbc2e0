"""A controller for one node, of grpcio: sends the sets that it finds in a folder, and says when they are up.

usage: cm.py GENERATED FOLDER IMAGES [PKI]

FOLDER/N.json holds the N-th set: {"items": {"item": "manifest digest", ...}}, and where there are networks {"networks": [...],
"addresses": {"item": {...}}} with them and the network parameters of items, both in protobuf's JSON. When the node reports exactly
these items as active, FOLDER/N.done is written, with what it reported. FOLDER/command.N.json holds the N-th message as it is, in protobuf's JSON. Whatever the node
says stands in FOLDER/said, one message a line. Blobs are given as file URLs of the layouts in IMAGES. With PKI (ca.pem, cm.crt.pem and its key)
both sides show certificates.
"""

import glob
import json
import os
import queue
import sys
import threading
import time
from concurrent import futures

generated, folder, images = sys.argv[1:4]
sys.path.insert(0, generated)

import grpc  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from servicemanager.v5 import servicemanager_pb2 as sm  # noqa: E402
from servicemanager.v5 import servicemanager_pb2_grpc as services  # noqa: E402


class Controller(services.SMServiceServicer):
    def __init__(self):
        self.wanted = None
        self.networks = None
        self.addresses = {}
        self.number = 0
        self.lock = threading.Lock()
        self.streams = []
        self.runtime = None

    def update(self, number, wanted):
        with self.lock:
            self.number, self.wanted = number, wanted["items"]
            self.networks, self.addresses = wanted.get("networks"), wanted.get("addresses", {})
            for stream in self.streams:
                self.tell(stream)

    def tell(self, stream):
        if self.networks is not None:
            update = {"updateNetworks": {"networks": self.networks}}
            stream.put(json_format.ParseDict(update, sm.SMIncomingMessages()))
        stream.put(self.message())

    def send(self, message):
        with self.lock:
            for stream in self.streams:
                stream.put(message)

    def message(self):
        instances = []
        for item, digest in sorted(self.wanted.items()):
            info = sm.InstanceInfo(version=digest[7:15], manifest_digest=digest, runtime_id=self.runtime, uid=5000, gid=5000)
            info.instance.item_id = item
            info.instance.subject_id = "subject"
            if item in self.addresses:
                json_format.ParseDict(self.addresses[item], info.network_parameters)
            instances.append(info)
        return sm.SMIncomingMessages(update_instances=sm.UpdateInstances(start_instances=instances))

    def RegisterSM(self, messages, context):
        outbox = queue.Queue()
        status = sm.ConnectionStatus(cloud_status=sm.CONNECTED)
        outbox.put(sm.SMIncomingMessages(connection_status=status))
        threading.Thread(target=self.listen, args=(messages, outbox), daemon=True).start()
        while context.is_active():
            try:
                yield outbox.get(timeout=0.2)
            except queue.Empty:
                pass

    def listen(self, messages, outbox):
        try:
            for message in messages:
                kind = message.WhichOneof("SMOutgoingMessage")
                said.write(json_format.MessageToJson(message, indent=None) + "\n")
                said.flush()
                if kind == "sm_info":
                    with self.lock:
                        runtimes = {it.type: it.runtime_id for it in message.sm_info.runtimes}
                        self.runtime = runtimes["runc"]
                        if outbox in self.streams:
                            # Something about the node has changed.
                            continue
                        self.streams.append(outbox)
                        # A node that comes back is told what is wanted, again.
                        if self.wanted is not None:
                            self.tell(outbox)
                    print("node", message.sm_info.node_id, sorted(runtimes), flush=True)
                elif kind == "node_instances_status":
                    self.look(message.node_instances_status.instances)
        except grpc.RpcError:
            pass
        with self.lock:
            if outbox in self.streams:
                self.streams.remove(outbox)

    def look(self, statuses):
        seen = {it.instance.item_id: (it.manifest_digest, it.state, it.error.message) for it in statuses}
        print("instances", json.dumps(seen), flush=True)
        with self.lock:
            if self.wanted is None:
                return
            up = {item: digest for item, (digest, state, _) in seen.items() if state == "active"}
            if up == self.wanted and len(seen) == len(up):
                with open(f"{folder}/.new", "w") as file:
                    json.dump(seen, file)
                os.rename(f"{folder}/.new", f"{folder}/{self.number}.done")

    def GetBlobsInfos(self, request, context):
        urls = []
        for digest in request.digests:
            found = glob.glob(f"{images}/*/blobs/{digest.replace(':', '/')}")
            if not found:
                context.abort(grpc.StatusCode.INTERNAL, f"no blob {digest}")
            urls.append(f"file://{found[0]}")
        return sm.BlobsInfos(urls=urls)


said = open(f"{folder}/said", "a")
controller = Controller()
options = [
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
]
server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=options)
services.add_SMServiceServicer_to_server(controller, server)
if len(sys.argv) > 4:
    ca, key, cert = (open(f"{sys.argv[4]}/{name}", "rb").read() for name in ("ca.pem", "cm.key.pem", "cm.crt.pem"))
    credentials = grpc.ssl_server_credentials([(key, cert)], root_certificates=ca, require_client_auth=True)
    server.add_secure_port("127.0.0.1:8093", credentials)
else:
    server.add_insecure_port("127.0.0.1:8093")
server.start()
number = command = 1
while True:
    path = f"{folder}/command.{command}.json"
    if controller.streams and os.path.exists(path):
        with open(path) as file:
            controller.send(json_format.Parse(file.read(), sm.SMIncomingMessages()))
        command += 1
    path = f"{folder}/{number}.json"
    if controller.runtime and os.path.exists(path):
        with open(path) as file:
            controller.update(number, json.load(file))
        number += 1
    time.sleep(0.05)
