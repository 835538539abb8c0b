// Package images asks registries which content the tag of a container image stands for.
//
// A template may name its image by a tag, which may be given to another image at any time.
// [Resolver.Digest] asks for the digest that the tag has now, at the places and with the logins with
// which hosts fetch the image: the mirrors of the template in their order, then the registry, with the
// pull secret of the image. Of an image for several architectures that is the digest of their list, of
// which each host takes its own. Nothing but that one manifest is fetched.
//
// It leaves to others what becomes of the answer; a version keeps it when it is locked. Of one template
// there is one question at a time, and none for [Again] after one that had no answer: whoever asks
// meanwhile is told so at once, so that a registry that is slow keeps nobody waiting but the first.
//
// Nothing is sent without TLS, a login goes to its own host, and to the token service that this host names, which may be
// another one, and no error or log repeats what a Secret or a registry says.
package images
