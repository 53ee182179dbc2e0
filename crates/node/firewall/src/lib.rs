//! What instances may reach and who may reach them, as rules of nftables or iptables; also the CNI plugin `muster-firewall`.
