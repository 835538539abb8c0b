// Package layout is the layout of the object storage of one cluster: which key
// holds which document, and what each document looks like.
//
// It does no I/O. A server writes what [InstanceRecord.Encode] returns under the
// key that [InstanceKey] returns, with the conditional writes of package
// objectstore; this package sees to it that whatever is written can be read
// again, by this version and by those around it:
//
//   - Keys are made of names that passed the validators of package identity. A
//     builder that is given anything else returns the empty key, which no store
//     accepts: a bad name ends at the store's door and never becomes a path.
//   - Every document carries a version. One of a newer version is [ErrNewer],
//     one that is truncated, empty, not JSON, or not the document that its key
//     promises is [ErrUnreadable]. Neither means that the object is absent, and
//     neither may be overwritten: report it and leave it.
//   - Members that this version does not know survive a rewrite, so a server of
//     an older version loses nothing that a newer one wrote.
//
// Documents hold public keys and hashes of nonces, never a private key or a
// nonce.
//
// Leadership locks, group files and secrets have their keys here and their
// content in packages lease, config and secrets.
package layout
