//! Logs of the node and its instances, found and packed on request.
