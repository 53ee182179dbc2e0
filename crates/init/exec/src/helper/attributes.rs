//! What the process is to the kernel: its place among those that lack memory, personality, memory policy, keyring.

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

use super::calls;
use super::outcome::{During, Leniency, Reporter, SetupError};
use crate::context::Identity;
use crate::sandbox::{Keyring, Sandbox};
use crate::step::Step;

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

pub(super) fn set(sandbox: &Sandbox, reporter: &Reporter) -> Result<(), SetupError> {
    if let Some(score) = sandbox.oom_score_adjust {
        match std::fs::write(OOM_SCORE, score.to_string()) {
            // In a container nobody may ask for a lower score; a daemon that wishes for one runs all the same, as with systemd.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            written => written.during(Step::OomAdjust, || {
                format!("cannot set {score} as the score for lack of memory")
            })?,
        }
    }
    if let Some(policy) = &sandbox.numa {
        let set = calls::set_memory_policy(policy.policy, &policy.nodes)
            .during(Step::NumaPolicy, || {
                format!("cannot take memory from the nodes {:?}", policy.nodes)
            });
        // On a kernel without nodes there is only one place that memory can come from.
        let leniency = match &set {
            Err(error) if error.source.raw_os_error() == Some(libc::ENOSYS) => {
                Leniency::IfUnavailable
            }
            _ => Leniency::IfAsked,
        };
        reporter.lenient("NUMAPolicy", leniency, set)?;
    }
    if let Some(personality) = sandbox.personality {
        let set = calls::set_personality(personality).during(Step::Personality, || {
            format!("cannot take on the personality {personality:#x}")
        });
        reporter.lenient("Personality", Leniency::IfAsked, set)?;
    }
    Ok(())
}

/// Gives the process a keyring, which tells it its run. Where the kernel has none, or none to spare, the process does without,
/// as with systemd.
pub(super) fn set_keyring(
    mode: Keyring,
    run: Option<&[u8; 16]>,
    identity: Option<&Identity>,
    reporter: &Reporter,
) -> Result<(), SetupError> {
    if mode == Keyring::Inherit {
        return Ok(());
    }
    let made = as_real_user(identity, || {
        calls::new_session_keyring()?;
        if mode == Keyring::Shared {
            calls::link_user_keyring()?;
        }
        Ok(())
    });
    if let (Ok(()), Some(run)) = (made, run) {
        // As root again: that is how it is known to be true. Where there is no room for it, the environment says the same.
        let _ = calls::add_session_key(c"invocation_id", run);
    }
    let scarce = matches!(&made, Err(Errno::DQUOT));
    let made = made.during(Step::Keyring, || "cannot make a keyring".to_owned());
    match made {
        Err(error) if scarce => {
            reporter.dropped("KeyringMode", &format!("{error}: {}", error.source));
            Ok(())
        }
        made => reporter
            .lenient("KeyringMode", Leniency::IfUnavailable, made)
            .map(|_| ()),
    }
}

/// The kernel makes a keyring for whoever is the real user, and finds the user's own by the same.
fn as_real_user(
    identity: Option<&Identity>,
    work: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let Some(identity) = identity else {
        return work();
    };
    let (own_uid, own_gid) = (rustix::process::getuid(), rustix::process::getgid());
    let take = |uid: Uid, gid: Gid| {
        set_thread_res_gid(gid, None, None)?;
        set_thread_res_uid(uid, None, None)
    };
    take(Uid::from_raw(identity.uid), Gid::from_raw(identity.gid))?;
    let done = work();
    take(own_uid, own_gid)?;
    done
}
