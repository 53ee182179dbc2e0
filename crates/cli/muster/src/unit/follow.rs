//! `--wait`: how an update goes, until its end.

mod bars;
mod seen;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use muster_control_api::v1;
use tokio::signal;
use tonic::Code;

use self::bars::Bars;
use self::seen::Seen;
use super::{UnitClient, UnitCommandError};
use crate::call::{CallError, Peer};
use crate::console::Console;
use crate::error::CommandError;

/// The pause before a Unit that went away is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Waits for the end of an update, 0 for the current one, and shows how it goes.
pub(super) async fn wait(
    unit: &UnitClient,
    id: u64,
    limit: Duration,
    console: &mut Console,
) -> Result<(), CommandError> {
    let mut seen = Seen::new(id);
    let ended = {
        let mut display = Display::of_process(console);
        tokio::select! {
            ended = to_the_end(unit, &mut seen, &mut display) => ended,
            () = tokio::time::sleep(limit) => {
                let id = seen.id();
                Err(UnitCommandError::Late { id, after: limit })
            }
            interrupted = signal::ctrl_c() => match interrupted {
                Ok(()) => Err(UnitCommandError::StoppedWaiting { id: seen.id() }),
                Err(source) => Err(UnitCommandError::Signals(source)),
            },
        }
    };
    ended?;
    console.note(seen.summary());
    Ok(())
}

async fn to_the_end(
    unit: &UnitClient,
    seen: &mut Seen,
    display: &mut Display<'_>,
) -> Result<(), UnitCommandError> {
    loop {
        match follow(unit, seen, display).await {
            Ok(()) => return seen.judge(),
            // A Communication Manager that restarts goes on with the update.
            Err(error) if error.is_on_the_way() => {
                display.say(&["the Unit does not answer; trying again".to_owned()]);
                tokio::time::sleep(AGAIN).await;
            }
            Err(CallError::Refused { source, .. })
                if seen.id() == 0 && source.code() == Code::NotFound =>
            {
                // Nothing was ever wanted, and that is what there is.
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn follow(
    unit: &UnitClient,
    seen: &mut Seen,
    display: &mut Display<'_>,
) -> Result<(), CallError> {
    let request = v1::FollowUpdateRequest {
        update_id: seen.id(),
    };
    let mut stream = unit
        .ask("FollowUpdate", async |mut it| {
            it.follow_update(request).await
        })
        .await?;
    let failed = |status| Peer::Unit.failed("FollowUpdate", status);
    while let Some(progress) = stream.message().await.map_err(failed)? {
        let news = seen.take(progress);
        display.show(seen, &news);
        if seen.is_over() {
            return Ok(());
        }
    }
    Err(Peer::Unit.ended("FollowUpdate"))
}

/// Bars for people who look, lines for those who read later.
enum Display<'a> {
    Bars(Box<Bars>),
    Lines(&'a mut Console),
}

impl<'a> Display<'a> {
    fn of_process(console: &'a mut Console) -> Self {
        match io::stderr().is_terminal() {
            true => {
                // The plan stands above the bars.
                let _ = console.flush();
                Self::Bars(Box::new(Bars::new()))
            }
            false => Self::Lines(console),
        }
    }

    fn show(&mut self, seen: &Seen, news: &[String]) {
        match self {
            Self::Bars(bars) => bars.show(seen),
            Self::Lines(_) => self.say(news),
        }
    }

    fn say(&mut self, news: &[String]) {
        match self {
            Self::Bars(bars) => bars.say(news),
            Self::Lines(console) => news.iter().for_each(|line| console.note(line)),
        }
    }
}
