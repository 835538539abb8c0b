// Package masking makes what a machine has written fit to be shown: it takes out nonces, user data
// and private keys, and whatever could do something to a terminal.
//
// A machine writes what it likes, and what it was made from is often among that: a script that
// prints what it does, a tool that fails with its arguments. A [Mask] is made from the template
// of the user data, not from what was rendered: so it also fits machines whose variables have changed since,
// and no nonce is needed to recognise one. What it does not know it cannot mask: an encoding of a
// program's own, or a secret that a program has got elsewhere.
//
// It masks rather too much than too little, and whole lines.
//
// The agent masks the journals of a host (agent/paver/logs), and nstance-admin its support bundles (admin/bundle), each by
// rules of its own: this package goes by the template of the user data, which neither has; journals are masked by the
// secrets that a host knows and line by line while they are read; a bundle has to be JSON afterwards. The one module that
// all three import is protos, which holds the wire contract and nothing that is done with it.
package masking
