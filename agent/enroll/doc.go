// Package enroll turns the nonce that a machine came with into its certificate.
//
// It sends the nonce with a public key and the proof that the private half is here, to
// the leader of the shard that the nonce names. Every attempt uses the same key, so an
// answer that was lost costs nothing: the server gives it again.
//
// How long to go on is measured from the start of [Run] by the nonce's own span of life,
// not by its end: whether a nonce is in time is judged by the server's clock, and this
// machine's may be wrong by a day.
package enroll
