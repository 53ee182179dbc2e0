//! What the node has to give out to instances: devices, folders, groups, variables, host names.
