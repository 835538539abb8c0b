// Package image packs a static program into container images without a container engine.
//
// An image holds the program, those beside it and their licences, and runs the first as a user that is not root. It has no
// shell, no package manager and no certificates of others: what our programs trust they
// are told. [New] makes the image for one processor, [Write] writes those of all
// processors as an OCI image layout, and each as an archive that engines load.
//
// Equal programs and an equal [Spec] give equal bytes: nothing of the time, the place or
// the person of the build is in an image.
package image
