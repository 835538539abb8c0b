// Package identity is the vocabulary with which the parts of Nstance name
// themselves and each other: identifiers, instance ids, the roles in
// certificates, the claims of a registration nonce, and the names of tags and
// environment variables that outside tools rely on.
//
// Server, agent, operator and CLI share it, so it depends on the standard
// library and a UUID package alone. It signs and verifies nothing: a [Peer] is
// worth as much as the chain of the certificate that it was read from, and
// [DecodeNonceUnverified] says what a token claims, not whether that is true.
//
// Every name from outside passes one of [ValidateName], [ValidateKind] and
// [ParseID] before it becomes part of a storage key, a path, a tag or a log
// line. What they accept contains neither a slash nor a dot nor a percent sign
// nor an upper case letter, so no such place needs to escape it.
//
// All functions are safe for concurrent use.
package identity
