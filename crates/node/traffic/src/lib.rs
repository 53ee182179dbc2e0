//! How much instances and the node send and receive, over restarts and reboots, and what happens when that is too much.
