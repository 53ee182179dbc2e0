"""Drives an identity manager from nothing to a member and back: grpcio and openssl only."""

import subprocess
import sys
import threading
import time

generated, folder, public, protected = sys.argv[1:5]
sys.path.insert(0, generated)

import grpc  # noqa: E402
from google.protobuf import empty_pb2  # noqa: E402
from common.v2 import common_pb2  # noqa: E402
from iamanager import version_pb2_grpc  # noqa: E402
from iamanager.v6 import iamanager_pb2 as iam  # noqa: E402
from iamanager.v6 import iamanager_pb2_grpc as services  # noqa: E402

SECONDS = 60
EMPTY = empty_pb2.Empty()


def openssl(*args, stdin=None):
    done = subprocess.run(["openssl", *args], input=stdin, capture_output=True, cwd=folder, text=True)
    if done.returncode != 0:
        raise SystemExit(f"openssl {args[0]}: {done.stderr}")
    return done.stdout


def write(name, text):
    with open(f"{folder}/{name}", "w") as file:
        file.write(text)


def read(name):
    with open(f"{folder}/{name}", "rb") as file:
        return file.read()


def sign(csr, role, node="node-1"):
    """A certificate for a request, with the identity that the role needs."""
    write("leaf.csr", csr)
    write("leaf.ext", "\n".join([
        "basicConstraints=critical,CA:FALSE",
        "extendedKeyUsage=serverAuth,clientAuth",
        f"subjectAltName=URI:spiffe://unit-7/node/{node}/{role},DNS:{node}",
        "authorityKeyIdentifier=keyid",
    ]))
    return openssl("x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                   "-days", "30", "-extfile", "leaf.ext")


def client(role, node="node-1"):
    """Credentials of a peer with this role."""
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{role}.key")
    csr = openssl("req", "-new", "-key", f"{role}.key", "-subj", f"/CN={role}")
    return grpc.ssl_channel_credentials(read("ca.pem"), read(f"{role}.key"), sign(csr, role, node).encode())


def secure(address, credentials):
    return grpc.secure_channel(address, credentials, (("grpc.ssl_target_name_override", "node-1"),))


def check(response):
    error = response.error
    if error.aos_code or error.exit_code:
        raise SystemExit(f"{type(response).__name__}: {error.message}")
    return response


def refused(call, *codes):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() in codes, error
    else:
        raise SystemExit("a call that has to be refused was not")


def eventually(what, attempt):
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return attempt()
        except grpc.RpcError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}: {error}")


openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key")
openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=openssl root", "-days", "30", "-out", "ca.pem",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign")

# Provisioning, in the clear.
with grpc.insecure_channel(protected) as channel:
    assert version_pb2_grpc.IAMVersionServiceStub(channel).GetAPIVersion(EMPTY, timeout=SECONDS).version == 6
    node = services.IAMPublicCurrentNodeServiceStub(channel)
    info = node.GetCurrentNodeInfo(EMPTY, timeout=SECONDS)
    assert (info.node_id, info.state) == ("node-1", "unprovisioned"), info
    changes = node.SubscribeCurrentNodeChanged(EMPTY, timeout=SECONDS)
    provisioning = services.IAMProvisioningServiceStub(channel)
    certificates = services.IAMCertificateServiceStub(channel)
    check(provisioning.StartProvisioning(iam.StartProvisioningRequest(password="secret"), timeout=SECONDS))
    types = provisioning.GetCertTypes(iam.GetCertTypesRequest(), timeout=SECONDS).types
    assert list(types) == ["iam", "sm"], types
    for kind in types:
        made = check(certificates.CreateKey(iam.CreateKeyRequest(type=kind), timeout=SECONDS))
        asked = openssl("req", "-noout", "-text", "-verify", stdin=made.csr)
        assert f"URI:spiffe://unit-7/node/node-1/{kind}" in asked and "CN = unit-7" in asked, asked
        applied = check(certificates.ApplyCert(
            iam.ApplyCertRequest(type=kind, cert=sign(made.csr, kind)), timeout=SECONDS))
        assert applied.cert_info.cert_url.startswith("file:///"), applied
    check(provisioning.FinishProvisioning(iam.FinishProvisioningRequest(password="secret"), timeout=SECONDS))
    assert next(iter(changes)).state == "provisioned"

# A member: TLS on the public port, identities on the protected one.
anybody = grpc.ssl_channel_credentials(read("ca.pem"))
with secure(public, anybody) as channel:
    identity = services.IAMPublicIdentityServiceStub(channel)
    system = eventually("the public port has TLS", lambda: identity.GetSystemInfo(EMPTY, timeout=SECONDS))
    assert system.system_id == "unit-7", system
    nodes = services.IAMPublicNodesServiceStub(channel)
    assert list(nodes.GetAllNodeIDs(EMPTY, timeout=SECONDS).ids) == ["node-1"]
    cert = services.IAMPublicCertServiceStub(channel)
    before = cert.GetCert(iam.GetCertRequest(type="iam"), timeout=SECONDS)
    renewed = cert.SubscribeCertChanged(iam.SubscribeCertChangedRequest(type="iam"), timeout=SECONDS)
    told = []
    listener = threading.Thread(target=lambda: told.append(next(iter(renewed))))
    listener.start()

    with secure(protected, client("operator", "desk")) as operator:
        certificates = services.IAMCertificateServiceStub(operator)
        made = check(eventually("the protected port has TLS", lambda: certificates.CreateKey(
            iam.CreateKeyRequest(type="iam"), timeout=SECONDS)))
        after = check(certificates.ApplyCert(
            iam.ApplyCertRequest(type="iam", cert=sign(made.csr, "iam")), timeout=SECONDS)).cert_info
    listener.join(SECONDS)
    assert told and told[0].serial == after.serial != before.serial, (told, after, before)

    with secure(protected, client("sm")) as sm:
        permissions = services.IAMPermissionsServiceStub(sm)
        request = iam.RegisterInstanceRequest(
            instance=common_pb2.InstanceIdent(item_id="app", subject_id="driver", instance=0))
        request.permissions["vis"].permissions["Signal"] = "rw"
        secret = permissions.RegisterInstance(request, timeout=SECONDS).secret
        refused(lambda: services.IAMProvisioningServiceStub(sm).Deprovision(
            iam.DeprovisionRequest(), timeout=SECONDS), grpc.StatusCode.PERMISSION_DENIED)
    granted = services.IAMPublicPermissionsServiceStub(channel).GetPermissions(
        iam.PermissionsRequest(secret=secret, functional_server_id="vis"), timeout=SECONDS)
    assert granted.permissions.permissions["Signal"] == "rw", granted
    assert granted.instance.item_id == "app", granted

with grpc.insecure_channel(protected) as channel:
    stranger = services.IAMProvisioningServiceStub(channel)
    refused(lambda: stranger.GetCertTypes(iam.GetCertTypesRequest(), timeout=5),
            grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

# And back.
with secure(protected, client("operator", "desk")) as operator:
    nodes = services.IAMNodesServiceStub(operator)
    check(nodes.PauseNode(iam.PauseNodeRequest(node_id="node-1"), timeout=SECONDS))
    check(nodes.ResumeNode(iam.ResumeNodeRequest(node_id="node-1"), timeout=SECONDS))
    check(services.IAMProvisioningServiceStub(operator).Deprovision(iam.DeprovisionRequest(), timeout=SECONDS))
with grpc.insecure_channel(protected) as channel:
    node = services.IAMPublicCurrentNodeServiceStub(channel)
    info = eventually("the port is in the clear again", lambda: node.GetCurrentNodeInfo(EMPTY, timeout=SECONDS))
    assert info.state == "unprovisioned", info

print("done")
