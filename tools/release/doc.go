// Package release makes what people download of a version from programs that are built:
// archives, packages of Debian and of RPM, charts, a bill of materials for each program,
// checksums, a statement of provenance, and signatures.
//
// Equal inputs give equal bytes: the time in everything is that of the commit, owners are
// root, the order is that of names, and nothing says where or by whom it was made. The
// signatures alone differ, as ECDSA draws a number for each.
//
// [Manifest] says what goes where; the other files write one form each.
package release
