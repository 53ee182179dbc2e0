//! What instances may do, per functional server, proven by a secret.
