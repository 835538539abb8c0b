// Package registration gives the operator its identity: a private key, and a certificate
// that names its cluster and tenant.
//
// [Obtain] goes through the steps of a first start: key, certificate, nonce. Every step
// leaves something in a Secret that the next start goes on from, so a crash between any
// two costs nothing, and two processes that start at once agree on one key. A nonce
// registers one key only; its answer, lost, is given again.
//
// [Keeper] keeps the identity fresh while the operator runs, and registers anew if it
// could not, or if a shard refuses the identity and there is a new nonce. [Identity] is
// the current one, as connections use it. What is due and when,
// [Due] decides; it is pure.
//
// Private key and nonce are in Secrets and in memory and nowhere else: no error, log line
// or status has them (S14).
//
// The tenant that an operator acts for is the one in its certificate. A configuration that
// says another is an error before any call is made (S11).
package registration
