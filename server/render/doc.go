// Package render makes what a machine gets out of what its group says: its user
// data, the arguments of the cloud's create call, its files and the names in
// its certificates.
//
// The functions are pure: equal arguments give equal bytes, which a cloud's
// idempotency tokens rely on. They fetch nothing; text behind a URL, secrets and
// stored objects are the caller's. All of them may be called by several
// goroutines, and none changes its arguments.
//
// Rendered user data holds the registration nonce: it must be neither logged
// nor stored. Errors name the place and the line, and hold no value of [Data].
package render
