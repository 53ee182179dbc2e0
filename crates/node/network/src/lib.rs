//! The networks of a node: a bridge each, a namespace per instance, addresses, names, rules, limits.
