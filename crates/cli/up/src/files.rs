//! The files of the demo's nodes. Pure.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use muster_node_files::{Duty, Networks, NodeFiles, Text, UnitMember};

use serde_json::json;

use crate::layout::{Layout, MAIN, NodePlace, SECOND_UPLINK, SUBJECT, addresses};
use crate::record::{Ports, Record, USUAL_PORTS};
use crate::settings::Shape;

/// Nodes of one machine share its power; what it really is does not matter to a demo, and measuring takes time.
const DMIPS: u64 = 10_000;
pub(crate) const MODEL: &str = "muster-demo;1.0";

/// One node, and what its files depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodePlan<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) record: &'a Record,
    pub(crate) place: &'a NodePlace,
    pub(crate) programs: &'a Path,
}

/// What every node of the demo is told about its Unit.
pub(crate) fn unit(layout: &Layout, record: &Record, system_id: &str) -> UnitMember {
    let at = |port| SocketAddrV4::new(record.main_address(), port).to_string();
    UnitMember {
        system_id: system_id.to_owned(),
        model: MODEL.to_owned(),
        subjects: vec![SUBJECT.to_owned()],
        root_certificate: layout.pki().join("root.crt.pem"),
        revocation_lists: vec![layout.pki().join("crl.pem")],
        iam_public: at(record.ports.iam_public),
        iam_protected: at(record.ports.iam_protected),
        cm: at(record.ports.cm),
    }
}

/// What machines that join are told, as `muster machine provision --join` reads it.
pub(crate) fn join(layout: &Layout, record: &Record, system_id: &str) -> String {
    let unit = unit(layout, record, system_id);
    let join = json!({
        "systemId": unit.system_id,
        "model": unit.model,
        "subjects": unit.subjects,
        "iamPublicUrl": unit.iam_public,
        "iamProtectedUrl": unit.iam_protected,
        "cmUrl": unit.cm,
        "rootCertificate": unit.root_certificate,
        "revocationLists": unit.revocation_lists,
        "authority": layout.pki(),
        "iamSocket": layout.node(MAIN).iam_socket(),
        "controlSocket": layout.control_socket(),
    });
    format!("{join:#}\n")
}

impl NodePlan<'_> {
    fn is_main(&self) -> bool {
        self.place.name == MAIN
    }

    /// Where this node listens.
    pub(crate) fn address(&self) -> Ipv4Addr {
        match (self.is_main(), self.record.subnet) {
            (false, Some(subnet)) => addresses(subnet).1,
            _ => self.record.main_address(),
        }
    }

    fn ports(&self) -> Ports {
        match self.is_main() {
            true => self.record.ports,
            false => USUAL_PORTS,
        }
    }

    fn networks(&self) -> Networks {
        if self.record.shape() == Shape::OneUser {
            return Networks::Host;
        }
        let uplink = match self.is_main() {
            true => self.layout.uplink(),
            false => SECOND_UPLINK.to_owned(),
        };
        Networks::Own {
            subject: SUBJECT.to_owned(),
            uplink,
        }
    }

    fn duty(&self) -> Duty {
        if !self.is_main() {
            return Duty::Member;
        }
        let files = SocketAddrV4::new(self.record.main_address(), self.record.ports.files);
        Duty::Main {
            files: files.to_string(),
            control_socket: self.layout.control_socket(),
        }
    }

    /// Everything that the node's programs read.
    pub(crate) fn files(&self, system_id: &str) -> Vec<Text> {
        let ports = self.ports();
        let node = NodeFiles {
            name: self.place.name.to_owned(),
            place: self.place.place.clone(),
            programs: self.programs.to_owned(),
            address: self.address(),
            iam_public: ports.iam_public,
            iam_protected: ports.iam_protected,
            max_dmips: Some(DMIPS),
            unit: unit(self.layout, self.record, system_id),
            networks: self.networks(),
            duty: self.duty(),
        };
        node.files()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::SECOND;
    use crate::record::Before;

    /// A file of a node, by its name.
    fn file(shape: Shape, name: &'static str, file: &str) -> Option<String> {
        let layout = Layout::new(Path::new("/var/lib/demo"), Path::new("/run/demo")).unwrap();
        let record = Record {
            subnet: (shape == Shape::TwoNodes).then_some(7),
            ports: USUAL_PORTS,
            before: Before::default(),
        };
        let place = layout.node(name);
        let plan = NodePlan {
            layout: &layout,
            record: &record,
            place: &place,
            programs: Path::new("/usr/lib/muster"),
        };
        let mut files = plan.files("demo-1").into_iter();
        let found = files.find(|(path, _)| path.ends_with(file));
        found.map(|(_, text)| text)
    }

    #[test]
    fn the_second_node_has_an_address_of_its_own_and_knows_the_first() {
        let main = file(Shape::TwoNodes, MAIN, "iam.json").unwrap();
        let second = file(Shape::TwoNodes, SECOND, "iam.json").unwrap();
        assert!(main.contains("\"publicServerUrl\": \"10.213.7.1:8090\""));
        assert!(second.contains("\"publicServerUrl\": \"10.213.7.2:8090\""));
        assert!(second.contains("\"mainIamPublicServerUrl\": \"10.213.7.1:8090\""));
        assert!(file(Shape::TwoNodes, MAIN, "cm.json").is_some());
        assert_eq!(file(Shape::TwoNodes, SECOND, "cm.json"), None);
    }

    #[test]
    fn one_user_listens_to_the_machine_only_and_uses_its_network() {
        let sm = file(Shape::OneUser, MAIN, "sm.json").unwrap();
        assert!(sm.contains("\"cmServerUrl\": \"127.0.0.1:"), "{sm}");
        assert!(sm.contains("\"mode\": \"host\""), "{sm}");
    }
}
