"""An identity manager for one node, of grpcio: says who the node is, where its certificate is, and registers permissions.

usage: iam.py GENERATED PKI

PKI holds ca.pem, and iam.crt.pem and sm.crt.pem with their keys. Public port 8090, protected port 8089. Who is registered has a file in
PKI/registered; who has none is a stranger, and is refused as AosCore does it.
"""

import os
import sys
import threading
from concurrent import futures

generated, pki = sys.argv[1:3]
sys.path.insert(0, generated)

import grpc  # noqa: E402
from google.protobuf import empty_pb2  # noqa: E402
from iamanager.v6 import iamanager_pb2 as iam  # noqa: E402
from iamanager.v6 import iamanager_pb2_grpc as services  # noqa: E402


def read(name):
    with open(f"{pki}/{name}", "rb") as file:
        return file.read()


class Node(services.IAMPublicCurrentNodeServiceServicer):
    def GetCurrentNodeInfo(self, request, context):
        node = iam.NodeInfo(node_id="node-7", node_type="test", max_dmips=10000, total_ram=1 << 32, state="provisioned")
        node.os_info.os = "linux"
        cpu = node.cpus.add(num_cores=1, num_threads=1)
        cpu.arch_info.architecture = "amd64"
        return node


class Certificates(services.IAMPublicCertServiceServicer):
    def GetCert(self, request, context):
        return iam.CertInfo(
            type=request.type,
            cert_url=f"file://{pki}/{request.type}.crt.pem",
            key_url=f"file://{pki}/{request.type}.key.pem",
            serial=b"\x01",
            issuer=b"issuer",
        )

    def SubscribeCertChanged(self, request, context):
        # Nothing changes while anybody listens.
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait()
        return iter(())


class Permissions(services.IAMPermissionsServiceServicer):
    def RegisterInstance(self, request, context):
        item = request.instance.item_id
        os.makedirs(f"{pki}/registered", exist_ok=True)
        open(f"{pki}/registered/{item}", "w").close()
        print("registered", item, flush=True)
        return iam.RegisterInstanceResponse(secret="a secret")

    def UnregisterInstance(self, request, context):
        item = request.instance.item_id
        try:
            os.remove(f"{pki}/registered/{item}")
        except FileNotFoundError:
            print("refused", item, flush=True)
            context.abort(grpc.StatusCode.INTERNAL, "not found")
        print("unregistered", item, flush=True)
        return empty_pb2.Empty()


pair = [(read("iam.key.pem"), read("iam.crt.pem"))]
server = grpc.server(
    futures.ThreadPoolExecutor(max_workers=16),
    options=[("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000)],
)
services.add_IAMPublicCurrentNodeServiceServicer_to_server(Node(), server)
services.add_IAMPublicCertServiceServicer_to_server(Certificates(), server)
services.add_IAMPermissionsServiceServicer_to_server(Permissions(), server)
server.add_secure_port("127.0.0.1:8090", grpc.ssl_server_credentials(pair))
both = grpc.ssl_server_credentials(pair, root_certificates=read("ca.pem"), require_client_auth=True)
server.add_secure_port("127.0.0.1:8089", both)
server.start()
print("ready", flush=True)
server.wait_for_termination()
