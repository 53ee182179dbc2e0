"""A service manager for one node, of grpcio: registers, answers most of what it is asked, and says what it sees.

usage: sm.py GENERATED ADDRESS CA CERT KEY NODE

CheckNodeConfig is never answered. After an update of instances it asks where the blobs of their manifests are.
"""

import queue
import sys
import threading

generated, address, ca, cert, key, node = sys.argv[1:7]
sys.path.insert(0, generated)

import grpc  # noqa: E402
from servicemanager.v5 import servicemanager_pb2 as sm  # noqa: E402
from servicemanager.v5 import servicemanager_pb2_grpc as services  # noqa: E402


def read(path):
    with open(path, "rb") as file:
        return file.read()


def say(*words):
    print(*words, flush=True)


credentials = grpc.ssl_channel_credentials(read(ca), read(key), read(cert))
channel = grpc.secure_channel(address, credentials)
stub = services.SMServiceStub(channel)
outbox = queue.Queue()


def status(instance, state):
    result = sm.InstanceStatus(version=instance.version, manifest_digest=instance.manifest_digest, state=state)
    result.instance.CopyFrom(instance.instance)
    result.error.aos_code = 0
    return result


def config_status(version):
    result = sm.NodeConfigStatus(state="installed", version=version)
    result.error.aos_code = 0
    return sm.SMOutgoingMessages(node_config_status=result)


def blobs(digests):
    try:
        say("blobs", *stub.GetBlobsInfos(sm.BlobsInfosRequest(digests=digests)).urls)
    except grpc.RpcError as error:
        say("blobs", error.code().name)


def ask_for_blobs(digests):
    blobs(digests)
    blobs(digests + ["sha256:" + "f" * 64])


def update(wanted):
    states = []
    for instance in wanted.start_instances:
        for state in ("activating", "active"):
            changed = sm.UpdateInstancesStatus(instances=[status(instance, state)])
            outbox.put(sm.SMOutgoingMessages(update_instances_status=changed))
        states.append(status(instance, "active"))
    settled = sm.NodeInstancesStatus(instances=states)
    outbox.put(sm.SMOutgoingMessages(node_instances_status=settled))
    digests = [instance.manifest_digest for instance in wanted.start_instances]
    threading.Thread(target=ask_for_blobs, args=(digests,), daemon=True).start()


registered = False
try:
    for message in stub.RegisterSM(iter(outbox.get, None)):
        kind = message.WhichOneof("SMIncomingMessage")
        say("got", kind)
        if kind == "connection_status":
            say("cloud", sm.ConnectionEnum.Name(message.connection_status.cloud_status))
            # Only now: the server speaks first.
            if not registered:
                registered = True
                outbox.put(sm.SMOutgoingMessages(sm_info=sm.SMInfo(node_id=node)))
                outbox.put(sm.SMOutgoingMessages(node_instances_status=sm.NodeInstancesStatus()))
        elif kind == "get_node_config_status":
            outbox.put(config_status("1.0.0"))
        elif kind == "set_node_config":
            outbox.put(config_status(message.set_node_config.version))
        elif kind == "get_average_monitoring":
            average = sm.AverageMonitoring()
            average.node_monitoring.timestamp.GetCurrentTime()
            average.node_monitoring.ram = 42
            outbox.put(sm.SMOutgoingMessages(average_monitoring=average))
        elif kind == "update_instances":
            update(message.update_instances)
        elif kind == "system_log_request":
            for part in (1, 2):
                log = sm.LogData(correlation_id=message.system_log_request.correlation_id, part_count=2, part=part, status="ok")
                outbox.put(sm.SMOutgoingMessages(log=log))
except grpc.RpcError as error:
    say("ended", error.code().name)
