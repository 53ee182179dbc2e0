//! Names of the instances and hosts of a network, answered on its bridge.
