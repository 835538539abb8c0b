// Package tree copies, removes and measures directory trees that hold root file systems.
//
// Such a tree was made by others: its symbolic links point anywhere, its names are any
// bytes, and its device nodes are those of the kernel. So nothing here follows a link or
// leaves the file system that the tree begins on. Every step goes from an open directory to
// an entry of it by name, never by a path that the kernel would resolve again. A mount point
// within a tree is an error, because what is mounted belongs to somebody else.
//
// A copy keeps owners, permissions, times, extended attributes, hard links and device nodes;
// file content is shared with the original where the file system can do that. Owners and
// device nodes need root.
//
// The functions are safe for concurrent use on different trees. While one works on a tree
// nobody else may change it.
package tree
