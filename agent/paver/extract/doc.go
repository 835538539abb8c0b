// Package extract unpacks tar archives and layers of container images into a directory, and
// writes nothing outside of it.
//
// What it reads was made by others and may be hostile. So no name is ever resolved by the
// kernel as seen from the host: the directory of an entry is opened with openat2, which
// takes the unpacked tree for the root of all paths, symbolic links included, and the entry
// is made in it by its last name alone, without following a link. An archive with a name
// that contains "..", with a device node that is not one of the harmless ones, with more
// content or entries than the limits allow, or with a compression that no honest archive
// reaches is refused: the error matches [ErrRefused], and trying again is pointless. What was
// unpacked by then remains in the directory; the caller throws the directory away.
//
// What is kept: permissions with set-id bits, numeric owners, modification times, hard and
// symbolic links, named pipes, the device nodes [Devices], POSIX ACLs, file capabilities and
// attributes of user.*. Other extended attributes are left out, because labels of security
// modules and of overlay file systems belong to the host. Owners and device nodes need root.
//
// Since files keep their set-id bits, the directory must be one that no other user of the
// host can enter.
//
// Package extract neither fetches nor verifies: a caller hands in what it has verified, or
// throws the directory away when a digest turns out to be wrong.
package extract
