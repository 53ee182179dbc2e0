//! Colours, or none.

/// Whether, and how, text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(pub(crate) bool);

/// What a text tells at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// All is well.
    Good,
    /// It may become well, or needs a look.
    Unsettled,
    /// Something failed.
    Bad,
    /// Of little interest.
    Quiet,
}

impl Paint {
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Unsettled => "33",
            Tone::Bad => "31",
            Tone::Quiet => "2",
        };
        self.with(code, text)
    }

    fn with(self, code: &str, text: &str) -> String {
        match self.0 && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

impl Tone {
    /// Of the states that nodes, instances, items, links and findings are in.
    pub(crate) fn of_state(word: &str) -> Option<Self> {
        match word {
            "active" | "installed" | "provisioned" | "connected" | "ok" | "yes" => Some(Self::Good),
            "activating" | "waiting" | "downloading" | "pending" | "installing" | "removing"
            | "paused" | "unprovisioned" | "warning" => Some(Self::Unsettled),
            "failed" | "error" | "unplaced" | "away" | "disconnected" => Some(Self::Bad),
            "inactive" | "removed" | "gone" | "no" => Some(Self::Quiet),
            _ => None,
        }
    }
}
