// Package webhookcert gives the operator's webhooks a certificate that the API server
// trusts, where nobody else does.
//
// One Secret holds an authority of our own and a certificate from it. [Renew] says what is
// to be in it at a moment; it is pure but for the keys that it draws. Whichever replica
// comes first writes it, and all others take what is there: [Keeper] does that, and serves
// the certificate. [Trust] tells the API server of the authority; the leader alone does.
//
// When the authority is replaced, both are trusted until the old one ends, and the new one
// issues nothing in the same step, so that it is known first. So no call of the API server
// fails while certificates change.
package webhookcert
