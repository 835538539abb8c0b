// Package credentials keeps what the agent is: the authority that it trusts, the nonce
// that it came with, its own key and certificate, and the hash of the configuration that
// it applied last.
//
// They are files in one directory. User data writes ca.crt (a bundle) and nonce.jwt; the
// agent makes identity.key before it registers, identity.crt when it is registered, and
// keeps config.hash. Each is replaced in one step, so whatever happens to the machine, the
// next process finds a state that it can go on from: a key without certificate registers
// again with the same key, and a nonce that outlived its certificate is thrown away.
//
// The agent's clock may be wrong. Nothing here refuses a certificate because it is not
// valid yet; whether one has ended is told by [Identity.Expired], for the caller to act on.
//
// A [Dir] is used by one goroutine at a time. Errors never contain key or nonce.
package credentials
