//! Which entries are wanted.

use crate::file::{Chain, Direction, Fault, JournalFile};

/// Conditions on entries, combined as `sd_journal_add_match` and its companions do.
///
/// Conditions on the same field are alternatives, conditions on different fields must all hold.
/// [`or`](Self::or) starts an alternative to everything added since the last [`and`](Self::and);
/// `and` starts a further group that must hold as well.
///
/// ```
/// use muster_journal::Matches;
/// // (unit a or unit b) and priority 3, or anything by the kernel
/// let mut matches = Matches::new();
/// matches.add(b"_SYSTEMD_UNIT=a.service");
/// matches.add(b"_SYSTEMD_UNIT=b.service");
/// matches.add(b"PRIORITY=3");
/// matches.or();
/// matches.add(b"_TRANSPORT=kernel");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    /// All must hold; in each, one alternative; in each of those, all fields; of each field, one value.
    groups: Vec<Vec<Vec<FieldMatch>>>,
    start_alternative: bool,
    start_group: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldMatch {
    name: Vec<u8>,
    /// Each `NAME=value`.
    values: Vec<Vec<u8>>,
}

impl Matches {
    /// No conditions: every entry is wanted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition, `NAME=value`.
    pub fn add(&mut self, value: &[u8]) -> &mut Self {
        let name = value.split(|byte| *byte == b'=').next().unwrap_or_default();
        if std::mem::take(&mut self.start_group) || self.groups.is_empty() {
            self.groups.push(Vec::new());
            self.start_alternative = true;
        }
        if let Some(group) = self.groups.last_mut() {
            if std::mem::take(&mut self.start_alternative) || group.is_empty() {
                group.push(Vec::new());
            }
            if let Some(fields) = group.last_mut() {
                match fields.iter_mut().find(|field| field.name == name) {
                    Some(field) => field.values.push(value.to_vec()),
                    None => fields.push(FieldMatch {
                        name: name.to_vec(),
                        values: vec![value.to_vec()],
                    }),
                }
            }
        }
        self
    }

    /// What is added from here on is an alternative to what was added since the last [`and`](Self::and).
    pub fn or(&mut self) -> &mut Self {
        self.start_alternative = true;
        self
    }

    /// What is added from here on must hold as well as what was added so far.
    pub fn and(&mut self) -> &mut Self {
        self.start_group = true;
        self
    }

    /// Whether every entry is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The conditions as a tree that can be searched in one file.
    pub(crate) fn compile(&self) -> Node {
        let all = |nodes: Vec<Node>| Node::join(nodes, Node::All);
        let any = |nodes: Vec<Node>| Node::join(nodes, Node::Any);
        if self.groups.is_empty() {
            return Node::Everything(None);
        }
        let leaf = |value: &Vec<u8>| Node::Value {
            value: value.clone(),
            chain: Resolved::Not,
        };
        let field = |field: &FieldMatch| any(field.values.iter().map(leaf).collect());
        let alternative = |fields: &Vec<FieldMatch>| all(fields.iter().map(field).collect());
        let group = |group: &Vec<Vec<FieldMatch>>| any(group.iter().map(alternative).collect());
        all(self.groups.iter().map(group).collect())
    }
}

/// Whether a value was looked for in the file.
#[derive(Debug)]
pub(crate) enum Resolved {
    Not,
    Absent,
    Present { data: u64, chain: Chain },
}

/// Conditions with what is known about them in one file.
#[derive(Debug)]
pub(crate) enum Node {
    Everything(Option<Chain>),
    Value { value: Vec<u8>, chain: Resolved },
    All(Vec<Node>),
    Any(Vec<Node>),
}

impl Node {
    fn join(mut nodes: Vec<Node>, many: impl Fn(Vec<Node>) -> Node) -> Node {
        match nodes.len() {
            1 => nodes.remove(0),
            _ => many(nodes),
        }
    }

    /// The nearest wanted entry at or after (forward) or at or before (backward) `offset`.
    pub(crate) fn nearest(
        &mut self,
        file: &JournalFile,
        offset: u64,
        direction: Direction,
    ) -> Result<Option<u64>, Fault> {
        match self {
            Self::Everything(chain) => chain
                .get_or_insert_with(|| Chain::of_file(file))
                .nearest(file, offset, direction),
            Self::Value { value, chain } => {
                if matches!(chain, Resolved::Not) {
                    *chain = match file.find_data(value)? {
                        Some(data) => Resolved::Present {
                            data: data.offset,
                            chain: Chain::of_data(&data),
                        },
                        None => Resolved::Absent,
                    };
                }
                match chain {
                    Resolved::Present { chain, .. } => chain.nearest(file, offset, direction),
                    Resolved::Absent | Resolved::Not => Ok(None),
                }
            }
            Self::Any(nodes) => {
                let mut best: Option<u64> = None;
                for node in nodes {
                    let found = node.nearest(file, offset, direction)?;
                    best = match (best, found) {
                        (Some(a), Some(b)) if direction == Direction::Forward => Some(a.min(b)),
                        (Some(a), Some(b)) => Some(a.max(b)),
                        (a, b) => a.or(b),
                    };
                }
                Ok(best)
            }
            Self::All(nodes) => {
                // Each node moves the place on to its own next entry, until all stay where they are.
                let (mut place, mut agreed, mut turn) = (offset, 0, 0);
                while agreed < nodes.len() {
                    let Some(found) = nodes[turn].nearest(file, place, direction)? else {
                        return Ok(None);
                    };
                    agreed = if found == place { agreed + 1 } else { 1 };
                    place = found;
                    turn = (turn + 1) % nodes.len();
                }
                Ok(Some(place))
            }
        }
    }

    /// Takes note of what was appended to the file.
    pub(crate) fn refresh(&mut self, file: &JournalFile) -> Result<(), Fault> {
        match self {
            Self::Everything(Some(chain)) => chain.extend(&Chain::of_file(file)),
            Self::Everything(None) => {}
            Self::Value { chain, .. } => match chain {
                Resolved::Not => {}
                Resolved::Absent => *chain = Resolved::Not,
                Resolved::Present { data, chain } => {
                    chain.extend(&Chain::of_data(&file.data(*data)?));
                }
            },
            Self::All(nodes) | Self::Any(nodes) => {
                for node in nodes {
                    node.refresh(file)?;
                }
            }
        }
        Ok(())
    }
}
