//! Colours, and how wide a line may be.

/// How answers look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Colours are wanted.
    pub(crate) colour: bool,
    /// Columns of the terminal, where lines are cut to fit.
    pub(crate) width: Option<usize>,
}

impl Style {
    /// A text in a colour given by its number (32 is green), if there are colours and one is given.
    pub(crate) fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !code.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// The same for lines of any length.
    pub(crate) fn full(self) -> Self {
        Self {
            width: None,
            ..self
        }
    }
}

/// The colour of an active state.
pub(crate) fn active_colour(active: &str) -> &'static str {
    match active {
        "active" | "reloading" => "1;32",
        "failed" => "1;31",
        "activating" | "deactivating" => "1;33",
        _ => "",
    }
}

/// The sign of an active state.
pub(crate) fn sign(active: &str) -> &'static str {
    match active {
        "reloading" => "\u{21bb}",
        "inactive" | "maintenance" => "\u{25cb}",
        "failed" => "\u{d7}",
        _ => "\u{25cf}",
    }
}

/// The colour of a load state.
pub(crate) fn load_colour(load: &str) -> &'static str {
    match load {
        "loaded" | "stub" => "",
        _ => "1;31",
    }
}

/// The colour of an enablement state.
pub(crate) fn file_state_colour(state: &str) -> &'static str {
    match state {
        "enabled" | "enabled-runtime" | "alias" => "32",
        "masked" | "masked-runtime" | "bad" => "31",
        "disabled" | "linked" | "linked-runtime" | "indirect" | "transient" => "33",
        _ => "",
    }
}

/// A text of at most so many characters, cut at its end.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}\u{2026}")
}
