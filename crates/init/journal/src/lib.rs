//! muster-journal.
