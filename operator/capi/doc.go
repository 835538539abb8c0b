// Package capi is what Cluster API demands of a provider, in one place: when an object is to
// be left alone, which objects stand for things of the servers, and their names and labels.
//
// An object is paused by its own annotation or by its Cluster ([Paused]), or for good because
// `clusterctl move` has copied it elsewhere ([Moved]). [OwnerMachine] finds the Machine of an
// object. [ClusterChanged] passes on the few changes of a Cluster that matter to its objects.
//
// Every name is a function of what it stands for: whoever looks for an object finds it
// without a search, and who makes it twice finds that it is there. What would be too long
// is cut, and a hash of the whole keeps it apart from others that begin alike.
package capi
