//! What the present core has still to be told, and in which order.
//!
//! Nothing is queued: everything that init has to say follows from its state, so a core that does not read
//! costs no memory, and a new core is simply told from the beginning.

use muster_handover::{Begin, InitLink, Progress};
use rustix::io::Result;

use crate::exits::ExitLog;
use crate::kept::Kept;
use crate::signals::PendingSignals;

/// How far the conversation with one core has got.
#[derive(Debug)]
pub struct Conversation {
    stage: Stage,
    ping: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Begin(Begin),
    /// So many of the kept descriptors have been handed over.
    Stored(usize),
    Exits,
    End,
    Open,
}

/// What core is told about.
#[derive(Debug)]
pub struct Topics<'a> {
    /// The kept descriptors.
    pub kept: &'a Kept,
    /// The exits.
    pub exits: &'a mut ExitLog,
    /// The signals.
    pub signals: &'a mut PendingSignals,
    /// How many descriptors could not be kept.
    pub refused: &'a mut u32,
    /// Core has adopted the services. Before that it could not act upon a signal, and a core that never gets that
    /// far must not swallow one.
    pub is_adopted: bool,
}

impl Conversation {
    /// With a core that has just been started.
    pub fn begin(begin: Begin) -> Self {
        Self {
            stage: Stage::Begin(begin),
            ping: false,
        }
    }

    /// Ask for a sign of life with the next opportunity.
    pub fn want_ping(&mut self) {
        self.ping = true;
    }

    /// Says as much as the link takes; [`Progress::Later`] when there is more to say.
    pub fn go_on(&mut self, link: &InitLink, topics: Topics<'_>) -> Result<Progress> {
        let Topics {
            kept,
            exits,
            signals,
            refused,
            is_adopted,
        } = topics;
        loop {
            let progress = match self.stage {
                Stage::Begin(begin) => {
                    let progress = link.begin(&begin)?;
                    self.advance(progress, Stage::Stored(0))
                }
                Stage::Stored(done) if done < kept.len() => {
                    match link.stored(kept.iter_from(done))? {
                        // At least one always fits.
                        Some(taken) => {
                            self.advance(Progress::Sent, Stage::Stored(done + taken.max(1)))
                        }
                        None => Progress::Later,
                    }
                }
                Stage::Stored(_) => self.advance(Progress::Sent, Stage::Exits),
                Stage::Exits if exits.has_untold() => tell_exits(link, exits)?,
                Stage::Exits => self.advance(Progress::Sent, Stage::End),
                Stage::End => {
                    let progress = link.end()?;
                    self.advance(progress, Stage::Open)
                }
                Stage::Open => {
                    if self.ping {
                        let progress = link.ping()?;
                        self.ping = progress == Progress::Later;
                        progress
                    } else if let Some(signal) = signals.first().filter(|_| is_adopted) {
                        let progress = link.signal(signal)?;
                        if progress == Progress::Sent {
                            signals.remove_first();
                        }
                        progress
                    } else if *refused > 0 {
                        let progress = link.refused(*refused)?;
                        if progress == Progress::Sent {
                            *refused = 0;
                        }
                        progress
                    } else if exits.has_untold() {
                        tell_exits(link, exits)?
                    } else {
                        return Ok(Progress::Sent);
                    }
                }
            };
            if progress == Progress::Later {
                return Ok(Progress::Later);
            }
        }
    }

    fn advance(&mut self, progress: Progress, next: Stage) -> Progress {
        if progress == Progress::Sent {
            self.stage = next;
        }
        progress
    }
}

fn tell_exits(link: &InitLink, exits: &mut ExitLog) -> Result<Progress> {
    Ok(match link.exits(exits.untold())? {
        Some(told) => {
            exits.mark_told(told);
            Progress::Sent
        }
        None => Progress::Later,
    })
}
