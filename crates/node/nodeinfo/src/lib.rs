//! What this machine is: identity, processors and their power, memory, partitions, operating system.
