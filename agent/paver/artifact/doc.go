// Package artifact puts the programs of a node into its tree, and looks at those that a tree
// has: kubelet, containerd, runc, the CNI plugins and crictl.
//
// An artifact is a file as its project publishes it: a program, or a tar archive with
// programs, plain or compressed. Of an archive the programs alone are taken. They go to
// /usr/local/bin, where they come before those of the image, and the plugins to /opt/cni/bin;
// all belong to root and have no set-id bits. To fetch and to verify artifacts is the
// caller's business.
//
// [Check] runs programs of the tree to ask for their versions. They see nothing but the tree,
// have no rights and no network. Still, who chooses an image rules the machine that is built
// from it, so this protects the tree rather than the host.
package artifact
