//! Models of the protocols, run by loom: `ci/loom.sh`.
