//! Keys and certificates of a node: modules that make keys (PKCS#11 tokens, files), the certificates that belong to them, and signing with keys that never leave their token.
