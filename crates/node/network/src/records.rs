//! What was made and will be, in the daemon's database.

use std::collections::BTreeMap;
use std::net::IpAddr;

use muster_api::domain::NetworkId;
use muster_store::rusqlite::{self, Connection, Row, params};
use muster_store::{Migration, Schema, Step};
use uuid::Uuid;

use crate::node_network::NodeNetwork;
use crate::plan::Known;

/// What the networks keep in the daemon's database.
pub static SCHEMA: Schema = Schema::new(
    "network",
    &[Migration {
        number: 1,
        name: "networks and instances",
        step: Step::Sql(
            "CREATE TABLE network_networks (
                 id TEXT PRIMARY KEY, subnet TEXT NOT NULL, address TEXT NOT NULL, vlan INTEGER, wanted INTEGER NOT NULL
             ) STRICT;
             CREATE TABLE network_instances (
                 id TEXT PRIMARY KEY, name TEXT NOT NULL, network TEXT NOT NULL, address TEXT NOT NULL,
                 names TEXT NOT NULL, name_servers TEXT NOT NULL, conflist TEXT NOT NULL, made INTEGER NOT NULL
             ) STRICT;",
        ),
    }],
);

/// An instance's place in a network, as it was begun to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) instance: Uuid,
    /// `item:subject:instance`, for people.
    pub(crate) name: String,
    pub(crate) network: NetworkId,
    pub(crate) address: IpAddr,
    /// By which it is found.
    pub(crate) names: Vec<String>,
    /// Whom the controller named for other names.
    pub(crate) name_servers: Vec<IpAddr>,
    /// The plugins' configuration, as text.
    pub(crate) conflist: String,
    /// Whether all of it was made; else a part may be there.
    pub(crate) made: bool,
}

/// Everything that is written down.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Book {
    pub(crate) networks: BTreeMap<NetworkId, Known>,
    pub(crate) instances: BTreeMap<Uuid, Record>,
}

/// Reads everything. A row that makes no sense is left out: what it speaks of is then a leftover, and removed.
pub(crate) fn load(db: &Connection) -> rusqlite::Result<Book> {
    let mut book = Book::default();
    let mut networks =
        db.prepare("SELECT id, subnet, address, vlan, wanted FROM network_networks")?;
    let mut rows = networks.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(known) = network_of(row)? {
            book.networks.insert(known.network.id.clone(), known);
        }
    }
    let mut instances = db.prepare(
        "SELECT id, name, network, address, names, name_servers, conflist, made FROM network_instances",
    )?;
    let mut rows = instances.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(record) = instance_of(row)? {
            book.instances.insert(record.instance, record);
        }
    }
    Ok(book)
}

fn network_of(row: &Row<'_>) -> rusqlite::Result<Option<Known>> {
    let text = |column| row.get::<_, String>(column);
    let (id, subnet, address) = (text(0)?, text(1)?, text(2)?);
    let (vlan, wanted) = (row.get::<_, Option<i64>>(3)?, row.get(4)?);
    let read = || {
        Some(NodeNetwork {
            id: NetworkId::new(&id).ok()?,
            subnet: subnet.parse().ok()?,
            address: address.parse().ok()?,
            vlan: vlan.map(u16::try_from).transpose().ok()?,
        })
    };
    Ok(read().map(|network| Known { network, wanted }))
}

fn instance_of(row: &Row<'_>) -> rusqlite::Result<Option<Record>> {
    let text = |column| row.get::<_, String>(column);
    let (id, name, network, address) = (text(0)?, text(1)?, text(2)?, text(3)?);
    let (names, name_servers, conflist) = (text(4)?, text(5)?, text(6)?);
    let made = row.get(7)?;
    let read = || {
        Some(Record {
            instance: Uuid::parse_str(&id).ok()?,
            name,
            network: NetworkId::new(&network).ok()?,
            address: address.parse().ok()?,
            names: serde_json::from_str(&names).ok()?,
            name_servers: serde_json::from_str(&name_servers).ok()?,
            conflist,
            made,
        })
    };
    Ok(read())
}

pub(crate) fn put_network(db: &Connection, known: &Known) -> rusqlite::Result<()> {
    let network = &known.network;
    let values = params![
        network.id.as_str(),
        network.subnet.to_string(),
        network.address.to_string(),
        network.vlan,
        known.wanted
    ];
    let sql = "INSERT OR REPLACE INTO network_networks VALUES (?, ?, ?, ?, ?)";
    db.execute(sql, values).map(drop)
}

pub(crate) fn forget_network(db: &Connection, id: &NetworkId) -> rusqlite::Result<()> {
    let sql = "DELETE FROM network_networks WHERE id = ?";
    db.execute(sql, [id.as_str()]).map(drop)
}

pub(crate) fn put_instance(db: &Connection, record: &Record) -> rusqlite::Result<()> {
    let list = |text: serde_json::Result<String>| text.expect("texts can be written as JSON");
    let values = params![
        record.instance.to_string(),
        record.name,
        record.network.as_str(),
        record.address.to_string(),
        list(serde_json::to_string(&record.names)),
        list(serde_json::to_string(&record.name_servers)),
        record.conflist,
        record.made
    ];
    let sql = "INSERT OR REPLACE INTO network_instances VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    db.execute(sql, values).map(drop)
}

pub(crate) fn forget_instance(db: &Connection, instance: Uuid) -> rusqlite::Result<()> {
    let sql = "DELETE FROM network_instances WHERE id = ?";
    db.execute(sql, [instance.to_string()]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_store::testing::check_upgrades;

    use super::*;

    fn book() -> Book {
        let network = NodeNetwork {
            id: NetworkId::new("net").unwrap(),
            subnet: "10.1.0.0/16".parse().unwrap(),
            address: [10, 1, 0, 1].into(),
            vlan: Some(7),
        };
        let record = Record {
            instance: Uuid::from_u128(5),
            name: "item:subject:0".into(),
            network: network.id.clone(),
            address: [10, 1, 0, 2].into(),
            names: vec!["a".into(), "a.net".into()],
            name_servers: vec![[9, 9, 9, 9].into()],
            conflist: "{}".into(),
            made: true,
        };
        Book {
            networks: BTreeMap::from([(
                network.id.clone(),
                Known {
                    network,
                    wanted: true,
                },
            )]),
            instances: BTreeMap::from([(record.instance, record)]),
        }
    }

    fn sample(db: &Connection) -> rusqlite::Result<()> {
        let book = book();
        book.networks
            .values()
            .try_for_each(|it| put_network(db, it))?;
        book.instances
            .values()
            .try_for_each(|it| put_instance(db, it))
    }

    #[test]
    fn every_released_version_can_be_upgraded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        check_upgrades(&SCHEMA, &folder, sample, |db, _| {
            assert_eq!(load(db).unwrap(), book());
        });
    }

    #[test]
    fn what_is_forgotten_is_gone_and_nonsense_is_left_out() {
        let db = Connection::open_in_memory().unwrap();
        for migration in SCHEMA.migrations() {
            if let Step::Sql(sql) = migration.step {
                db.execute_batch(sql).unwrap();
            }
        }
        sample(&db).unwrap();
        db.execute(
            "INSERT INTO network_networks VALUES ('../x', 'y', 'z', 70000, 1)",
            [],
        )
        .unwrap();
        db.execute(
            "INSERT INTO network_instances VALUES ('x', '', '', '', '', '', '', 0)",
            [],
        )
        .unwrap();
        assert_eq!(load(&db).unwrap(), book());
        forget_network(&db, &NetworkId::new("net").unwrap()).unwrap();
        forget_instance(&db, Uuid::from_u128(5)).unwrap();
        assert_eq!(load(&db).unwrap(), Book::default());
    }
}
