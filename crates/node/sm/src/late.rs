//! Something that may come later than whoever needs it.

use tokio::sync::watch;

/// A value that is there from some moment on, and may be replaced. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Late<T>(watch::Receiver<Option<T>>);

/// Whoever brings it.
#[derive(Debug)]
pub(crate) struct Supply<T>(watch::Sender<Option<T>>);

/// A value that is not there yet.
pub(crate) fn late<T>() -> (Supply<T>, Late<T>) {
    let (supply, late) = watch::channel(None);
    (Supply(supply), Late(late))
}

impl<T> Supply<T> {
    pub(crate) fn set(&self, value: T) {
        self.0.send_replace(Some(value));
    }
}

impl<T: Clone> Late<T> {
    /// One that is there.
    pub(crate) fn ready(value: T) -> Self {
        Self(watch::channel(Some(value)).1)
    }

    /// The value, if it is there.
    pub(crate) fn now(&self) -> Option<T> {
        self.0.borrow().clone()
    }

    /// Waits for it; for ever, if nobody is left who could bring it.
    pub(crate) async fn get(&self) -> T {
        let mut value = self.0.clone();
        loop {
            if let Some(value) = value.borrow_and_update().clone() {
                return value;
            }
            if value.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_gets_it_when_it_comes() {
        let (supply, late) = late();
        assert_eq!(late.now(), None);
        let waiting = late.clone();
        let waiting = tokio::spawn(async move { waiting.get().await });
        supply.set(7);
        assert_eq!(waiting.await.unwrap(), 7);
        supply.set(8);
        drop(supply);
        assert_eq!((late.now(), late.get().await), (Some(8), 8));
    }
}
