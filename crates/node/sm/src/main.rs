//! The Service Manager of a node.

fn main() {}
