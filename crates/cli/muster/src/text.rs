//! Values as people say them.

use std::time::Duration;

/// Sizes with one digit after the point.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut whole = bytes;
    let mut rest = 0;
    while whole >= 1024 && unit + 1 < UNITS.len() {
        rest = whole % 1024;
        whole /= 1024;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{whole}.{} {}", rest * 10 / 1024, UNITS[unit]),
    }
}

/// How long, in its two largest units.
pub(crate) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) if minutes < 10 => format!("{minutes}m{}s", seconds % 60),
        (0, 0, _) => format!("{minutes}m"),
        (0, ..) if hours < 10 => format!("{hours}h{}m", minutes % 60),
        (0, ..) => format!("{hours}h"),
        _ if days < 10 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// Foreign text, of which a terminal shall obey nothing.
pub(crate) fn shown(text: &str) -> String {
    let printable = |character: char| match character.is_control() {
        true => ' ',
        false => character,
    };
    text.chars().map(printable).collect()
}

/// One thing, or several.
pub(crate) fn count(number: usize, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    }
}

/// Of what is there, what was probably meant.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A third of the letters may be wrong, or the end be left out; beyond that a guess only confuses.
    let most = (wrong.chars().count() / 3).max(1);
    let distance = |it: &str| match it.starts_with(wrong) && !wrong.is_empty() {
        true => 1,
        false => strsim::damerau_levenshtein(wrong, it),
    };
    let nearest = known.into_iter().min_by_key(|it| distance(it))?;
    (distance(nearest) <= most).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_digit_after_the_point() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (8 << 30, "8.0 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn lengths_have_at_most_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m1s"),
            (3599, "59m"),
            (3660, "1h1m"),
            (86399, "23h"),
            (86400 * 3 + 7200, "3d2h"),
            (86400 * 400, "400d"),
        ] {
            assert_eq!(length(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_guess_is_made_only_where_it_is_near() {
        let known = ["web/local/0", "worker/local/0", "node-1"];
        for (wrong, guess) in [
            ("wep/local/0", Some("web/local/0")),
            ("work", Some("worker/local/0")),
            ("nod-1", Some("node-1")),
            ("something", None),
        ] {
            assert_eq!(nearest(wrong, known), guess, "{wrong}");
        }
        assert_eq!(nearest("x", []), None);
    }
}
