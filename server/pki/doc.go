// Package pki proves who is who in a cluster: it keeps the cluster's authority,
// issues certificates, signs and verifies registration nonces, and says how a
// listener asks for a certificate.
//
// It knows cryptography and form, not policy. Whether an instance may register,
// whether a nonce was used before, whether a tenant still exists: the caller
// decides that, before it asks for a certificate. Whom a certificate names is
// read by package identity.
//
// All keys of identities are Ed25519, TLS is 1.3 and nothing older. Private keys
// appear in no log and no error. Clock and randomness are options; their zero
// values are the real ones. Everything here is safe for concurrent use unless it
// says otherwise.
package pki
