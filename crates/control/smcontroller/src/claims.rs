//! Which stream is a node's: a pure state machine.
//!
//! ```text
//!              join                     join: ping the holder
//!   (nobody) ---------> Serving ------------------------------> Contested
//!       ^                 ^  ^                                   |      |
//!       |                 |  +--- it answers: refuse newcomer ---+      |
//!       |  left           |                                             | it does not, or is gone: close it
//!       +-- Leaving <-----|---------------------------------------------+
//!              |          |
//!              +- left ---+  the newcomer is admitted
//! ```
//!
//! A newcomer is admitted only when the stream before it has *left*: its last message has been taken by its receivers and they
//! know that it is gone. So what a node said on two streams is never mixed up. While a newcomer waits, a still newer one takes
//! its place: the latest stream of a node that keeps coming back is the one that is most likely alive.

use std::collections::HashMap;

use muster_api::domain::NodeId;

use crate::refusal::StreamRefused;

/// One stream, unique for the life of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(pub(crate) u64);

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The stream is now the node's.
    Admit(StreamId),
    /// The stream does not become the node's.
    Refuse(StreamId, StreamRefused),
    /// Find out whether the stream answers, and tell with [`Claims::pinged`].
    Ping(StreamId),
    /// The stream, which was the node's, ends. It leaves when it has been emptied.
    Close(StreamId, StreamRefused),
}

#[derive(Debug)]
enum Claim {
    Serving {
        holder: StreamId,
    },
    /// The holder has been pinged.
    Contested {
        holder: StreamId,
        newcomer: StreamId,
    },
    /// The holder did not answer and was closed.
    Leaving {
        holder: StreamId,
        newcomer: Option<StreamId>,
    },
}

/// Every node that has a stream. See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    nodes: HashMap<NodeId, Claim>,
}

impl Claims {
    /// A stream says that it is the node's.
    pub(crate) fn join(&mut self, node: &NodeId, stream: StreamId, effects: &mut Vec<Effect>) {
        let Some(claim) = self.nodes.get_mut(node) else {
            let holder = stream;
            self.nodes.insert(node.clone(), Claim::Serving { holder });
            effects.push(Effect::Admit(stream));
            return;
        };
        let superseded = || StreamRefused::Replaced { node: node.clone() };
        match claim {
            Claim::Serving { holder } => {
                let holder = *holder;
                effects.push(Effect::Ping(holder));
                *claim = Claim::Contested {
                    holder,
                    newcomer: stream,
                };
            }
            Claim::Contested { newcomer, .. } => {
                effects.push(Effect::Refuse(*newcomer, superseded()));
                *newcomer = stream;
            }
            Claim::Leaving { newcomer, .. } => {
                if let Some(newcomer) = newcomer.replace(stream) {
                    effects.push(Effect::Refuse(newcomer, superseded()));
                }
            }
        }
    }

    /// The stream was pinged and answered, or did not.
    pub(crate) fn pinged(
        &mut self,
        node: &NodeId,
        stream: StreamId,
        answers: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Some(claim) = self.nodes.get_mut(node) else {
            return;
        };
        let Claim::Contested { holder, newcomer } = *claim else {
            // The newcomer has gone, or the holder left by itself.
            return;
        };
        if holder != stream {
            return;
        }
        if answers {
            let refused = StreamRefused::AlreadyConnected { node: node.clone() };
            effects.push(Effect::Refuse(newcomer, refused));
            *claim = Claim::Serving { holder };
        } else {
            let replaced = StreamRefused::Replaced { node: node.clone() };
            effects.push(Effect::Close(holder, replaced));
            *claim = Claim::Leaving {
                holder,
                newcomer: Some(newcomer),
            };
        }
    }

    /// The stream is over and emptied, or gave up waiting.
    pub(crate) fn left(&mut self, node: &NodeId, stream: StreamId, effects: &mut Vec<Effect>) {
        let Some(claim) = self.nodes.get_mut(node) else {
            return;
        };
        let (holder, newcomer) = match *claim {
            Claim::Serving { holder } => (holder, None),
            Claim::Contested { holder, newcomer } => (holder, Some(newcomer)),
            Claim::Leaving { holder, newcomer } => (holder, newcomer),
        };
        if holder == stream {
            match newcomer {
                Some(newcomer) => {
                    *claim = Claim::Serving { holder: newcomer };
                    effects.push(Effect::Admit(newcomer));
                }
                None => {
                    self.nodes.remove(node);
                }
            }
        } else if newcomer == Some(stream) {
            *claim = match *claim {
                Claim::Leaving { holder, .. } => Claim::Leaving {
                    holder,
                    newcomer: None,
                },
                Claim::Serving { holder } | Claim::Contested { holder, .. } => {
                    Claim::Serving { holder }
                }
            };
        }
    }
}

#[cfg(test)]
mod tests;
