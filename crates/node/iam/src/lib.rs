//! The identity manager, `muster-iam`: who a node is, its keys and certificates, provisioning,
//! permissions. It runs on every node and is what makes mutual TLS between all others possible.
//!
//! # Entry point
//! [`program::run`] is the whole program; `main` calls it and nothing else. Everything the daemon
//! decides is in three pure places: [`authorize`] (who may call what), [`provisioning::phase`] (what a
//! request means in which phase) and the choice of how a port is served.
//!
//! # What is served, and to whom
//! | where | protection | services |
//! |---|---|---|
//! | public port, `:8090` | server TLS | version, identity, current node, certificates, permissions; nodes (Main Node) |
//! | protected port, `:8089` | mutual TLS, identities by SPIFFE URI or `identityMapping` | all of these; provisioning, certificate creation, pause and resume, registration of instances |
//! | local socket, `/run/muster/iam.sock` | peer credentials: root | the same |
//!
//! A node without a certificate serves the local socket only. `insecureUntilProvisioned` names ports
//! that are served in the clear until the node is provisioned; each start of one is a warning. When the
//! node becomes a member the port changes to TLS at once: the listener stays, calls under way get a
//! second to end, and connections made in the clear end with them.
//!
//! On the Main Node commands for other nodes go through the registry of nodes to their streams; on a
//! Secondary Node (one with `mainIam...ServerUrl`) the join link brings them here.
//!
//! # Tasks and channels
//! | task | in | out | ends |
//! |---|---|---|---|
//! | provisioning, the one owner of the node's phase and its key stores | requests (16) | answers; a `watch` of the phase; the node's description | with the daemon |
//! | own certificate | the key store's newest certificate of the type `certStorage` | a `watch` of the certificate store in use | with the daemon |
//! | ports | the phase, the certificate in use | two servers | with the daemon, after their calls |
//! | reloads | SIGHUP | certificates read again; keys that need a restart, in the log | with the daemon |
//! | heartbeat, watchdog | the manager's period | pings | with the daemon |
//! | those of the registry or the join link, the identifier and the servers | | | see their crates |
//!
//! The runtime has one thread. Disks, tokens and files are waited for on up to four others, which end
//! when they are idle. At rest nothing wakes up but what the manager's watchdog asks for, and pages of the
//! program that only the start or a provisioning has needed are given back.
//!
//! # Provisioning
//! `StartProvisioning`, `GetCertTypes`, `CreateKey` and `ApplyCert` for each type, `FinishProvisioning`;
//! `Deprovision` takes everything away again. Phases, crashes and hooks: [`provisioning`].
//!
//! Signing requests have the system's id as their common name unless the request says otherwise, and
//! the URI `spiffe://<system id>/node/<node id>/<role>` with the role of the certificate type; the
//! authority decides what it certifies. A renewed certificate of the daemon's own type is used for
//! every connection from then on, and no stream is cut.
//!
//! # Configuration
//! JSON, TOML or YAML, by default `/etc/muster/iam.json`, with drop-ins, environment (`MUSTER_IAM__...`)
//! and `--set` over it. `--check-config` and `--print-config` look at it.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `publicServerUrl`, `protectedServerUrl` | `:8090`, `:8089` | where to listen; also `iamPublicServerUrl`, `iamProtectedServerUrl` |
//! | `mainIamPublicServerUrl`, `mainIamProtectedServerUrl` | | both on a Secondary Node: the Main Node's ports |
//! | `mainIamServerName` | `spiffe` | what makes the Main Node's server the right one: `spiffe` (role iam), `dns`, `anyOfCa` |
//! | `caCert`, `certRevocationLists` | | trusted authorities and their lists; noticed when they change |
//! | `certStorage` | `iam` | the certificate type of this daemon |
//! | `workingDir` | `/var/lib/muster/iam` | database, key indexes, measured power |
//! | `localSocket` | `/run/muster/iam.sock` | for root on this node |
//! | `insecureUntilProvisioned` | none | any of `public`, `protected`, `join` (the Main Node's public port, as a client) |
//! | `identityMapping` | none | rules for certificates without SPIFFE id: patterns `issuerCn`, `subjectCn`, `subjectO`, `dns`; `role`; `system` or `systemFrom`; `node` or `nodeFrom` |
//! | `nodeInfo` | | `nodeIdPath`, `provisioningStatePath`, `nodeName`, `nodeType`, `maxDmips`, `attrs`, `partitions` |
//! | `identifier` | | `plugin` (`file`, `vis`) and its `params` |
//! | `certModules` | | key stores, one per certificate type |
//! | `startProvisioningCmdArgs`, `diskEncryptionCmdArgs`, `finishProvisioningCmdArgs`, `deprovisionCmdArgs` | none | hooks |
//! | `hookTimeout` | `4m` | how long a hook may take |
//! | `enablePermissionsHandler` | true | whether instances register permissions here |
//!
//! # Invariants
//! * A member is never reached in the clear, whatever the configuration says, also after a crash.
//! * Every handler begins with a check at its door; a refusal says who, what and why, and is logged.
//! * What a request has answered is on the disk. What was interrupted can be asked for again.
//! * Passwords go to key stores and hooks only, are wiped afterwards, and are in no log.
//!
//! # What this crate does not do
//! It issues no certificates and does not renew them by itself: whoever has an authority does, with
//! `CreateKey` and `ApplyCert`. It does not keep keys (`muster-keys`), nodes (`muster-node-registry`) or
//! permissions (`muster-permissions`), and does not measure the node (`muster-nodeinfo`).

pub mod authorize;
mod caller;
pub mod config;
mod csr;
mod current_node;
mod daemon;
mod identity;
mod join;
mod local;
mod local_socket;
mod own_cert;
pub mod program;
pub mod provisioning;
mod reload;
mod servers;
mod services;

use muster_fault::Point;

/// Every moment at which a test can kill the daemon, by the part that changes something lasting.
pub fn fault_points() -> Vec<&'static [Point]> {
    vec![
        provisioning::actor::FAULT_POINTS,
        provisioning::state_file::FAULT_POINTS,
        muster_keys::FAULT_POINTS,
        muster_node_registry::FAULT_POINTS,
        muster_permissions::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]
}
