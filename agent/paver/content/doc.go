// Package content gets what an assignment builds a machine from: the root file system of its
// image and the programs of its artifacts, both out of one cache.
//
// It reads the message of the contract and asks the host's policy at each fetch: for the keys
// that an image must be signed with, and whether a mirror or an artifact may be fetched from
// its address. What a policy refuses altogether its own package says, before this one is
// called.
//
// [Store.Fetch] does everything that can go wrong with a network, and looks at the programs
// of the image. After it [Store.Root] and [Store.Install] need the disk alone, unless
// something has been removed from the cache meanwhile.
package content
