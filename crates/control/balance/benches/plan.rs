//! What a plan costs.
fn main() {}
