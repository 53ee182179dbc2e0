//! How things ended, in words.

use muster_unit_file::value::exit_status::exit_status_name;
use muster_unit_file::value::signal::Signal;

/// `code=exited, status=1/FAILURE`, `code=killed, signal=TERM`.
pub(crate) fn ending(code: &str, status: i32) -> String {
    if code == "exited" {
        // What lies between is the program's own affair, whatever init scripts once meant by it.
        let code = u8::try_from(status)
            .ok()
            .filter(|code| matches!(code, 0 | 1 | 200..));
        let name = code.and_then(exit_status_name);
        return match name {
            Some(name) => format!("code=exited, status={status}/{name}"),
            None => format!("code=exited, status={status}"),
        };
    }
    format!("code={code}, signal={}", signal(status))
}

/// The name of a signal without `SIG`, or its number.
pub(crate) fn signal(number: i32) -> String {
    let known = u8::try_from(number).ok().and_then(Signal::from_number);
    match known {
        Some(signal) => signal.to_string().trim_start_matches("SIG").to_owned(),
        None => number.to_string(),
    }
}

/// How a job that did not do what was asked ended; `None` if it did, or had nothing to do.
pub(crate) fn job_failure(unit: &str, verb: &str, result: &str) -> Option<String> {
    Some(match result {
        "done" | "skipped" => return None,
        "canceled" => format!("Job for {unit} was canceled."),
        "timeout" => format!("Job for {unit} did not end in time."),
        "dependency" => format!("Unit {unit} was not touched: a unit that it needs failed."),
        "invalid" => format!("Unit {unit} is not active, so it cannot be reloaded."),
        "assert" => format!("Unit {unit} was not started: one of its assertions does not hold."),
        "unsupported" => format!("Unit {unit} is of a type that this system does not support."),
        "collected" => format!("Job for {unit} was dropped, because the unit is gone."),
        "once" => format!("Unit {unit} ran already, and may do so only once."),
        "failed" => format!("Job for {unit} failed."),
        other => format!("Job to {verb} {unit} ended as '{other}'."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_have_names() {
        assert_eq!(ending("exited", 0), "code=exited, status=0/SUCCESS");
        assert_eq!(ending("exited", 3), "code=exited, status=3");
        assert_eq!(ending("exited", 203), "code=exited, status=203/EXEC");
        assert_eq!(ending("killed", 9), "code=killed, signal=KILL");
        assert_eq!(ending("dumped", 6), "code=dumped, signal=ABRT");
        assert_eq!(ending("killed", 777), "code=killed, signal=777");
    }
}
