//! From the wanted set of instances to the running one.
