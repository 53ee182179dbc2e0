//! Why a handshake failed, in words, and how often that may be said.

use std::io;
use std::time::{Duration, Instant};

use rustls::{AlertDescription, CertificateError};

/// Lines that may be written at once.
const BURST: u32 = 20;
/// After a burst, one more line each.
const REFILL: Duration = Duration::from_secs(1);

/// What became of a handshake that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Somebody who may not come in, or who cannot speak TLS.
    Refused(String),
    /// The peer went away. Port probes and restarting clients do so all the time.
    Gone,
}

/// Explains a handshake error from the side that looks at its peer ("it").
pub(crate) fn explain(error: &io::Error) -> Failure {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    Failure::Refused(match tls {
        Some(rustls::Error::InvalidCertificate(error)) => certificate_words(error),
        Some(rustls::Error::NoCertificatesPresented) => "it presented no certificate".into(),
        Some(rustls::Error::AlertReceived(alert)) => alert_words(*alert),
        Some(rustls::Error::InvalidMessage(_)) => "it does not speak TLS".into(),
        Some(rustls::Error::PeerIncompatible(error)) => {
            format!("it shares no TLS version or cipher with this side ({error:?})")
        }
        Some(rustls::Error::NoApplicationProtocol) => {
            "it does not offer the protocol spoken here (ALPN)".into()
        }
        Some(error) => format!("the TLS handshake failed ({error})"),
        None => match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted => return Failure::Gone,
            _ => format!("the connection failed during the TLS handshake ({error})"),
        },
    })
}

fn certificate_words(error: &CertificateError) -> String {
    use CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } => "its certificate has expired".into(),
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "its certificate is not yet valid (is a clock wrong?)".into()
        }
        E::Revoked => "its certificate is revoked".into(),
        E::UnknownIssuer => "its certificate was issued by an unknown CA".into(),
        E::BadSignature => {
            "its certificate names a known CA but was not signed by it, so by an unknown CA".into()
        }
        E::UnknownRevocationStatus => {
            "no revocation list covers a CA in its certificate chain".into()
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "its certificate is for another purpose (extended key usage)".into()
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            format!("its certificate is for another name ({error})")
        }
        E::BadEncoding => "its certificate is malformed".into(),
        other => format!("its certificate is unusable ({other})"),
    }
}

fn alert_words(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::UnknownCA => "issued by a CA unknown to it",
        AlertDescription::CertificateExpired => "expired or not yet valid",
        AlertDescription::CertificateRevoked => "revoked",
        AlertDescription::CertificateRequired => "missing",
        AlertDescription::UnsupportedCertificate => "for another purpose",
        AlertDescription::AccessDenied => "without an identity it accepts",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError => "unacceptable",
        other => return format!("it ended the TLS handshake ({other:?})"),
    };
    format!("it refused the certificate of this side as {why} ({alert:?})")
}

/// A budget of log lines. Pure: the caller brings the time.
#[derive(Debug)]
pub(crate) struct LineBudget {
    lines: u32,
    refilled: Instant,
    suppressed: u64,
}

impl LineBudget {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            lines: BURST,
            refilled: now,
            suppressed: 0,
        }
    }

    /// Whether lines were left out since the last one.
    pub(crate) fn has_suppressed(&self) -> bool {
        self.suppressed > 0
    }

    /// Whether one line may be written now; if so, how many were not since the last one.
    pub(crate) fn take(&mut self, now: Instant) -> Option<u64> {
        self.refill(now);
        match self.lines.checked_sub(1) {
            Some(rest) => {
                self.lines = rest;
                Some(std::mem::take(&mut self.suppressed))
            }
            None => {
                self.suppressed = self.suppressed.saturating_add(1);
                None
            }
        }
    }

    /// How many lines were not written and nobody has been told so, if a line may be written now.
    pub(crate) fn settle(&mut self, now: Instant) -> Option<u64> {
        if self.suppressed == 0 {
            return None;
        }
        self.refill(now);
        self.lines = self.lines.checked_sub(1)?;
        Some(std::mem::take(&mut self.suppressed))
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled);
        let earned = u32::try_from(passed.as_nanos() / REFILL.as_nanos()).unwrap_or(u32::MAX);
        if earned == 0 {
            return;
        }
        self.lines = self.lines.saturating_add(earned).min(BURST);
        self.refilled = if self.lines == BURST {
            now
        } else {
            self.refilled + REFILL * earned
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_is_cut_and_counted() {
        let start = Instant::now();
        let mut budget = LineBudget::new(start);
        for _ in 0..BURST {
            assert_eq!(budget.take(start), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(budget.take(start), None);
        }
        assert_eq!(budget.settle(start), None, "no line is free yet");
        assert_eq!(budget.take(start + REFILL), Some(5));
        assert_eq!(budget.take(start + REFILL), None);
        assert_eq!(budget.settle(start + REFILL * 3), Some(1));
        assert_eq!(
            budget.settle(start + REFILL * 9),
            None,
            "nothing is owed any more"
        );
    }

    #[test]
    fn a_peer_that_leaves_is_not_a_refusal() {
        assert_eq!(explain(&io::ErrorKind::UnexpectedEof.into()), Failure::Gone);
        assert!(matches!(
            explain(&io::Error::other("odd")),
            Failure::Refused(_)
        ));
    }

    proptest! {
        /// Every refusal is either a line or part of exactly one count, and lines stay within budget.
        #[test]
        fn nothing_is_lost_and_nothing_exceeds_the_budget(
            gaps in prop::collection::vec(0u64..3_000, 1..200),
        ) {
            let start = Instant::now();
            let mut now = start;
            let mut budget = LineBudget::new(start);
            let (mut lines, mut counted) = (0u64, 0u64);
            for gap in &gaps {
                now += Duration::from_millis(*gap);
                if let Some(suppressed) = budget.take(now) {
                    lines += 1;
                    counted += suppressed;
                }
            }
            prop_assert_eq!(lines + counted + budget.suppressed, gaps.len() as u64);
            let allowed = u64::from(BURST) + (now - start).as_secs();
            prop_assert!(lines <= allowed, "{} lines, {} allowed", lines, allowed);
        }
    }
}
