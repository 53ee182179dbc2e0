//! The client side of the identity manager, for every daemon and the command line.
