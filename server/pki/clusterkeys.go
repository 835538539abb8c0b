package pki

// Keys are those of one cluster that its servers make certificates and nonces with, as
// far as a server has them.
type Keys struct {
	Authority *Authority     // issues certificates
	Nonces    *NonceSigner   // nil where no nonces are made
	Verifier  *NonceVerifier // of nonces
}
