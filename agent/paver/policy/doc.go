// Package policy reads what an administrator lets be done with root's rights on a host, and
// judges by it what a server asks for.
//
// The policy is a file of the host. User data or an image writes it, never a server: it bounds
// what somebody who has taken over a server or a cluster can make root do. Where it is missing,
// nothing is built and no operation is carried out. A file that is not understood is no policy
// either: the paver reports the error and builds nothing.
//
// [Policy.Judge] looks at an assignment as it was sent, before anything is fetched; package
// render refuses what is malformed whatever the policy says. Signatures of images are verified
// where images are fetched, with the keys of [Images.Keys].
//
// What the policy cannot do: a machine that is built has root, all capabilities and the host's
// network. Who chooses the image rules the host. [Images] is the part that counts.
package policy
