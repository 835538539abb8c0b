// Package image makes the root file systems of node machines out of images: of container
// registries, of archives and of debootstrap.
//
// [Builder.Ensure] returns a sealed root of the cache. What is fetched is verified before
// anything is made of it, whoever has sent it: manifests, configurations and layers of an
// image by their digests, archives by theirs. A root that the cache has needs no network,
// except where only a tag names the image: a tag is resolved each time.
//
// Images are fetched from mirrors in their order and then from the registry. Connections
// speak TLS 1.3 and are never made without TLS. Pull secrets remain in memory; nothing
// of them is in an error, a log or a file.
//
// Where keys are given, an image needs a signature by one of them, in the form that cosign
// writes with a key pair: a manifest under the tag sha256-<digest>.sig of the image's
// repository, with payloads of the type application/vnd.dev.cosign.simplesigning.v1+json.
// Keys may be ECDSA, Ed25519 and RSA; transparency logs, certificates of short life and
// signatures in the newer bundles are not looked at. Archives and what debootstrap makes
// have no signature: they are refused where keys are given.
//
// What may be fetched at all is the policy's to say; of it this package asks with each
// address of a mirror, because a mirror may have any content under a digest that somebody
// else has named.
//
// A [Builder] is safe for concurrent use.
package image
