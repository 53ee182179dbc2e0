//! When and where to connect next. Pure: time and chance come in.

use std::collections::VecDeque;
use std::time::Duration;

use http::Uri;

use crate::message::Secret;

/// Where to connect: what discovery said, as far as it is still good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoints {
    urls: VecDeque<Uri>,
    pub(crate) token: Secret,
}

/// Why a connection could not be made, as far as that says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The cloud does not know the token.
    Unauthorized,
    /// That address is of no use.
    Address,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Reconnect {
    pauses: (Duration, Duration),
    attempts: u32,
    asked_pause: Option<Duration>,
    endpoints: Option<Endpoints>,
}

impl Reconnect {
    pub(crate) fn new(pauses: (Duration, Duration)) -> Self {
        Self {
            pauses,
            attempts: 0,
            asked_pause: None,
            endpoints: None,
        }
    }

    /// Where to connect; `None`: ask first.
    pub(crate) fn endpoint(&self) -> Option<(&Uri, &Secret)> {
        let endpoints = self.endpoints.as_ref()?;
        Some((endpoints.urls.front()?, &endpoints.token))
    }

    /// What discovery said.
    pub(crate) fn discovered(&mut self, urls: Vec<Uri>, token: Secret, pause: Option<Duration>) {
        self.asked_pause = pause;
        let urls = urls.into();
        self.endpoints = Some(Endpoints { urls, token });
    }

    /// Discovery said no, and perhaps when to ask again.
    pub(crate) fn undiscovered(&mut self, pause: Option<Duration>) {
        self.endpoints = None;
        self.asked_pause = pause;
    }

    /// No connection could be made.
    pub(crate) fn failed(&mut self, failure: Failure) {
        match (failure, &mut self.endpoints) {
            (Failure::Address, Some(endpoints)) if endpoints.urls.len() > 1 => {
                endpoints.urls.pop_front();
            }
            _ => self.endpoints = None,
        }
    }

    /// There is a connection that is of use.
    pub(crate) fn settled(&mut self) {
        self.attempts = 0;
        self.asked_pause = None;
    }

    /// How long to wait before the next attempt. `chance` is between 0 and 1: Units that lost the same cloud do not come back
    /// at the same time.
    pub(crate) fn pause(&mut self, chance: f64) -> Duration {
        let (first, longest) = self.pauses;
        let full = first
            .saturating_mul(1u32.checked_shl(self.attempts.min(20)).unwrap_or(u32::MAX))
            .min(longest);
        self.attempts = self.attempts.saturating_add(1);
        let jittered = full.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0));
        match self.asked_pause.take() {
            Some(asked) => asked.min(longest).max(jittered),
            None => jittered,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uri(text: &'static str) -> Uri {
        Uri::from_static(text)
    }

    fn reconnect() -> Reconnect {
        Reconnect::new((Duration::from_secs(1), Duration::from_secs(600)))
    }

    #[test]
    fn an_address_that_fails_is_dropped_and_the_last_one_means_to_ask_again() {
        let mut reconnect = reconnect();
        assert_eq!(reconnect.endpoint(), None);
        let token = Secret::from("t".to_owned());
        reconnect.discovered(vec![uri("ws://a"), uri("ws://b")], token.clone(), None);
        assert_eq!(reconnect.endpoint(), Some((&uri("ws://a"), &token)));
        reconnect.failed(Failure::Address);
        assert_eq!(reconnect.endpoint(), Some((&uri("ws://b"), &token)));
        reconnect.failed(Failure::Address);
        assert_eq!(reconnect.endpoint(), None);
    }

    #[test]
    fn a_token_that_is_refused_drops_all_addresses() {
        let mut reconnect = reconnect();
        reconnect.discovered(vec![uri("ws://a"), uri("ws://b")], Secret::default(), None);
        reconnect.failed(Failure::Unauthorized);
        assert_eq!(reconnect.endpoint(), None);
    }

    #[test]
    fn the_cloud_can_ask_for_a_longer_pause_but_not_for_none() {
        let mut reconnect = reconnect();
        reconnect.undiscovered(Some(Duration::from_secs(30)));
        assert_eq!(reconnect.pause(0.0), Duration::from_secs(30));
        reconnect.undiscovered(Some(Duration::ZERO));
        assert!(reconnect.pause(0.0) >= Duration::from_millis(500));
    }

    proptest! {
        #[test]
        fn pauses_double_to_the_longest_and_start_over_after_use(
            chances in prop::collection::vec(0.0f64..=1.0, 1..40),
        ) {
            let mut reconnect = reconnect();
            let mut full = Duration::from_secs(1);
            for chance in chances {
                let pause = reconnect.pause(chance);
                prop_assert!(pause <= full && pause >= full / 2, "{pause:?} of {full:?}");
                full = (full * 2).min(Duration::from_secs(600));
            }
            reconnect.settled();
            prop_assert!(reconnect.pause(1.0) <= Duration::from_secs(1));
        }
    }
}
