// Package cache keeps what node machines are built from on the disk: blobs, which are files
// named by their digest, and roots, which are unpacked root file systems.
//
// What the cache hands out is complete. A blob gets its name only when it was verified and
// synced. A root is built in its own directory, the file system is synced, and a marker is
// written and synced last of all: a directory without a marker is garbage, and [Open] removes
// it. So a crash or a loss of power at any moment leaves what was complete before, and nothing
// half made that looks complete. What a broken download has left is kept, to be completed.
//
// What was used least recently is removed when the cache is over its limit or the file system
// is nearly full; what is in use remains. Reading a blob verifies it again, so content that
// went bad on the disk is noticed before anything is built from it.
//
// The directory is the cache's alone and no other user of the host may enter it, since roots
// hold programs with set-id bits. One process at a time may open it; a [Cache] is safe for
// concurrent use within it.
package cache
